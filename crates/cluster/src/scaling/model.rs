//! A small deterministic model of a cluster under load: fluid input, partitions, nodes with a capacity, a gate, and an
//! autoscaler that does what the rule wants. One step is one second.

use consort_kernel::Timestamp;

use super::rule::decide;
use super::settings::ScaleSettings;
use super::signal::{NodeSignal, PartitionSignal, ScaleSignal, StreamSignal};
use super::state::ScaleState;

/// The rule is asked every so many seconds.
pub(super) const ASKED_EVERY: u64 = 5;

/// How long a node takes from its start to its first partition.
const STARTS_IN: u64 = 5;

/// The rates are means over so many seconds.
const WINDOW: usize = 10;

/// What is modelled.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) settings: ScaleSettings,
    /// Cores of each node.
    pub(super) cores: u32,
    /// Records a second that one node can apply with all of its cores.
    pub(super) node_applies: f64,
    /// Records a second that one partition can apply.
    pub(super) partition_applies: f64,
    /// Records a second that the store takes from all nodes.
    pub(super) store_takes: f64,
    /// The share of a node's cores that a full node uses: little where it waits for the store.
    pub(super) cpu_share: f64,
    /// Whether a gate holds the lag at two seconds.
    pub(super) gated: bool,
    /// The share of the input that goes to each partition.
    pub(super) shares: Vec<f64>,
    /// Which partitions wait for an operator.
    pub(super) stopped: Vec<bool>,
    /// Workers report what they applied every so many seconds, all at once: their batches are that long.
    pub(super) reports_every: u64,
    /// Whether an autoscaler acts on the number.
    pub(super) acts: bool,
    pub(super) world: World,
}

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    second: u64,
    /// When each node has its first partition.
    nodes: Vec<u64>,
    backlogs: Vec<f64>,
    /// What each partition applied since its worker last reported.
    unreported: Vec<f64>,
    live_before: usize,
    epochs: u64,
    /// The last seconds.
    history: Vec<Second>,
}

/// The busy share and the records of each partition; cpu, accepted and refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Second {
    busy: Vec<f64>,
    applied: Vec<f64>,
    reported: Vec<f64>,
    cpu: Vec<f64>,
    accepted: f64,
    refused: f64,
}

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    pub(super) last: Option<ScaleState>,
    /// The second and the number of each change.
    pub(super) changes: Vec<(u64, u64)>,
}

impl Model {
    /// So many nodes of two cores, each of which applies 1000 records a second, and 32 partitions.
    pub(super) fn with_nodes(nodes: usize) -> Model {
        let partitions = 32;
        Model {
            settings: ScaleSettings::default(),
            cores: 2,
            node_applies: 1000.0,
            partition_applies: 1000.0,
            store_takes: f64::INFINITY,
            cpu_share: 1.0,
            gated: true,
            shares: vec![1.0 / partitions as f64; partitions],
            stopped: vec![false; partitions],
            reports_every: 1,
            acts: true,
            world: World {
                nodes: vec![0; nodes],
                backlogs: vec![0.0; partitions],
                unreported: vec![0.0; partitions],
                live_before: nodes,
                ..World::default()
            },
        }
    }

    /// All of the input goes to one partition.
    pub(super) fn with_hot_key(mut self) -> Model {
        self.shares.iter_mut().for_each(|share| *share = 0.0);
        self.shares[7] = 1.0;
        self
    }

    /// So many records wait in all partitions together.
    pub(super) fn with_backlog(mut self, records: f64) -> Model {
        let each = records / self.world.backlogs.len() as f64;
        self.world.backlogs.iter_mut().for_each(|backlog| *backlog = each);
        self
    }

    /// So many nodes are there from now on.
    pub(super) fn set_nodes(&mut self, nodes: usize) {
        self.world.nodes = vec![0; nodes];
    }

    pub(super) fn live(&self) -> usize {
        self.world.nodes.iter().filter(|from| **from <= self.world.second).count()
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.world.second * 1000)
    }

    /// Runs for so many seconds with this input, and lets the rule decide.
    pub(super) fn run(&mut self, seconds: u64, offered: impl Fn(u64) -> f64) -> Course {
        self.run_with(seconds, offered, Course::default())
    }

    /// The same, going on from an earlier course.
    pub(super) fn run_with(
        &mut self,
        seconds: u64,
        offered: impl Fn(u64) -> f64,
        mut course: Course,
    ) -> Course {
        for at in 0..seconds {
            self.step(offered(at));
            if self.world.second.is_multiple_of(ASKED_EVERY) {
                let next = decide(&self.signal(), course.last.as_ref(), &self.settings, self.now());
                if course.last.as_ref().is_some_and(|last| last.wanted != next.wanted) {
                    course.changes.push((at, next.wanted));
                }
                self.act(next.wanted as usize);
                course.last = Some(next);
            }
        }
        course
    }

    fn act(&mut self, wanted: usize) {
        if !self.acts {
            return;
        }
        let starts = self.world.second + STARTS_IN;
        while self.world.nodes.len() < wanted {
            self.world.nodes.push(starts);
        }
        self.world.nodes.truncate(wanted);
    }

    fn step(&mut self, offered: f64) {
        self.world.second += 1;
        let live = self.live().max(1);
        if live != self.world.live_before {
            self.world.live_before = live;
            self.world.epochs += 1;
        }
        let mut second = Second { cpu: vec![0.0; live], ..Second::default() };
        let working = self.stopped.iter().filter(|stopped| !**stopped).count() as f64;
        let of_store = self.store_takes / working.max(1.0);
        for index in 0..self.shares.len() {
            let input = offered * self.shares[index];
            let node = index % live;
            let shared = self.shares_node(node, live);
            let most = match self.stopped[index] {
                true => 0.0,
                false => self.partition_applies.min(of_store).min(shared),
            };
            let (backlog, held) = (&mut self.world.backlogs[index], self.gated && most > 0.0);
            // The gate lets in as much as keeps the backlog at two seconds of what is applied.
            let room = if held { (2.0 * most + most - *backlog).max(0.0) } else { input };
            let accepted = input.min(room);
            *backlog += accepted;
            let applied = backlog.min(most);
            *backlog -= applied;
            second.accepted += accepted;
            second.refused += input - accepted;
            let busy = if most > 0.0 { applied / most } else { 0.0 };
            second.busy.push(busy);
            second.applied.push(applied);
            self.world.unreported[index] += applied;
            let is_reported = self.world.second.is_multiple_of(self.reports_every);
            let unreported = &mut self.world.unreported[index];
            second.reported.push(if is_reported { std::mem::take(unreported) } else { 0.0 });
            second.cpu[node] +=
                applied / self.node_applies * f64::from(self.cores) * self.cpu_share;
        }
        self.world.history.push(second);
        if self.world.history.len() > WINDOW {
            self.world.history.remove(0);
        }
    }

    /// What one partition of a node may apply, if all of its partitions with input share it.
    fn shares_node(&self, node: usize, live: usize) -> f64 {
        let of_node = (0..self.shares.len()).filter(|index| index % live == node);
        let working = |index: &usize| {
            !self.stopped[*index]
                && (self.shares[*index] > 0.0 || self.world.backlogs[*index] > 0.0)
        };
        self.node_applies / of_node.filter(working).count().max(1) as f64
    }

    /// What the nodes would report now.
    pub(super) fn signal(&self) -> ScaleSignal {
        let live = self.live().max(1);
        let history = &self.world.history;
        let mean = |of: &dyn Fn(&Second) -> f64, over: usize| {
            let last = &history[history.len().saturating_sub(over)..];
            last.iter().map(of).sum::<f64>() / last.len().max(1) as f64
        };
        let node = |node: usize| NodeSignal {
            cpu_millicores: (mean(&|s| s.cpu.get(node).copied().unwrap_or_default(), WINDOW)
                * 1000.0) as u64,
            cores: self.cores,
        };
        let partition = |index: usize| {
            let rate = mean(&|s| s.applied[index], WINDOW);
            let waits = self.world.backlogs[index] / rate.max(0.001);
            PartitionSignal {
                name: format!("rides/{index}"),
                node: format!("n{}", index % live),
                busy_permille: (mean(&|s| s.busy[index], WINDOW) * 1000.0).round() as u64,
                applied_per_s: mean(&|s| s.reported[index], WINDOW).round() as u64,
                lag_ms: (waits.min(100_000.0) * 1000.0) as u64,
                stopped: self.stopped[index],
            }
        };
        ScaleSignal {
            nodes: (0..live).map(node).collect(),
            partitions: (0..self.shares.len()).map(partition).collect(),
            streams: vec![StreamSignal {
                stream: "rides".into(),
                accepted_per_s: mean(&|s| s.accepted, WINDOW / 2).round() as u64,
                refused_per_s: mean(&|s| s.refused, WINDOW / 2).round() as u64,
                delayed_per_s: 0,
            }],
            epochs: self.world.epochs,
        }
    }
}
