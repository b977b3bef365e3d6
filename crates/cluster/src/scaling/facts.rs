//! What the rule asks of one signal.

use std::time::Duration;

use super::signal::{PartitionSignal, ScaleSignal, StreamSignal};
use super::state::ScaleEvidence;

/// A partition that is busy for less of its time, in thousandths, needs no node.
const ACTIVE_PERMILLE: u64 = 20;

/// A partition that is busy for this much of its time cannot go faster.
const SATURATED_PERMILLE: u64 = 950;

/// A lag that counts. An adaptive gate holds the lag near it by refusing posts.
const LAGGING: Duration = Duration::from_secs(2);

/// A partition behind a gate that refuses: the gate holds its lag around [`LAGGING`], often a little below.
const HELD_BACK: Duration = Duration::from_secs(1);

/// Refusals and delays below this share of a stream's input, in thousandths, are no pressure.
const REFUSED_PERMILLE: u64 = 10;

/// A node is full at this share of its cores, in thousandths.
pub(super) const FULL_PERMILLE: u64 = 700;

/// What the rule asks of one signal.
pub(super) struct Facts<'a> {
    pub(super) evidence: ScaleEvidence,
    /// Active partitions whose lag counts.
    pub(super) lagging: Vec<&'a PartitionSignal>,
    /// Those, and active partitions that are a little behind: for the time of a gate's refusals.
    held_back: Vec<&'a PartitionSignal>,
    active: Vec<&'a PartitionSignal>,
    /// Stopped partitions whose lag counts or is not known.
    pub(super) stopped: u64,
    /// The stream of which most is refused or delayed, if that is pressure.
    pub(super) gate: Option<&'a StreamSignal>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(signal: &'a ScaleSignal) -> Facts<'a> {
        let lags_by = |partition: &PartitionSignal, by: Duration| {
            Duration::from_millis(partition.lag_ms) >= by
        };
        let is_active = |partition: &&PartitionSignal| {
            partition.busy_permille > ACTIVE_PERMILLE && !partition.stopped
        };
        let active: Vec<_> = signal.partitions.iter().filter(is_active).collect();
        let behind = |by: Duration| {
            active.iter().copied().filter(move |partition| lags_by(partition, by)).collect()
        };
        let turned_away = |stream: &StreamSignal| stream.refused_per_s + stream.delayed_per_s;
        let pressing = |stream: &&StreamSignal| {
            let offered = stream.accepted_per_s + stream.refused_per_s;
            turned_away(stream) > 0 && turned_away(stream) * 1000 >= offered * REFUSED_PERMILLE
        };
        let gate = signal.streams.iter().filter(pressing).max_by_key(|stream| turned_away(stream));
        let sum = |of: fn(&StreamSignal) -> u64| signal.streams.iter().map(of).sum();
        let evidence = ScaleEvidence {
            live: signal.nodes.len() as u64,
            active: active.len() as u64,
            load_millicores: signal.nodes.iter().map(|node| node.cpu_millicores).sum(),
            cores: signal.nodes.iter().map(|node| u64::from(node.cores.max(1))).sum(),
            applied_per_s: signal.partitions.iter().map(|each| each.applied_per_s).sum(),
            accepted_per_s: sum(|stream| stream.accepted_per_s),
            refused_per_s: sum(|stream| stream.refused_per_s),
            delayed_per_s: sum(|stream| stream.delayed_per_s),
            lag_ms: active.iter().map(|partition| partition.lag_ms).max().unwrap_or_default(),
        };
        Facts {
            lagging: behind(LAGGING),
            held_back: behind(HELD_BACK),
            stopped: signal.partitions.iter().filter(|partition| partition.stopped).count() as u64,
            active,
            evidence,
            gate,
        }
    }

    pub(super) fn lag_sum(&self) -> u64 {
        self.lagging.iter().map(|partition| partition.lag_ms).sum()
    }

    /// The load of each node if `nodes` shared it, as a share of its cores, in thousandths. Nodes with different
    /// numbers of cores count by their mean.
    pub(super) fn load_of(&self, nodes: u64) -> u64 {
        let ScaleEvidence { live, load_millicores, cores, .. } = self.evidence;
        // load / (nodes × cores / live), as millicores are thousandths already.
        load_millicores * live.max(1) / (nodes.max(1) * cores.max(1))
    }

    /// Input that clients offer, in records a second.
    pub(super) fn offered(&self) -> u64 {
        self.evidence.accepted_per_s + self.evidence.refused_per_s
    }

    /// How many nodes the present input needs, by the processor time and by what is offered beside what is applied.
    pub(super) fn needed(&self, applied_per_s: u64) -> u64 {
        let ScaleEvidence { live, load_millicores, cores, .. } = self.evidence;
        let room = (FULL_PERMILLE * cores / live.max(1)).max(1);
        let by_load = load_millicores.div_ceil(room);
        // Where nothing is applied, no ratio says how much more is needed.
        let by_input = match applied_per_s {
            0 => 0,
            applied => (live * self.offered()).div_ceil(applied),
        };
        (live + 1).max(by_load).max(by_input)
    }

    /// Whether all lag is in partitions that have a node of their own and cannot go faster.
    pub(super) fn is_hot_partition(&self) -> bool {
        let behind = if self.gate.is_some() { &self.held_back } else { &self.lagging };
        let alone = |partition: &&PartitionSignal| {
            let same_node = self.active.iter().filter(|other| other.node == partition.node);
            partition.busy_permille >= SATURATED_PERMILLE && same_node.count() == 1
        };
        !behind.is_empty() && behind.iter().all(alone)
    }

    pub(super) fn hottest(&self) -> Option<&'a PartitionSignal> {
        self.active.iter().copied().max_by_key(|partition| partition.lag_ms)
    }
}
