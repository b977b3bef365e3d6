//! Follows how far the workers of each stream are behind, all the time: the gates need it, and answers show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::node::TTL;
use consort_cluster::{ClusterStatus, Lag};
use consort_kernel::Name;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::Ingress;
use crate::cluster::Cluster;

/// How often the cluster is asked. Nodes say how far behind they are with every heartbeat, twice a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often the lag is told. A node knows of its own roles at once.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What a role that moves takes beyond the lease of its last owner: until another has taken it up, has read its
/// first frames and has said so.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(2);

/// The ingresses whose lag is followed, by their streams.
pub(super) type Followed = Arc<Mutex<BTreeMap<Name, Ingress>>>;

/// The task that follows the lag. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct LagFollower(JoinHandle<()>);

impl LagFollower {
    pub(super) fn start(followed: Followed, cluster: Cluster) -> LagFollower {
        let teller = Teller { followed, cluster, seen: Mutex::default() };
        LagFollower(tokio::spawn(teller.run()))
    }
}

impl Drop for LagFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the ingresses their lag.
struct Teller {
    followed: Followed,
    cluster: Cluster,
    /// The cluster when it was last seen.
    seen: Mutex<Option<Arc<ClusterStatus>>>,
}

impl Teller {
    /// Looks at the cluster again and again, and tells the lag meanwhile: a look takes as long as the store is
    /// slow, and just then the gates must hear of it.
    async fn run(self) {
        tokio::join!(self.look(), self.tell());
    }

    async fn look(&self) {
        let mut ticks = ticks(LOOK_EVERY);
        loop {
            ticks.tick().await;
            // While the cluster cannot be asked, what was seen grows old: better nothing than that.
            let status = self.cluster.recent().await.ok();
            *self.seen.lock() = status;
        }
    }

    async fn tell(&self) {
        let mut ticks = ticks(TELL_EVERY);
        let mut streams: BTreeMap<Name, LastKnown> = BTreeMap::new();
        loop {
            ticks.tick().await;
            let (now, status) = (Instant::now(), self.seen.lock().clone());
            let node = self.cluster.node();
            let (id, own) = node.map(|node| (node.id(), node.own_lags())).unwrap_or_default();
            let grace = node.map_or(TTL, |node| node.lease()) + TAKEN_UP_WITHIN;
            let nothing = status.is_none() && own.is_empty();
            for ingress in self.followed.lock().values() {
                let (stream, partitions) = (ingress.stream(), ingress.partitions());
                let lag = Lag::from_workers(stream, partitions, status.as_deref(), id, &own);
                *ingress.0.lag.lock() = (!nothing).then_some(lag);
                let last = streams
                    .entry(stream.clone())
                    .or_insert(LastKnown { at: now, behind: Duration::ZERO });
                ingress.0.gate.lag(last.behind(lag, now, grace));
            }
        }
    }
}

/// The lag of a stream when all of its partitions had a worker.
struct LastKnown {
    at: Instant,
    behind: Duration,
}

impl LastKnown {
    /// How far behind a stream counts as. While a partition is without a worker, its lag is not known and does not
    /// shrink; if no worker takes it up in time, it grows. Nor does it shrink while a new worker has yet to say how
    /// far behind it is; but that is awaited for a bounded time.
    fn behind(&mut self, lag: Lag, now: Instant, grace: Duration) -> Duration {
        let passed = now - self.at;
        if lag.unattended > 0 {
            return lag.behind.max(self.behind + passed.saturating_sub(grace));
        }
        if lag.silent > 0 && passed < grace {
            return lag.behind.max(self.behind);
        }
        *self = LastKnown { at: now, behind: lag.behind };
        lag.behind
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_without_a_worker_does_not_catch_up_and_then_falls_behind() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut last = LastKnown { at: start, behind: Duration::ZERO };
        // At which second; how far the others are behind (s), how many have no worker, how many one that says
        // nothing; what that comes to.
        let table = [
            (1, 0, 0, 0, 0, "all is well"),
            (2, 3, 0, 0, 3, "the store is slow"),
            (4, 0, 2, 0, 3, "the node lost its leases: nothing was applied by that"),
            (5, 0, 0, 2, 3, "they are taken up: nothing was applied by that either"),
            (6, 4, 2, 0, 4, "the others are worse"),
            (7, 0, 2, 0, 3, "just in time"),
            (10, 0, 2, 0, 6, "nobody takes them up"),
            (11, 5, 0, 0, 5, "somebody did"),
            (12, 0, 0, 0, 0, "and caught up"),
            (13, 2, 0, 1, 2, "another is taken up"),
            (18, 1, 0, 1, 1, "by somebody who never says anything"),
        ];
        for (at, behind, unattended, silent, comes_to, why) in table {
            let unknown = unattended + silent;
            let lag = Lag { behind: behind * second, unknown, unattended, silent };
            let told = last.behind(lag, start + at * second, 5 * second);
            assert_eq!(told, comes_to * second, "{why}");
        }
    }
}
