//! How far the views of a stream are behind, by what the workers of its partitions say.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_cluster::{ClusterStatus, Role};

use crate::part::worker_role;
use crate::stream::Stream;

/// How far the views of a stream are behind what was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The age of the oldest event that is not applied, as far as it is known.
    pub behind: Duration,
    /// Partitions that nobody works on, or that stopped: of these nothing is known.
    pub unknown: u32,
    /// Those of them that nobody works on.
    pub unattended: u32,
    /// Those of them whose worker has not said yet how far behind it is.
    pub silent: u32,
}

impl Lag {
    /// What the cluster's roles say of a stream: those of this node by its `own` lags, and the others by the
    /// cluster's status, if it is known. What the status has of this node is older than what the node says, and
    /// of a role that it no longer says anything of, nobody knows.
    pub fn of(
        stream: &Stream,
        status: Option<&ClusterStatus>,
        node: &str,
        own: &BTreeMap<Role, Duration>,
    ) -> Lag {
        let mut lag = Lag::default();
        for index in 0..stream.partitions {
            let role = worker_role(&stream.name, index);
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
    use consort_cluster::status::RoleStatus;
    use consort_kernel::Name;

    use super::*;
    use crate::schema::{Schema, Unknown};

    /// Owner, lag, and whether it stopped.
    type Said = (Option<&'static str>, Option<u64>, bool);

    fn role(index: u32, (owner, lag, stopped): Said) -> RoleStatus {
        RoleStatus {
            role: worker_role(&Name::new("s").unwrap(), index),
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
        let schema = Schema::new(Vec::new(), Unknown::Ignore);
        let stream = Stream { partitions: 3, ..Stream::plain(Name::new("s").unwrap(), schema) };
        let roles = |all: [Said; 3]| ClusterStatus {
            now: 0,
            nodes: vec![],
            roles: (0..).zip(all).map(|(index, said)| role(index, said)).collect(),
            unreadable: vec![],
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
            let own = own
                .map(|(index, lag)| (worker_role(&stream.name, index), Duration::from_millis(lag)));
            let lag = Lag::of(&stream, status.as_ref(), "me", &own.into_iter().collect());
            let behind = Duration::from_millis(behind);
            assert_eq!(lag, Lag { behind, unknown, unattended, silent }, "{why}");
        }
    }
}
