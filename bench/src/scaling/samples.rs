//! What was seen over time.

use std::collections::{BTreeMap, BTreeSet};

use consort_client::Cluster;
use serde::Serialize;

/// One look.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sample {
    /// Seconds since the run began.
    pub(super) at: f64,
    /// Records a second that the load offers.
    pub(super) offered: f64,
    /// Records acknowledged so far.
    pub(super) accepted: u64,
    /// Records applied so far.
    pub(super) applied: u64,
    /// The largest lag of a partition, in seconds.
    pub(super) lag: f64,
    /// Nodes that the cluster wants.
    pub(super) wanted: Option<u64>,
    /// Live nodes that are not about to leave.
    pub(super) live: usize,
    /// Nodes that own partitions at work.
    pub(super) owning: usize,
}

/// All looks of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Course {
    pub(super) samples: Vec<Sample>,
    /// When the load stepped up and down.
    pub(super) stepped_up: f64,
    pub(super) stepped_down: f64,
    /// What each tenure of a partition has applied: the counts of a tenure begin at nothing.
    #[serde(skip)]
    applied: BTreeMap<(String, u64), u64>,
}

impl Course {
    /// Takes note of a look.
    pub(super) fn note(
        &mut self,
        at: f64,
        offered: f64,
        accepted: u64,
        cluster: &Cluster,
    ) -> Sample {
        let status = &cluster.status;
        let workers = status.roles.iter().filter(|role| role.role.kind() == "worker");
        let mut owning = BTreeSet::new();
        let mut lag = 0;
        for worker in workers {
            let applied = self.applied.entry((worker.role.to_string(), worker.epoch)).or_default();
            *applied = worker.applied.max(*applied);
            lag = lag.max(worker.lag.unwrap_or_default());
            owning.extend(worker.owner.as_deref().filter(|_| worker.ready));
        }
        let sample = Sample {
            at,
            offered,
            accepted,
            applied: self.applied.values().sum(),
            lag: lag as f64 / 1000.0,
            wanted: cluster.wanted,
            live: status.nodes.iter().filter(|node| node.live && !node.draining).count(),
            owning: owning.len(),
        };
        self.samples.push(sample);
        sample
    }

    /// Records applied a second between two times.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        let within = || self.samples.iter().filter(|sample| (from..=to).contains(&sample.at));
        let (Some(first), Some(last)) = (within().next(), within().next_back()) else { return 0.0 };
        let time = last.at - first.at;
        if time > 0.0 {
            (last.applied - first.applied.min(last.applied)) as f64 / time
        } else {
            0.0
        }
    }

    /// The first look at or after `from` that is so.
    pub(super) fn first(&self, from: f64, fits: impl Fn(&Sample) -> bool) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.at >= from && fits(sample))
    }

    /// When the number of nodes that own partitions changed, and between which numbers.
    pub(super) fn changes(&self) -> Vec<(f64, usize, usize)> {
        let pairs = self.samples.windows(2).filter(|pair| pair[0].owning != pair[1].owning);
        pairs.map(|pair| (pair[1].at, pair[0].owning, pair[1].owning)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_changes_are_those_of_the_samples() {
        let sample = |at: u32| Sample {
            at: f64::from(at),
            applied: u64::from(at) * 100,
            owning: if at < 5 { 1 } else { 2 },
            ..Sample::default()
        };
        let course = Course { samples: (0..10).map(sample).collect(), ..Course::default() };
        assert_eq!(course.rate(2.0, 8.0), 100.0);
        assert_eq!(course.rate(50.0, 60.0), 0.0);
        assert_eq!(course.changes(), [(5.0, 1, 2)]);
        assert_eq!(
            course.first(3.0, |sample| sample.owning == 2).map(|sample| sample.at),
            Some(5.0)
        );
    }
}
