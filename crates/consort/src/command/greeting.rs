//! What `serve` prints when the node is at work: engine, roles, address, and what to try.
//!
//! All lines are printed in one piece, after the node has taken up its roles, so that no line of the log
//! stands between them.

use std::time::Duration;

use consort::Node;
use consort_cluster::ClusterStatus;

use super::tour;

/// How long the greeting waits for the node's roles. A node takes its roles within milliseconds; one that
/// waits for the lease of a dead node is greeted without them.
const ROLES_WITHIN: Duration = Duration::from_secs(2);

/// How long it waits for the parts to be ready: a new database has its leader after a second or two.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How often the greeting looks at the roles meanwhile. Each look reads the cluster's cells once.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The lines, once the node has taken up its roles.
pub(super) async fn lines(node: &Node, tour: bool) -> Vec<String> {
    let roles = roles(node).await;
    // Past its time the node is greeted all the same, and its requests wait.
    let _ = tokio::time::timeout(READY_WITHIN, node.ready()).await;
    let mut lines = vec![format!("consort {}", env!("CARGO_PKG_VERSION"))];
    lines.extend(node.report().iter().cloned());
    lines.push(roles_line(node.id(), roles));
    lines.push(format!("node '{}' listens on http://{}", node.id(), node.address()));
    match tour {
        true => lines.extend(tour::guide(node.address())),
        false => lines
            .push(format!("to begin with, GET http://{}/ lists what it serves", node.address())),
    }
    lines
}

/// The roles of the cluster, as the node last saw them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RoleCounts {
    own: usize,
    owned: usize,
    all: usize,
}

impl RoleCounts {
    fn new(status: &ClusterStatus, id: &str) -> Self {
        let owners = || status.roles.iter().filter_map(|role| role.owner.as_deref());
        RoleCounts {
            own: owners().filter(|owner| *owner == id).count(),
            owned: owners().count(),
            all: status.roles.len(),
        }
    }
}

/// Waits until every role has an owner. Beside other nodes, roles may still move to this one: then two
/// looks must show the same.
async fn roles(node: &Node) -> Option<RoleCounts> {
    let handle = node.cluster();
    let mut last = None;
    let settled = async {
        loop {
            if let Ok(status) = handle.status().await {
                let alone = status.nodes.iter().filter(|node| node.live).count() < 2;
                let counts = RoleCounts::new(&status, handle.id());
                let same = last.replace(counts) == Some(counts);
                if counts.owned == counts.all && (alone || same) {
                    return;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    // Past its time the node is greeted with the counts of the last look.
    let _ = tokio::time::timeout(ROLES_WITHIN, settled).await;
    last
}

fn roles_line(id: &str, roles: Option<RoleCounts>) -> String {
    match roles {
        None => format!("node '{id}' takes up its roles as soon as the store answers"),
        Some(RoleCounts { all: 0, .. }) => {
            format!("node '{id}' has no roles: its config declares no streams")
        }
        Some(RoleCounts { own, owned, all }) if own == all && owned == all => {
            format!("node '{id}' owns all {all} roles")
        }
        Some(RoleCounts { own, owned, all }) if owned == all => {
            format!("node '{id}' owns {own} of {all} roles; the other nodes own the rest")
        }
        Some(RoleCounts { own, owned, all }) => {
            let free = all - owned;
            format!("node '{id}' owns {own} of {all} roles so far; {free} have no owner yet")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_the_roles() {
        let counts = |own, owned, all| Some(RoleCounts { own, owned, all });
        let cases = [
            (None, "node 'a' takes up its roles as soon as the store answers"),
            (counts(0, 0, 0), "node 'a' has no roles: its config declares no streams"),
            (counts(9, 9, 9), "node 'a' owns all 9 roles"),
            (counts(4, 9, 9), "node 'a' owns 4 of 9 roles; the other nodes own the rest"),
            (counts(4, 7, 9), "node 'a' owns 4 of 9 roles so far; 2 have no owner yet"),
        ];
        for (roles, expected) in cases {
            assert_eq!(roles_line("a", roles), expected);
        }
    }
}
