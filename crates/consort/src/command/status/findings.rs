//! What is wrong in a cluster, and what else is worth a sentence.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use consort_client::Cluster;
use consort_cluster::ClusterStatus;
use consort_cluster::status::RoleStatus;

use crate::command::table::short;

/// How many sentences are said of one matter, and how many roles are named in one: a reader needs the
/// kind of trouble and an example; `--roles` and `--json` have the rest.
const SENTENCES: usize = 10;
const ROLES_NAMED: usize = 3;

/// Sentences about a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Findings {
    summary: String,
    /// Work that is not done, or not as it should be.
    pub(super) wrong: Vec<String>,
    /// What is on its way, or no longer matters to the work.
    notes: Vec<String>,
}

impl Findings {
    pub(super) fn of(cluster: &Cluster) -> Findings {
        let status = &cluster.status;
        let mut wrong = Vec::new();
        if !status.nodes.iter().any(|node| node.live) {
            wrong.push("no node is alive: the one that answered could not renew its leases".into());
        }
        wrong.extend(stopped(status));
        wrong.extend(unowned(status));
        wrong.extend(hindered(status));
        wrong.extend(given_up(status));
        Findings { summary: summary(cluster), wrong, notes: notes(status) }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.wrong.is_empty() {
            writeln!(f, "Something is wrong:")?;
        }
        for sentence in &self.wrong {
            writeln!(f, "- {sentence}")?;
        }
        for note in &self.notes {
            writeln!(f, "Note: {note}")?;
        }
        f.write_str(&self.summary)?;
        f.write_str(if self.wrong.is_empty() { "; all is well." } else { "." })
    }
}

fn summary(cluster: &Cluster) -> String {
    let live = cluster.status.nodes.iter().filter(|node| node.live).count();
    let nodes = count(live, "live node");
    let wanted = match cluster.wanted {
        Some(wanted) if wanted != live as u64 => format!(" ({wanted} wanted)"),
        _ => String::new(),
    };
    format!("{nodes}{wanted}, {}", count(cluster.status.roles.len(), "role"))
}

fn stopped(status: &ClusterStatus) -> Vec<String> {
    by_reason(
        status,
        |role| role.stopped.as_deref(),
        |roles, owner, reason| {
            format!(
                "{} on '{owner}' stopped until an operator decides: {reason}; `consort resolve --help` says how",
                names(roles)
            )
        },
    )
}

fn hindered(status: &ClusterStatus) -> Vec<String> {
    let trouble = |role: &'_ RoleStatus| role.stopped.is_none() && role.trouble.is_some();
    let reason = |role| if trouble(role) { role.trouble.as_deref() } else { None };
    by_reason(status, reason, |roles, owner, reason| {
        let verb = if roles.len() == 1 { "is" } else { "are" };
        format!("{} on '{owner}' {verb} hindered: {reason}", names(roles))
    })
}

fn unowned(status: &ClusterStatus) -> Vec<String> {
    let unowned: Vec<&RoleStatus> =
        status.roles.iter().filter(|role| role.owner.is_none()).collect();
    match unowned.len() {
        0 => vec![],
        1 => vec![format!("{} has no owner", names(&unowned))],
        number => vec![format!("{number} roles have no owner: {}", names(&unowned))],
    }
}

fn given_up(status: &ClusterStatus) -> Vec<String> {
    let refusals = status.roles.iter().flat_map(|role| {
        role.refusals.iter().map(move |refusal| {
            let left = Duration::from_millis(refusal.until.saturating_sub(status.now));
            format!(
                "{} was given up by '{}', which takes it again in {} at the earliest: {}",
                role.role,
                refusal.node,
                short(left),
                refusal.reason
            )
        })
    });
    capped(refusals.collect())
}

/// One sentence for all roles of one owner that say the same.
fn by_reason<'a>(
    status: &'a ClusterStatus,
    reason: impl Fn(&'a RoleStatus) -> Option<&'a str>,
    sentence: impl Fn(&[&RoleStatus], &str, &str) -> String,
) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str), Vec<&RoleStatus>> = BTreeMap::new();
    for role in &status.roles {
        if let (Some(owner), Some(reason)) = (role.owner.as_deref(), reason(role)) {
            groups.entry((owner, reason)).or_default().push(role);
        }
    }
    let groups = groups.into_iter();
    capped(groups.map(|((owner, reason), roles)| sentence(&roles, owner, reason)).collect())
}

fn capped(mut sentences: Vec<String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(SENTENCES);
    sentences.truncate(SENTENCES);
    if more > 0 {
        sentences.push(format!("… and {more} more like that: see --json"));
    }
    sentences
}

fn notes(status: &ClusterStatus) -> Vec<String> {
    let leaving = status.nodes.iter().filter(|node| node.live && node.draining).map(|node| {
        let roles = count(usize::try_from(node.load).unwrap_or(usize::MAX), "role");
        format!("'{}' is about to leave, with {roles} to hand over", node.id)
    });
    let dead = status.nodes.iter().filter(|node| !node.live).map(|node| {
        format!(
            "'{}' at {} ended without leaving; others take its roles, and it is forgotten after an hour",
            node.id, node.address
        )
    });
    let unreadable = status
        .unreadable
        .iter()
        .map(|cell| format!("the node that answered cannot read a cell of the cluster, {cell}"));
    let all = [capped(leaving.collect()), capped(dead.collect()), capped(unreadable.collect())];
    all.into_iter().flatten().chain(scaling(status)).collect()
}

/// Why so many nodes are wanted, where that asks for something or names a limit.
fn scaling(status: &ClusterStatus) -> Option<String> {
    let scaling = status.scaling.as_ref()?;
    let live = status.nodes.iter().filter(|node| node.live && !node.draining).count();
    if let Some(limit) = scaling.limited_by {
        let (limit, why) = (limit.as_str(), &scaling.why);
        return Some(format!("the number of nodes is limited ({limit}); it {why}"));
    }
    let since = short(Duration::from_millis(status.now.saturating_sub(scaling.since)));
    let are = if scaling.wanted == 1 { "node is" } else { "nodes are" };
    (scaling.wanted != live as u64)
        .then(|| format!("{} {are} wanted since {since}, {}", scaling.wanted, scaling.why))
}

/// `worker:rides/1, worker:rides/2, worker:rides/3 and 4 more`
fn names(roles: &[&RoleStatus]) -> String {
    let named: Vec<String> =
        roles.iter().take(ROLES_NAMED).map(|role| role.role.to_string()).collect();
    match roles.len().saturating_sub(ROLES_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn count(number: usize, of: &str) -> String {
    match number {
        0 => format!("no {of}s"),
        1 => format!("1 {of}"),
        number => format!("{number} {of}s"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use consort_cluster::scaling::ScaleEvidence;
    use consort_cluster::status::{NodeStatus, RefusalStatus};
    use consort_cluster::{Pause, PauseCause, Role, ScalingStatus};

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn node(id: &str, port: u16, up_for: u64, load: u64) -> NodeStatus {
        NodeStatus {
            id: id.into(),
            address: format!("127.0.0.1:{port}"),
            version: "0.1.0".into(),
            since: NOW - up_for,
            load,
            draining: false,
            live: true,
        }
    }

    fn role(name: &str, owner: Option<&str>, epoch: u64) -> RoleStatus {
        RoleStatus {
            role: name.parse::<Role>().unwrap(),
            owner: owner.map(str::to_owned),
            epoch,
            ready: owner.is_some(),
            lag: None,
            applied: 0,
            trouble: None,
            stopped: None,
            pause: None,
            refusals: vec![],
        }
    }

    fn scaling() -> ScalingStatus {
        ScalingStatus {
            wanted: 3,
            why: "2 → 3: rides/0 lags by 7.0s".into(),
            limited_by: None,
            since: NOW - 65_000,
            decided: NOW,
            evidence: ScaleEvidence::default(),
        }
    }

    /// One of everything that can be said.
    pub(in crate::command::status) fn fixture() -> Cluster {
        let pause = |cause, millis| Some(Pause { cause, millis });
        let nodes = vec![
            node("a", 7400, 7_260_000, 3),
            NodeStatus { draining: true, ..node("b", 7401, 40_000, 2) },
            NodeStatus { live: false, version: "0.0.9".into(), ..node("c", 7402, 0, 1) },
        ];
        let refusals = vec![RefusalStatus {
            node: "c".into(),
            reason: "it stood still".into(),
            until: NOW + 28_000,
        }];
        let roles = vec![
            RoleStatus {
                pause: pause(PauseCause::First, 12),
                ..role("closer:rides/0", Some("a"), 1)
            },
            RoleStatus {
                lag: Some(40),
                applied: 1200,
                pause: pause(PauseCause::TakenOver, 3100),
                ..role("worker:rides/0", Some("a"), 2)
            },
            RoleStatus { ready: false, ..role("worker:rides/1", Some("a"), 3) },
            RoleStatus {
                lag: Some(65_000),
                applied: 10,
                trouble: Some("the store does not answer".into()),
                pause: pause(PauseCause::HandedOver, 25),
                ..role("worker:rides/2", Some("b"), 4)
            },
            RoleStatus {
                applied: 5,
                stopped: Some("the log lost frame 7".into()),
                pause: pause(PauseCause::HandedOver, 20),
                ..role("worker:rides/3", Some("b"), 4)
            },
            RoleStatus { refusals, ..role("worker:rides/4", None, 7) },
        ];
        let status =
            ClusterStatus { now: NOW, nodes, roles, unreadable: vec![], scaling: Some(scaling()) };
        Cluster { status, wanted: Some(3) }
    }

    #[test]
    fn everything_that_is_wrong_is_said_in_sentences() {
        let expected = "\
Something is wrong:
- worker:rides/3 on 'b' stopped until an operator decides: the log lost frame 7; `consort resolve --help` says how
- worker:rides/4 has no owner
- worker:rides/2 on 'b' is hindered: the store does not answer
- worker:rides/4 was given up by 'c', which takes it again in 28s at the earliest: it stood still
Note: 'b' is about to leave, with 2 roles to hand over
Note: 'c' at 127.0.0.1:7402 ended without leaving; others take its roles, and it is forgotten after an hour
Note: 3 nodes are wanted since 1m 5s, 2 → 3: rides/0 lags by 7.0s
2 live nodes (3 wanted), 6 roles.";
        assert_eq!(Findings::of(&fixture()).to_string(), expected);
    }

    #[test]
    fn a_cluster_that_is_well_is_said_to_be() {
        let status = ClusterStatus {
            now: NOW,
            nodes: vec![node("a", 7400, 0, 1)],
            roles: vec![role("worker:rides/0", Some("a"), 1)],
            ..ClusterStatus::default()
        };
        let findings = Findings::of(&Cluster { status, wanted: Some(1) });
        assert_eq!(findings.to_string(), "1 live node, 1 role; all is well.");
    }

    #[test]
    fn many_roles_with_one_trouble_are_one_sentence() {
        let hindered = |n: usize, reason: &str| RoleStatus {
            trouble: Some(reason.into()),
            ..role(&format!("worker:rides/{n}"), Some("a"), 1)
        };
        let mut roles: Vec<RoleStatus> = (0..32).map(|n| hindered(n, "no store")).collect();
        roles.extend((32..60).map(|n| hindered(n, &format!("its own {n}"))));
        roles.extend((60..64).map(|n| role(&format!("worker:rides/{n}"), None, 1)));
        let nodes = vec![node("a", 7400, 0, 1)];
        let status = ClusterStatus { now: NOW, nodes, roles, ..ClusterStatus::default() };
        let wrong = Findings::of(&Cluster { status, wanted: None }).wrong;
        assert_eq!(
            wrong[0],
            "4 roles have no owner: worker:rides/60, worker:rides/61, worker:rides/62 and 1 more"
        );
        assert_eq!(wrong.len(), 1 + SENTENCES + 1);
        assert_eq!(wrong.last().unwrap(), "… and 19 more like that: see --json");
        let status = ClusterStatus {
            now: NOW,
            nodes: vec![node("a", 7400, 0, 1)],
            roles: (0..32).map(|n| hindered(n, "no store")).collect(),
            ..ClusterStatus::default()
        };
        let wrong = Findings::of(&Cluster { status, wanted: None }).wrong;
        assert_eq!(
            wrong,
            [
                "worker:rides/0, worker:rides/1, worker:rides/2 and 29 more on 'a' are hindered: no store"
            ]
        );
    }
}
