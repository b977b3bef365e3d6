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
    /// The largest lag of a partition, in seconds; none while the lag of one is unknown.
    pub(super) lag: Option<f64>,
    /// Nodes that the cluster wants.
    pub(super) wanted: Option<u64>,
    /// Live nodes that are not about to leave.
    pub(super) live: usize,
    /// Nodes that own partitions at work.
    pub(super) owning: usize,
}

/// What a change of the members cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ThroughputLost {
    /// Records applied a second before it.
    pub(super) before_per_s: f64,
    /// Records that would have been applied at that rate and were not: the deficit adds up, higher rates make up for it,
    /// and the largest sum counts. What a worker applies after its last report is not seen, so it is rather too large.
    pub(super) records: f64,
}

/// The rate before a change is a mean over up to so many seconds, which end [`LOOKS_BACK`] before it.
const BEFORE: f64 = 20.0;

/// What a change costs begins so many seconds before it is seen: a node drains its partitions first.
const LOOKS_BACK: f64 = 5.0;

/// And it is looked for in so many seconds.
const AROUND: f64 = 30.0;

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
        let mut lag = workers.clone().next().map(|_| 0);
        for worker in workers {
            let applied = self.applied.entry((worker.role.to_string(), worker.epoch)).or_default();
            *applied = worker.applied.max(*applied);
            lag = lag.zip(worker.lag).map(|(most, lag)| lag.max(most));
            owning.extend(worker.owner.as_deref().filter(|_| worker.ready));
        }
        let sample = Sample {
            at,
            offered,
            accepted,
            applied: self.applied.values().sum(),
            lag: lag.map(|millis| millis as f64 / 1000.0),
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

    /// What a change of the members at this time cost.
    pub(super) fn lost(&self, at: f64) -> ThroughputLost {
        let begins = at - LOOKS_BACK;
        // Before the last step of the load another rate was right.
        let steps = [self.stepped_up, self.stepped_down];
        let step = steps.into_iter().filter(|step| *step <= begins).fold(0.0, f64::max);
        let before_per_s = self.rate(step.max(begins - BEFORE), begins);
        let (mut deficit, mut records) = (0.0_f64, 0.0_f64);
        let around = begins..begins + AROUND;
        for pair in self.samples.windows(2).filter(|pair| around.contains(&pair[1].at)) {
            let (before, after) = (&pair[0], &pair[1]);
            // Where less is offered than before, less is missing.
            let expected = before_per_s.min(after.offered) * (after.at - before.at);
            let applied = after.applied.saturating_sub(before.applied) as f64;
            deficit = (deficit + expected - applied).max(0.0);
            records = records.max(deficit);
        }
        ThroughputLost { before_per_s, records }
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

    /// A look each second, at a load of 100 records a second that is applied at these rates.
    fn course(offered: impl Fn(u32) -> f64, applies: impl Fn(u32) -> u64) -> Course {
        let mut applied = 0;
        let sample = |at: u32| {
            applied += applies(at);
            Sample { at: f64::from(at), offered: offered(at), applied, ..Sample::default() }
        };
        Course { samples: (0..100).map(sample).collect(), ..Course::default() }
    }

    #[test]
    fn what_is_lost_is_what_was_not_applied_around_a_change() {
        let lost = |course: Course| course.lost(50.0);
        // Three seconds without any work, and afterwards more than before.
        let pauses = |at: u32| match at {
            0..50 => 100,
            50..53 => 0,
            _ => 150,
        };
        let paused = lost(course(|_| 300.0, pauses));
        assert_eq!(paused.before_per_s, 100.0);
        assert_eq!(paused.records, 300.0);
        // Batches of a second are no loss, and neither is a load that ends.
        let batches = lost(course(|_| 100.0, |at| if at % 2 == 0 { 200 } else { 0 }));
        assert!(batches.records <= 100.0, "{batches:?}");
        let ends = |high: u32, low: u32| move |at: u32| if at < 55 { high } else { low };
        let mut ended = course(|at| f64::from(ends(100, 5)(at)), |at| u64::from(ends(100, 5)(at)));
        ended.stepped_down = 55.0;
        assert!(lost(ended).records <= 1.0);
    }

    #[test]
    fn the_lag_is_known_only_if_each_partition_tells_it() {
        let status = |lags: &[Option<u64>]| -> Cluster {
            let role = |(n, lag): (usize, &Option<u64>)| {
                serde_json::json!({
                    "role": format!("worker:rides/{n}"), "owner": "a", "epoch": 1, "ready": true, "lag": lag,
                    "applied": 0, "refusals": [],
                })
            };
            let roles: Vec<_> = lags.iter().enumerate().map(role).collect();
            let status =
                serde_json::json!({"now": 0, "nodes": [], "roles": roles, "unreadable": []});
            serde_json::from_value(status).unwrap()
        };
        for (lags, expected) in [
            (&[Some(0), Some(3000)][..], Some(3.0)),
            (&[Some(0), None], None),
            (&[None, Some(0)], None),
            (&[], None),
        ] {
            let sample = Course::default().note(0.0, 0.0, 0, &status(lags));
            assert_eq!(sample.lag, expected, "{lags:?}");
        }
    }

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
