//! What a node does in each situation.

use super::*;
use crate::drain::Drain;
use crate::lease::Lease;
use crate::member::Member;
use crate::refusal::{REST, RoleRefusal};
use crate::roster::Found;
use std::time::Duration;

const TTL: Duration = Duration::from_millis(3000);
const NOW: Timestamp = Timestamp(10_000);

fn me() -> Holder {
    Holder { id: "a".into(), incarnation: 1 }
}

fn other() -> Holder {
    Holder { id: "b".into(), incarnation: 2 }
}

fn role(name: &str) -> Role {
    Role::new("worker", name)
}

fn lease(holder: &Holder, epoch: u64) -> Lease {
    Lease { epoch, ..Lease::acquired_by(holder, None, Timestamp(9_500), TTL) }
}

fn lapsed(holder: &Holder, epoch: u64) -> Lease {
    Lease { until: Timestamp(9_999), ..lease(holder, epoch) }
}

fn running(epoch: u64) -> Held {
    Held { epoch, work: Work::Running }
}

/// A cluster of `a`, which is this node, and perhaps others.
struct Scene {
    roster: Roster,
    roles: Vec<Role>,
    held: BTreeMap<Role, Held>,
}

impl Scene {
    fn alone() -> Self {
        let roster = Roster { now: NOW, ..Roster::default() };
        let scene = Scene { roster, roles: vec![role("x")], held: BTreeMap::new() };
        scene.with(&me())
    }

    /// Two nodes and one role, which is meant for the one or the other.
    fn meant_for(wanted: &Holder) -> Self {
        let mut scene = Scene::alone().with(&other());
        let name = (0..100).map(|n| n.to_string()).find(|name| {
            let roles = [role(name)];
            owners(&scene.roster.candidates(), &roles, &BTreeSet::new(), &BTreeSet::new())
                [&roles[0]]
                == wanted.id
        });
        scene.roles = vec![role(&name.unwrap())];
        scene
    }

    fn with(mut self, holder: &Holder) -> Self {
        let value = Member {
            id: holder.id.clone(),
            incarnation: holder.incarnation,
            address: String::new(),
            version: String::new(),
            since: Timestamp(0),
            load: 0,
            draining: false,
            renewed: Timestamp(9_000),
            until: Timestamp(12_000),
        };
        let found = Found { value, stored: Default::default() };
        self.roster.members.insert(holder.id.clone(), found);
        self
    }

    fn leased(mut self, lease: Lease) -> Self {
        let found = Found { value: lease, stored: Default::default() };
        self.roster.leases.insert(self.roles[0].clone(), found);
        self
    }

    fn held(mut self, held: Held) -> Self {
        self.held.insert(self.roles[0].clone(), held);
        self
    }

    fn draining(mut self) -> Self {
        self.roster.drains.insert("a".into(), Drain { since: NOW });
        self
    }

    fn refused_by(mut self, holder: &Holder, since: u64) -> Self {
        let refusal = RoleRefusal::new("stuck", Timestamp(since));
        self.roster.refusals.insert((self.roles[0].clone(), holder.id.clone()), refusal);
        self
    }

    fn steps(&self) -> Steps {
        reconcile(&self.roster, &me(), &self.roles, &BTreeSet::new(), &self.held)
    }

    /// The one step there is, in a word.
    fn step(&self) -> &'static str {
        let steps = self.steps();
        let named = [
            ("acquire", &steps.acquire),
            ("end", &steps.end),
            ("lost", &steps.lost),
            ("release", &steps.release),
        ];
        let taken: Vec<_> = named.iter().filter(|(_, roles)| !roles.is_empty()).collect();
        assert!(taken.len() <= 1, "{steps:?}");
        taken.first().map_or("nothing", |(name, roles)| {
            assert_eq!(*roles, &self.roles);
            name
        })
    }
}

#[test]
fn each_situation_has_its_step() {
    let mine = || Scene::meant_for(&me());
    let theirs = || Scene::meant_for(&other());
    let (ending, stopped) =
        (Held { epoch: 3, work: Work::Ending }, Held { epoch: 3, work: Work::Stopped });
    let cases = [
        ("mine and never owned", mine(), "acquire"),
        ("mine and released", mine().leased(lease(&other(), 3).released(NOW)), "acquire"),
        ("mine and lapsed", mine().leased(lapsed(&other(), 3)), "acquire"),
        ("mine, but held by another", mine().leased(lease(&other(), 3)), "nothing"),
        ("mine by the lease, but not worked on", mine().leased(lease(&me(), 3)), "acquire"),
        ("mine and running", mine().leased(lease(&me(), 3)).held(running(3)), "nothing"),
        (
            "mine, running, store went back",
            mine().leased(lapsed(&other(), 2)).held(running(3)),
            "nothing",
        ),
        ("mine, running, lease gone", mine().held(running(3)), "nothing"),
        ("running, taken by another", mine().leased(lease(&other(), 4)).held(running(3)), "lost"),
        ("ending, taken by another", mine().leased(lease(&other(), 4)).held(ending), "lost"),
        ("stopped, taken by another", mine().leased(lease(&other(), 4)).held(stopped), "lost"),
        ("theirs and free", theirs(), "nothing"),
        ("theirs and running here", theirs().leased(lease(&me(), 3)).held(running(3)), "end"),
        ("theirs and ending here", theirs().leased(lease(&me(), 3)).held(ending), "nothing"),
        ("theirs and stopped here", theirs().leased(lease(&me(), 3)).held(stopped), "nothing"),
        ("theirs, with a lease left over", theirs().leased(lease(&me(), 3)), "release"),
        ("retiring, free", mine().draining(), "nothing"),
        ("retiring, running", mine().leased(lease(&me(), 3)).held(running(3)).draining(), "end"),
        ("retiring, stopped", mine().leased(lease(&me(), 3)).held(stopped).draining(), "end"),
        ("mine, given up here", mine().refused_by(&me(), 9_000), "nothing"),
        ("theirs, given up there", theirs().refused_by(&other(), 9_000), "acquire"),
    ];
    for (what, scene, expected) in cases {
        assert_eq!(scene.step(), expected, "{what}");
    }
}

#[test]
fn a_role_that_everybody_gave_up_rests_before_it_is_tried_again() {
    let rested = NOW.0 - REST.as_millis() as u64;
    assert_eq!(Scene::alone().refused_by(&me(), rested).step(), "acquire");
    let resting = Scene::alone().refused_by(&me(), rested + 1);
    assert_eq!(resting.step(), "nothing");
    assert_eq!(resting.steps().look_again_at, Some(Timestamp(NOW.0 + 1)));
}

#[test]
fn a_node_that_is_not_seen_alive_does_nothing() {
    let mut scene = Scene::alone();
    scene.roster.members.clear();
    assert_eq!(scene.step(), "nothing");
    let mut replaced = Scene::alone().held(running(3));
    replaced.roster.members.clear();
    let replaced = replaced.with(&Holder { id: "a".into(), incarnation: 9 });
    assert_eq!(replaced.step(), "nothing");
}

#[test]
fn a_role_that_its_part_no_longer_brings_is_ended() {
    let scene = Scene::alone().leased(lease(&me(), 3)).held(running(3));
    let steps = reconcile(&scene.roster, &me(), &[], &BTreeSet::new(), &scene.held);
    assert_eq!(steps.end, scene.roles);
}

#[test]
fn a_lease_that_cannot_be_read_is_left_alone() {
    let mut scene = Scene::alone();
    scene.roster.locked.insert(role("x"));
    assert_eq!(scene.step(), "nothing");
    assert_eq!(scene.held(running(3)).step(), "lost");
}

#[test]
fn it_looks_again_when_what_it_waits_for_may_lapse() {
    let scene = Scene::meant_for(&me());
    assert_eq!(scene.steps().look_again_at, Some(Timestamp(12_000)), "the other node");
    let mut held = lease(&other(), 3);
    held.until = Timestamp(11_000);
    assert_eq!(scene.leased(held).steps().look_again_at, Some(Timestamp(11_000)));
}
