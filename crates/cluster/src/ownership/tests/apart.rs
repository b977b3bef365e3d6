//! What placement promises of groups that are kept apart (C9).

use super::*;

const KIND: &str = "replica";

fn apart() -> BTreeSet<&'static str> {
    BTreeSet::from([KIND])
}

fn group(name: &str, count: usize) -> Vec<Role> {
    (0..count).map(|n| Role::new(KIND, format!("{name}/{n}"))).collect()
}

fn share(nodes: &[Candidate], roles: &[Role]) -> BTreeMap<Role, String> {
    owners(nodes, roles, &apart(), &nobody())
}

/// Owners of the roles of group `notes`, in order.
fn placed(ids: &[&str], count: usize, refused: &[(usize, &str)]) -> Vec<String> {
    let nodes: Vec<Candidate> = ids.iter().map(|id| node(id)).collect();
    let roles = group("notes", count);
    let refused = refused.iter().map(|(n, id)| (roles[*n].clone(), id.to_string())).collect();
    let owners = owners(&nodes, &roles, &apart(), &refused);
    roles.iter().map(|role| owners[role].clone()).collect()
}

#[test]
fn c9_the_owners_of_a_group_are_the_same_on_every_node_and_platform() {
    type Case<'a> = (&'a str, &'a [&'a str], usize, &'a [(usize, &'a str)], &'a [&'a str]);
    const TWO: &[(usize, &str)] = &[(0, "a"), (1, "a")];
    let cases: [Case<'_>; 7] = [
        ("one node has all", &["a"], 3, &[], &["a", "a", "a"]),
        ("two nodes", &["a", "b"], 2, &[], &["a", "b"]),
        ("two nodes, a third role", &["a", "b"], 3, &[], &["a", "b", "a"]),
        ("more nodes than roles", &["a", "b", "c", "d"], 2, &[], &["d", "b"]),
        ("a refusal", &["a", "b"], 2, &[(0, "a")], &["b", "a"]),
        ("two refusals count for more than the group", &["a", "b"], 2, TWO, &["b", "b"]),
        ("refused by both", &["a", "b"], 2, &[(0, "a"), (0, "b")], &["a", "b"]),
    ];
    for (what, ids, count, refused, expected) in cases {
        assert_eq!(placed(ids, count, refused), expected, "{what}");
    }
}

#[test]
fn c9_roles_choose_by_number_and_those_without_one_come_last() {
    let names = ["notes/10", "notes/9", "notes/x", "notes/0", "alone"];
    let roles: Vec<Role> = names.iter().map(|name| Role::new(KIND, *name)).collect();
    let nodes: Vec<Candidate> = (0..4).map(|n| node(&format!("n{n}"))).collect();
    let all = share(&nodes, &roles);
    let held: BTreeSet<&String> =
        names.iter().filter(|name| **name != "alone").map(|n| &all[&Role::new(KIND, *n)]).collect();
    assert_eq!(held.len(), 4, "{all:?}");
    let without_x: Vec<Role> = roles.iter().filter(|r| r.name() != "notes/x").cloned().collect();
    for (role, owner) in share(&nodes, &without_x) {
        assert_eq!(all[&role], owner, "{role}");
    }
}

#[test]
fn a_kind_that_is_not_named_is_placed_by_its_bound() {
    let nodes = nodes(3, 0);
    let plain = roles("worker", 12);
    let mixed = [plain.clone(), group("notes", 4)].concat();
    let all = share(&nodes, &mixed);
    for (role, owner) in owners(&nodes, &plain, &none(), &nobody()) {
        assert_eq!(all[&role], owner, "{role}");
    }
}

/// The mean number of roles of a group that move although their node stays, when one of `nodes` leaves.
fn moved_aside(roles: usize, nodes_before: usize) -> f64 {
    const CLUSTERS: usize = 200;
    let moved = |salt: usize| {
        let all = nodes(nodes_before, salt);
        let group = group(&format!("g{salt}"), roles);
        let (before, after) = (share(&all, &group), share(&all[1..], &group));
        group.iter().filter(|r| before[*r] != all[0].id && before[*r] != after[*r]).count()
    };
    (0..CLUSTERS).map(moved).sum::<usize>() as f64 / CLUSTERS as f64
}

#[test]
fn a_node_that_leaves_a_large_group_moves_few_others() {
    for (roles, nodes) in [(3, 3), (3, 5), (5, 3), (5, 8), (9, 4), (9, 12)] {
        let aside = moved_aside(roles, nodes);
        // Seen with `--no-capture`.
        eprintln!("{roles} roles on {nodes} nodes: {aside:.2} others move in the mean");
        assert!(aside <= 0.25 * roles as f64, "{roles} roles on {nodes} nodes: {aside:.2}");
    }
}

proptest! {
    #[test]
    fn c9_a_group_is_spread_over_the_live_nodes(
        nodes in cluster(), names in prop::collection::btree_set("[a-z]{1,8}", 1..5), count in 1..10usize,
    ) {
        let roles: Vec<Role> = names.iter().flat_map(|name| group(name, count)).collect();
        let owners = share(&nodes, &roles);
        let staying = nodes.iter().filter(|node| !node.draining).count();
        prop_assert_eq!(owners.len(), if staying == 0 { 0 } else { roles.len() });
        for name in names.iter().filter(|_| staying > 0) {
            let mut held: BTreeMap<&String, usize> = BTreeMap::new();
            group(name, count).iter().for_each(|role| *held.entry(&owners[role]).or_default() += 1);
            prop_assert_eq!(held.len(), staying.min(count));
            prop_assert!(held.values().all(|n| *n <= count.div_ceil(staying)));
        }
    }

    #[test]
    fn c9_a_role_that_is_added_at_the_end_moves_no_other(
        nodes in cluster(), count in 1..12usize,
        picks in prop::collection::vec((0..12usize, any::<prop::sample::Index>()), 0..6),
    ) {
        let more = group("notes", count + 1);
        let refused = picks.iter()
            .filter_map(|(n, at)| Some((more.get(*n)?.clone(), at.get(&nodes).id.clone())))
            .collect();
        let before = owners(&nodes, &more[..count], &apart(), &refused);
        let after = owners(&nodes, &more, &apart(), &refused);
        for (role, owner) in before {
            prop_assert_eq!(&after[&role], &owner);
        }
    }

    #[test]
    fn c9_a_node_that_leaves_moves_only_its_own_of_a_pair(
        nodes in cluster(), name in "[a-z]{1,8}", leaver in any::<prop::sample::Index>(),
    ) {
        let roles = group(&name, 2);
        let leaver = leaver.get(&nodes).id.clone();
        let rest: Vec<Candidate> = nodes.iter().filter(|node| node.id != leaver).cloned().collect();
        let (before, after) = (share(&nodes, &roles), share(&rest, &roles));
        for (role, owner) in before.iter().filter(|(_, owner)| **owner != leaver) {
            prop_assert_eq!(&after[role], owner);
        }
    }

    #[test]
    fn c9_a_node_that_holds_none_of_a_group_moves_none_when_it_leaves(
        nodes in cluster(), count in 1..10usize, leaver in any::<prop::sample::Index>(),
    ) {
        let roles = group("notes", count);
        let before = share(&nodes, &roles);
        let leaver = &leaver.get(&nodes).id;
        let rest: Vec<Candidate> = nodes.iter().filter(|node| node.id != *leaver).cloned().collect();
        if before.values().all(|owner| owner != leaver) {
            prop_assert_eq!(share(&rest, &roles), before);
        }
    }
}
