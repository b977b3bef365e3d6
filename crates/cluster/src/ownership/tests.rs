//! What placement promises, over all sorts of clusters.

mod apart;

use super::*;
use proptest::prelude::*;

fn node(id: &str) -> Candidate {
    Candidate { id: id.into(), draining: false }
}

fn nodes(count: usize, salt: usize) -> Vec<Candidate> {
    (0..count).map(|n| node(&format!("node-{salt}-{n}"))).collect()
}

fn roles(kind: &str, count: usize) -> Vec<Role> {
    (0..count).map(|n| Role::new(kind, format!("rides/{n}"))).collect()
}

fn nobody() -> BTreeSet<(Role, String)> {
    BTreeSet::new()
}

/// No kind is kept apart.
fn none() -> BTreeSet<&'static str> {
    BTreeSet::new()
}

fn counts(owners: &BTreeMap<Role, String>, kind: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (role, owner) in owners {
        if role.kind() == kind {
            *counts.entry(owner.clone()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn the_owners_are_the_same_on_every_node_and_platform() {
    let owners =
        owners(&[node("a"), node("b"), node("c")], &roles("worker", 12), &none(), &nobody());
    let ids: Vec<&str> = roles("worker", 12).iter().map(|role| owners[role].as_str()).collect();
    assert_eq!(ids, ["b", "c", "a", "a", "b", "b", "b", "c", "a", "a", "c", "c"]);
}

#[test]
fn without_a_node_that_stays_nobody_owns_anything() {
    let leaving = Candidate { id: "a".into(), draining: true };
    assert_eq!(owners(&[], &roles("worker", 3), &none(), &nobody()), BTreeMap::new());
    assert_eq!(owners(&[leaving], &roles("worker", 3), &none(), &nobody()), BTreeMap::new());
}

#[test]
fn a_node_that_leaves_is_given_nothing() {
    let leaving = Candidate { id: "a".into(), draining: true };
    let owners = owners(&[leaving, node("b")], &roles("worker", 8), &none(), &nobody());
    assert_eq!(counts(&owners, "worker"), BTreeMap::from([("b".to_string(), 8)]));
}

#[test]
fn a_role_that_was_given_up_goes_elsewhere_unless_all_gave_it_up() {
    let pair = [node("a"), node("b")];
    let all = roles("worker", 64);
    let before = owners(&pair, &all, &none(), &nobody());
    for role in &all {
        let (owner, other) = (&before[role], if before[role] == "a" { "b" } else { "a" });
        let refused = BTreeSet::from([(role.clone(), owner.clone())]);
        assert_eq!(owners(&pair, &all, &none(), &refused)[role], other, "{role}");
        let refused = BTreeSet::from([(role.clone(), "a".into()), (role.clone(), "b".into())]);
        assert_eq!(owners(&pair, &all, &none(), &refused), before);
    }
}

#[test]
fn refusals_count_for_more_than_the_bound() {
    let all = roles("worker", 64);
    let refused = all.iter().map(|role| (role.clone(), "a".to_string())).collect();
    let owners = owners(&[node("a"), node("b")], &all, &none(), &refused);
    assert_eq!(counts(&owners, "worker"), BTreeMap::from([("b".to_string(), 64)]));
}

/// The shares of 64 roles that move when a node joins `count` others: all of them, and those between two
/// nodes that were there before. And the same when the first of them leaves.
fn shares(count: usize) -> [f64; 4] {
    const CLUSTERS: usize = 50;
    let all = roles("worker", 64);
    let mut moved = [0usize; 4];
    for salt in 0..CLUSTERS {
        let after = nodes(count + 1, salt);
        let (old, new) = after.split_at(count);
        let (small, large) =
            (owners(old, &all, &none(), &nobody()), owners(&after, &all, &none(), &nobody()));
        let rest = owners(&after[1..], &all, &none(), &nobody());
        for role in &all {
            moved[0] += usize::from(small[role] != large[role]);
            moved[1] += usize::from(small[role] != large[role] && large[role] != new[0].id);
            moved[2] += usize::from(large[role] != rest[role]);
            moved[3] += usize::from(large[role] != rest[role] && large[role] != after[0].id);
        }
    }
    moved.map(|roles| roles as f64 / (CLUSTERS * all.len()) as f64)
}

#[test]
fn a_node_that_joins_or_leaves_moves_little_more_than_it_must() {
    for count in 1..=16 {
        let [joined, aside, left, left_aside] = shares(count);
        let must = 1.0 / (count + 1) as f64;
        // Seen with `--no-capture`: the figures beside SLACK_PERCENT.
        eprintln!(
            "{count:2} nodes and one more: {:4.1} % must move; joins: {:4.1} % move, {:3.1} % between \
             old ones; leaves: {:4.1} % move, {:3.1} % between others",
            100.0 * must,
            100.0 * joined,
            100.0 * aside,
            100.0 * left,
            100.0 * left_aside
        );
        // A shifted bound moves at most what it cuts off, which is a fraction of a node's share, and what
        // that displaces in turn: in the mean never more than a node's whole share.
        assert!(aside <= must && left_aside <= must, "{count} nodes");
        // Few, seen as a whole: the worst measured is 6 %.
        assert!(aside <= 0.08 && left_aside <= 0.08, "{count} nodes");
        // The one that joins does get its part.
        assert!(joined - aside >= 0.6 * must, "{count} nodes");
    }
}

fn cluster() -> impl Strategy<Value = Vec<Candidate>> {
    let candidate = ("[a-z]{1,6}", prop::bool::weighted(0.1))
        .prop_map(|(id, draining)| Candidate { id, draining });
    prop::collection::btree_map("[a-z]{1,6}", candidate, 1..17)
        .prop_map(|by_id| by_id.into_iter().map(|(id, node)| Candidate { id, ..node }).collect())
}

fn work() -> impl Strategy<Value = Vec<Role>> {
    (0..80usize, 0..20usize).prop_map(|(workers, closers)| {
        [roles("worker", workers), roles("closer", closers)].concat()
    })
}

proptest! {
    #[test]
    fn every_role_has_one_owner_and_no_node_has_too_many(nodes in cluster(), roles in work()) {
        let owners = owners(&nodes, &roles, &none(), &nobody());
        let staying: BTreeSet<&String> =
            nodes.iter().filter(|n| !n.draining).map(|n| &n.id).collect();
        if staying.is_empty() {
            prop_assert!(owners.is_empty());
            return Ok(());
        }
        prop_assert_eq!(owners.len(), roles.len());
        prop_assert!(owners.values().all(|owner| staying.contains(owner)));
        for kind in ["worker", "closer"] {
            let all = roles.iter().filter(|role| role.kind() == kind).count();
            let most = bound(all, staying.len());
            for (node, count) in counts(&owners, kind) {
                prop_assert!(count <= most, "{} has {} of {} {}s", node, count, all, kind);
            }
        }
    }

    #[test]
    fn the_order_of_nodes_and_roles_does_not_matter(
        nodes in cluster(),
        roles in work(),
        turn in any::<prop::sample::Index>(),
    ) {
        let before = owners(&nodes, &roles, &none(), &nobody());
        let (mut other_nodes, mut other_roles) = (nodes.clone(), roles.clone());
        other_nodes.rotate_left(turn.index(nodes.len()));
        other_roles.reverse();
        other_roles.extend(roles);
        prop_assert_eq!(owners(&other_nodes, &other_roles, &none(), &nobody()), before);
    }

    #[test]
    fn refusals_are_heeded_while_somebody_is_willing(
        nodes in cluster(),
        roles in work(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
    ) {
        let mut refused = nobody();
        if !roles.is_empty() {
            for (role, node) in picks {
                refused.insert((role.get(&roles).clone(), node.get(&nodes).id.clone()));
            }
        }
        let owners = owners(&nodes, &roles, &none(), &refused);
        let staying: Vec<&Candidate> = nodes.iter().filter(|node| !node.draining).collect();
        prop_assert_eq!(owners.len(), if staying.is_empty() { 0 } else { roles.len() });
        for (role, owner) in &owners {
            let refuses = |id: &String| refused.contains(&(role.clone(), id.clone()));
            prop_assert!(!refuses(owner) || staying.iter().all(|node| refuses(&node.id)));
        }
    }
}
