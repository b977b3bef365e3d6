//! How many nodes the cluster wants: up fast when work piles up, down slowly when there is none. Pure:
//! whoever asks hands in what it sees.

use std::time::Duration;

use crate::status::ClusterStatus;

/// Input older than this piles up.
pub const LAGGING: Duration = Duration::from_secs(5);

/// A lag that shrinks so fast that it will be gone by then needs no help: a new node costs a hand-over.
pub const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How long nothing may lag before a node less is wanted, and then again for the next.
pub const CALM_FOR: Duration = Duration::from_secs(300);

/// The kind of the roles that fold partitions.
const WORKER: &str = "worker";

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Scale {
    /// When, in milliseconds of store time, and the lags' sum, in milliseconds.
    last: Option<(u64, u64)>,
    /// Since when nothing lags with the same number of nodes.
    calm: Option<(u64, usize)>,
}

impl Scale {
    /// The number of nodes wanted, by what `status` shows now and what it showed before.
    pub fn wanted(&mut self, status: &ClusterStatus) -> usize {
        let live = status.nodes.iter().filter(|node| node.live && !node.draining).count();
        // Only partitions: more nodes do not make the sink of a deliverer any faster.
        let workers = status.roles.iter().filter(|role| role.role.kind() == WORKER);
        let lags = workers.filter_map(|role| role.lag);
        let lagging: Vec<u64> = lags.filter(|&lag| Duration::from_millis(lag) >= LAGGING).collect();
        let sum: u64 = lagging.iter().sum();
        let before = self.last.replace((status.now, sum));
        if !lagging.is_empty() {
            self.calm = None;
            return match shrinks_away(before, status.now, sum) {
                true => live.max(1),
                false => more(live, lagging.len()),
            };
        }
        let (since, nodes) = *self.calm.get_or_insert((status.now, live));
        if nodes != live {
            self.calm = Some((status.now, live));
            return live.max(1);
        }
        let calm = Duration::from_millis(status.now.saturating_sub(since));
        if calm >= CALM_FOR { live.saturating_sub(1).max(1) } else { live.max(1) }
    }
}

/// Twice as many nodes, but no more than there are lagging partitions to share.
fn more(live: usize, lagging: usize) -> usize {
    (2 * live).min(lagging).max(live).max(1)
}

fn shrinks_away(before: Option<(u64, u64)>, now: u64, sum: u64) -> bool {
    let Some((then, before)) = before else { return false };
    let (time, less) = (now.saturating_sub(then), before.saturating_sub(sum));
    // At this rate it is gone after `sum / (less / time)`.
    less > 0 && u128::from(sum) * u128::from(time) <= GONE_WITHIN.as_millis() * u128::from(less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;
    use crate::status::{NodeStatus, RoleStatus};

    fn status(seconds: u64, nodes: usize, lags: &[u64]) -> ClusterStatus {
        let node = |n: usize| NodeStatus {
            id: n.to_string(),
            address: String::new(),
            version: String::new(),
            since: 0,
            load: 0,
            draining: false,
            live: true,
        };
        let role = |(n, lag): (usize, &u64)| RoleStatus {
            role: Role::new("worker", format!("s/{n}")),
            owner: None,
            epoch: 1,
            ready: true,
            lag: Some(lag * 1000),
            applied: 0,
            trouble: None,
            stopped: None,
            pause: None,
            refusals: Vec::new(),
        };
        ClusterStatus {
            now: seconds * 1000,
            nodes: (0..nodes).map(node).collect(),
            roles: lags.iter().enumerate().map(role).collect(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn nodes_are_wanted_at_once_when_partitions_lag_and_never_more_than_lag() {
        let wanted = |nodes, lags: &[u64]| Scale::default().wanted(&status(0, nodes, lags));
        assert_eq!(wanted(2, &[0, 1, 0, 4]), 2);
        assert_eq!(wanted(2, &[9, 9, 9, 9]), 4);
        assert_eq!(wanted(2, &[9, 9, 9, 0]), 3);
        assert_eq!(wanted(2, &[9, 0, 0, 0]), 2);
        assert_eq!(wanted(0, &[]), 1);
    }

    #[test]
    fn a_lag_that_shrinks_away_by_itself_needs_no_help() {
        let mut scale = Scale::default();
        scale.wanted(&status(0, 1, &[100, 100]));
        assert_eq!(scale.wanted(&status(10, 1, &[80, 80])), 1);
        assert_eq!(scale.wanted(&status(20, 1, &[79, 79])), 2);
        assert_eq!(scale.wanted(&status(30, 1, &[90, 90])), 2);
    }

    #[test]
    fn a_node_less_is_wanted_only_after_a_long_calm_and_one_at_a_time() {
        let mut scale = Scale::default();
        assert_eq!(scale.wanted(&status(0, 3, &[0, 0])), 3);
        assert_eq!(scale.wanted(&status(299, 3, &[0, 0])), 3);
        assert_eq!(scale.wanted(&status(300, 3, &[0, 0])), 2);
        // One left: the calm begins anew.
        assert_eq!(scale.wanted(&status(301, 2, &[0, 0])), 2);
        assert_eq!(scale.wanted(&status(601, 2, &[0, 0])), 1);
        assert_eq!(scale.wanted(&status(602, 2, &[9, 9])), 2);
        assert_eq!(scale.wanted(&status(2000, 1, &[0])), 1);
    }
}
