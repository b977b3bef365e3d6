//! How far the workers of a stream's partitions are behind, by what they say of themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_kernel::Name;

use crate::role::Role;
use crate::status::ClusterStatus;
use crate::worker;

/// How far the workers of a stream are behind what was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The age of the oldest record that is not applied, as far as it is known.
    pub behind: Duration,
    /// Partitions without a worker, or with one that stopped: their lag is not known.
    pub unknown: u32,
    /// Those of them without a worker.
    pub unattended: u32,
    /// Those of them whose worker has not said yet how far behind it is.
    pub silent: u32,
}

impl Lag {
    /// The lag of a stream with so many partitions: that of this node's roles by its `own` lags, and that of the
    /// others by the cluster's status, if it is known. The status is older than what the node says of itself, so a
    /// role that the node no longer mentions counts as unknown.
    pub fn from_workers(
        stream: &Name,
        partitions: u32,
        status: Option<&ClusterStatus>,
        node: &str,
        own: &BTreeMap<Role, Duration>,
    ) -> Lag {
        let mut lag = Lag::default();
        for index in 0..partitions {
            let role = worker::role(stream, index);
            let known = status.and_then(|status| {
                let at = status.roles.binary_search_by(|known| known.role.cmp(&role)).ok()?;
                Some(&status.roles[at])
            });
            let stopped = known.is_some_and(|known| known.stopped.is_some());
            let others = known.filter(|known| known.owner.as_deref().is_some_and(|id| id != node));
            let said = others.and_then(|known| known.lag).filter(|_| !stopped);
            match own.get(&role).copied().or(said.map(Duration::from_millis)) {
                Some(behind) => lag.behind = lag.behind.max(behind),
                None => {
                    lag.unknown += 1;
                    lag.unattended += u32::from(!stopped && others.is_none());
                    lag.silent += u32::from(!stopped && others.is_some());
                }
            }
        }
        lag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::RoleStatus;

    /// Owner, lag, and whether it stopped.
    type Said = (Option<&'static str>, Option<u64>, bool);

    fn role(index: u32, (owner, lag, stopped): Said) -> RoleStatus {
        RoleStatus {
            role: worker::role(&Name::new("s").unwrap(), index),
            owner: owner.map(Into::into),
            epoch: 1,
            ready: true,
            lag,
            applied: 0,
            trouble: None,
            stopped: stopped.then(|| "lost".into()),
            pause: None,
            refusals: vec![],
        }
    }

    #[test]
    fn the_lag_is_that_of_the_worst_partition_and_a_node_knows_its_own_best() {
        let stream = Name::new("s").unwrap();
        let roles = |all: [Said; 3]| ClusterStatus {
            now: 0,
            nodes: vec![],
            roles: (0..).zip(all).map(|(index, said)| role(index, said)).collect(),
            ..ClusterStatus::default()
        };
        let (well, late) = ((Some("other"), Some(10), false), (Some("other"), Some(900), false));
        let (nobody, stopped) = ((None, None, false), (Some("other"), Some(0), true));
        let (mine, begun) = ((Some("me"), Some(50), false), (Some("other"), None, false));
        // What the cluster says; the node's own partition and its lag; behind, unknown, unattended, silent.
        let table = [
            (Some([well, late, well]), None, (900, 0, 0, 0), "the worst"),
            (Some([well, late, well]), Some((1, 20)), (20, 0, 0, 0), "its own is better by now"),
            (Some([well, late, well]), Some((0, 5000)), (5000, 0, 0, 0), "its own is worse by now"),
            (Some([well, nobody, well]), None, (10, 1, 1, 0), "nobody works on one"),
            (Some([well, nobody, well]), Some((1, 40)), (40, 0, 0, 0), "it has just begun"),
            (Some([well, stopped, well]), None, (10, 1, 0, 0), "one waits for an operator"),
            (
                Some([well, mine, well]),
                None,
                (10, 1, 1, 0),
                "it dropped what the others think it has",
            ),
            (Some([well, begun, well]), None, (10, 1, 0, 1), "another has just begun"),
            (None, Some((2, 70)), (70, 2, 2, 0), "the store does not answer"),
            (None, None, (0, 3, 3, 0), "nothing is known"),
        ];
        for (said, own, (behind, unknown, unattended, silent), why) in table {
            let status = said.map(roles);
            let own =
                own.map(|(index, lag)| (worker::role(&stream, index), Duration::from_millis(lag)));
            let own = own.into_iter().collect();
            let lag = Lag::from_workers(&stream, 3, status.as_ref(), "me", &own);
            let behind = Duration::from_millis(behind);
            assert_eq!(lag, Lag { behind, unknown, unattended, silent }, "{why}");
        }
    }
}
