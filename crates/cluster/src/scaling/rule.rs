//! The rule: how many nodes are wanted, as a pure function of the reports, the last decision and the time.
//!
//! Up: input lags or is refused for some seconds, and more nodes can help. Down: for a long time the load would fit
//! one node less with room to spare. Between the two lies a gap, so that a step down never causes the next step up.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use super::settings::ScaleSettings;
use super::signal::{PartitionSignal, ScaleSignal, StreamSignal};
use super::words;

/// A partition that is busy for less of its time, in thousandths, needs no node.
const ACTIVE_PERMILLE: u64 = 20;

/// A partition that is busy for this much of its time cannot go faster.
const SATURATED_PERMILLE: u64 = 950;

/// A lag that counts. An adaptive gate holds the lag near it by refusing posts.
const LAGGING: Duration = Duration::from_secs(2);

/// A partition behind a gate that refuses: the gate holds its lag around [`LAGGING`], often a little below.
const HELD_BACK: Duration = Duration::from_secs(1);

/// A lag that shrinks so fast that it will be gone by then needs no help: a new node costs a hand-over.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How long input must lag or be refused.
const PRESSED_FOR: Duration = Duration::from_secs(10);

/// How long no pressure must be seen before the steps under it are forgotten: a gate pauses between refusals.
const RELIEVED_FOR: Duration = Duration::from_secs(60);

/// Refusals and delays below this share of a stream's input, in thousandths, are no pressure.
const REFUSED_PERMILLE: u64 = 10;

/// After a step up nothing is judged for so long: a hand-over and one window of the rates.
const HOLD: Duration = Duration::from_secs(30);

/// Nor for so long after the new node has come.
const HOLD_AFTER_JOIN: Duration = Duration::from_secs(15);

/// The node added last must have raised the rate applied by this much, or more nodes do not help.
const RAISED_PERCENT: u64 = 10;

/// After so long a node more is tried all the same.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// A node is full at this share of its cores, in thousandths.
const FULL_PERMILLE: u64 = 700;

/// A node less is wanted when the others would be at this share of their cores or less.
const SPARE_PERMILLE: u64 = 500;

/// No node less is wanted so soon after a hand-over, or within `down_after` of one where that is shorter.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// Between two decisions further apart nothing was seen, and what lasted before is not known to have lasted.
const GAP: Duration = Duration::from_secs(60);

/// Why more nodes would not help, or are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleLimit {
    /// All lag is in partitions that have a node of their own.
    HotPartition,
    /// The node added last did not raise the rate applied.
    Store,
    /// All partitions that lag wait for an operator.
    Stopped,
    /// Each active partition has a node of its own.
    Partitions,
    /// `[scale] max` is reached.
    Max,
}

impl ScaleLimit {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ScaleLimit::HotPartition => "hot-partition",
            ScaleLimit::Store => "store",
            ScaleLimit::Stopped => "stopped",
            ScaleLimit::Partitions => "partitions",
            ScaleLimit::Max => "max",
        }
    }
}

/// What a decision was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvidence {
    /// Live nodes that are not about to leave.
    pub live: u64,
    /// Partitions with work.
    pub active: u64,
    /// The processor time that the live nodes use, in thousandths of one core.
    pub load_millicores: u64,
    /// The cores of all live nodes.
    pub cores: u64,
    /// Records applied a second.
    pub applied_per_s: u64,
    /// Records acknowledged a second.
    pub accepted_per_s: u64,
    /// Records refused for overload a second.
    pub refused_per_s: u64,
    /// Records held at the door a second.
    pub delayed_per_s: u64,
    /// The largest lag of an active partition, in milliseconds.
    pub lag_ms: u64,
}

/// A step up, to be judged by what it raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUp {
    /// When.
    #[serde(with = "crate::format::millis")]
    pub at: Timestamp,
    /// The live nodes before it.
    pub live: u64,
    /// The records applied a second before it.
    pub applied_per_s: u64,
}

/// A decision, and what the next one has to remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleState {
    /// When it was made.
    #[serde(with = "crate::format::millis")]
    pub decided: Timestamp,
    /// How many nodes the cluster wants.
    pub wanted: u64,
    /// Why, in a sentence.
    pub why: String,
    /// Why there are not more.
    pub limited_by: Option<ScaleLimit>,
    /// When `wanted` last changed.
    #[serde(with = "crate::format::millis")]
    pub since: Timestamp,
    /// What it was made from.
    pub evidence: ScaleEvidence,
    /// When the number of live nodes last grew.
    #[serde(with = "crate::format::millis")]
    pub joined: Timestamp,
    /// Since when input lags or is refused.
    #[serde(with = "crate::format::maybe_millis")]
    pub pressed_since: Option<Timestamp>,
    /// Since when it does not.
    #[serde(with = "crate::format::maybe_millis")]
    pub relieved_since: Option<Timestamp>,
    /// The sum of the lags that count at the last few decisions, in milliseconds.
    #[serde(with = "crate::format::timed")]
    pub lags: Vec<(Timestamp, u64)>,
    /// Since when the load would fit one node less.
    #[serde(with = "crate::format::maybe_millis")]
    pub calm_since: Option<Timestamp>,
    /// The last step up under the present pressure.
    pub step_up: Option<StepUp>,
    /// Until when the store is taken for the limit.
    #[serde(with = "crate::format::maybe_millis")]
    pub store_until: Option<Timestamp>,
    /// The sum of the workers' epochs.
    pub epochs: u64,
    /// When that sum last changed: the last hand-over.
    #[serde(with = "crate::format::millis")]
    pub moved: Timestamp,
}

/// The next decision.
pub fn decide(
    signal: &ScaleSignal,
    previous: Option<&ScaleState>,
    settings: &ScaleSettings,
    now: Timestamp,
) -> ScaleState {
    let facts = Facts::new(signal);
    let mut next = match previous {
        Some(previous) => previous.clone(),
        None => ScaleState::first(&facts, signal, settings, now),
    };
    next.observe(&facts, signal, now);
    next.settle_bounds(&facts, settings, now);
    match next.is_pressed(now) {
        true => next.judge_pressure(&facts, settings, now),
        false => next.judge_calm(&facts, settings, now),
    }
    next
}

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
    fn new(signal: &'a ScaleSignal) -> Facts<'a> {
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

    fn lag_sum(&self) -> u64 {
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

    /// How many nodes the present input needs, by the processor time and by what is offered.
    fn needed(&self) -> u64 {
        let ScaleEvidence { live, applied_per_s, load_millicores, cores, .. } = self.evidence;
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
    fn is_hot_partition(&self) -> bool {
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

impl ScaleState {
    /// Where nothing was decided before, the cluster is as large as it should be.
    fn first(
        facts: &Facts<'_>,
        signal: &ScaleSignal,
        settings: &ScaleSettings,
        now: Timestamp,
    ) -> ScaleState {
        let wanted = bounded(facts.evidence.live, settings);
        ScaleState {
            decided: now,
            wanted,
            why: words::begins(wanted),
            limited_by: None,
            since: now,
            evidence: facts.evidence.clone(),
            joined: now,
            pressed_since: None,
            relieved_since: None,
            lags: Vec::new(),
            calm_since: None,
            step_up: None,
            store_until: None,
            epochs: signal.epochs,
            moved: now,
        }
    }

    /// Takes note of what the signal shows.
    fn observe(&mut self, facts: &Facts<'_>, signal: &ScaleSignal, now: Timestamp) {
        let before = std::mem::replace(&mut self.evidence, facts.evidence.clone());
        if now.since(self.decided) > GAP {
            (self.pressed_since, self.calm_since) = (None, None);
            self.lags.clear();
        }
        self.decided = now;
        if self.evidence.live > before.live {
            self.joined = now;
        }
        if self.epochs != signal.epochs {
            (self.epochs, self.moved) = (signal.epochs, now);
        }
        let pressing = facts.gate.is_some() || self.lag_stays(facts.lag_sum(), now);
        if pressing {
            self.relieved_since = None;
            self.pressed_since.get_or_insert(now);
        } else {
            self.pressed_since = None;
            let relieved = *self.relieved_since.get_or_insert(now);
            if now.since(relieved) >= RELIEVED_FOR {
                (self.step_up, self.store_until) = (None, None);
            }
        }
        let live = self.evidence.live;
        if !pressing && live > 1 && facts.load_of(live - 1) <= SPARE_PERMILLE {
            self.calm_since.get_or_insert(now);
        } else {
            self.calm_since = None;
        }
    }

    /// Whether there is a lag that will not be gone by itself soon.
    fn lag_stays(&mut self, sum: u64, now: Timestamp) -> bool {
        self.lags.retain(|(at, _)| now.since(*at) <= PRESSED_FOR);
        let before = self.lags.first().copied();
        self.lags.push((now, sum));
        if sum == 0 {
            return false;
        }
        let Some((at, before)) = before.filter(|(_, before)| *before > sum) else { return true };
        let (time, less) = (now.since(at).as_millis(), u128::from(before - sum));
        // At this rate it is gone after `sum / (less / time)`.
        u128::from(sum) * time > GONE_WITHIN.as_millis() * less
    }

    fn is_pressed(&self, now: Timestamp) -> bool {
        self.pressed_since.is_some_and(|since| now.since(since) >= PRESSED_FOR)
    }

    /// Keeps the number within its bounds, and follows nodes that were added by hand.
    fn settle_bounds(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        let live = facts.evidence.live;
        if self.joined == now && live > self.wanted && bounded(live, settings) > self.wanted {
            self.calm_since = None;
            self.change(bounded(live, settings), now, &words::joined(live));
        }
        let within = bounded(self.wanted, settings);
        if within != self.wanted {
            self.change(within, now, &words::bounds(settings));
        }
    }

    fn judge_pressure(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        if let Some(limit) = self.limit(facts, settings, now) {
            self.stay(limit, &words::limit(limit, self, facts, settings));
            return;
        }
        self.limited_by = None;
        let ScaleEvidence { live, active, applied_per_s, .. } = facts.evidence;
        let held = self.step_up.is_some_and(|step| {
            now.since(step.at) < HOLD
                || live > step.live && now.since(self.joined) < HOLD_AFTER_JOIN
        });
        // Where the last step did not help, one node is enough to find out whether that has changed.
        let needed = if self.store_until.is_some() { live + 1 } else { facts.needed() };
        let target = needed.min(2 * live).min(active).min(settings.max);
        if held || target <= self.wanted {
            return;
        }
        self.step_up = Some(StepUp { at: now, live, applied_per_s });
        self.store_until = None;
        self.change(target, now, &words::pressure(facts));
    }

    /// Why more nodes would not help, or are not allowed.
    fn limit(
        &mut self,
        facts: &Facts<'_>,
        settings: &ScaleSettings,
        now: Timestamp,
    ) -> Option<ScaleLimit> {
        let ScaleEvidence { live, active, applied_per_s, .. } = facts.evidence;
        if facts.is_hot_partition() {
            return Some(ScaleLimit::HotPartition);
        }
        if self.store_until.is_some_and(|until| now < until) {
            return Some(ScaleLimit::Store);
        }
        if let Some(step) = self.step_up.filter(|_| self.store_until.is_none()) {
            let settled = now.since(step.at) >= HOLD && now.since(self.joined) >= HOLD_AFTER_JOIN;
            let raised = applied_per_s * 100 >= step.applied_per_s * (100 + RAISED_PERCENT);
            if settled && live > step.live && !raised {
                self.store_until = Some(now.after(ASK_AGAIN_AFTER));
                return Some(ScaleLimit::Store);
            }
        }
        if live >= settings.max {
            return Some(ScaleLimit::Max);
        }
        (live >= active).then_some(ScaleLimit::Partitions)
    }

    fn judge_calm(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        let live = facts.evidence.live;
        if facts.stopped > 0 && facts.lagging.is_empty() && facts.gate.is_none() {
            let limit = ScaleLimit::Stopped;
            self.stay(limit, &words::limit(limit, self, facts, settings));
        } else if self.limited_by.take().is_some() {
            self.why = words::relieved(self.wanted);
        }
        if self.wanted < live && facts.load_of(self.wanted) > FULL_PERMILLE {
            let why = words::no_longer_fits(self.wanted, facts);
            return self.change(bounded(live, settings), now, &why);
        }
        let calm_for = self.calm_since.map(|since| now.since(since)).unwrap_or_default();
        let due = self.calm_since.is_some() && calm_for >= settings.down_after;
        if !due || now.since(self.moved) < SETTLED_AFTER.min(settings.down_after) {
            return;
        }
        // Nodes that were wanted and never came are not needed either.
        let target = if self.wanted > live { live } else { live - 1 };
        let target = bounded(target, settings);
        if target < self.wanted {
            self.calm_since = None;
            self.change(target, now, &words::calm(target, calm_for, facts));
        }
    }

    fn change(&mut self, wanted: u64, now: Timestamp, reason: &str) {
        if wanted == self.wanted {
            return;
        }
        self.why = format!("{} → {wanted}: {reason}", self.wanted);
        (self.wanted, self.since, self.limited_by) = (wanted, now, None);
    }

    fn stay(&mut self, limit: ScaleLimit, reason: &str) {
        self.limited_by = Some(limit);
        self.why = format!("stays at {}: {reason}", self.wanted);
    }
}

fn bounded(nodes: u64, settings: &ScaleSettings) -> u64 {
    nodes.max(settings.min).min(settings.max).max(1)
}
