//! Rosters from cells of all sorts.

use super::*;
use crate::format::encode;
use bytes::Bytes;
use std::time::Duration;

const TTL: Duration = Duration::from_millis(3000);

fn member(id: &str, incarnation: u64, renewed: u64) -> Member {
    Member {
        id: id.into(),
        incarnation,
        address: format!("{id}:7400"),
        version: "1".into(),
        since: Timestamp(0),
        load: 0,
        draining: false,
        renewed: Timestamp(renewed),
        until: Timestamp(renewed).after(TTL),
    }
}

fn lease(id: &str, incarnation: u64, renewed: u64) -> Lease {
    let holder = Holder { id: id.into(), incarnation };
    Lease::acquired_by(&holder, None, Timestamp(renewed), TTL)
}

fn role(name: &str) -> Role {
    Role::new("worker", name)
}

fn roster(now: u64, cells: Vec<(Key, Bytes)>) -> Roster {
    let mut roster = Roster { now: Timestamp(now), ..Roster::default() };
    for (key, stored) in cells {
        roster.take(key, Value::Bytes(stored));
    }
    roster
}

#[test]
fn a_roster_shows_who_lives_and_who_owns_what() {
    let roster = roster(
        4000,
        vec![
            (keys::member("a"), encode(&member("a", 1, 3500))),
            (keys::member("b"), encode(&member("b", 2, 1000))),
            (keys::lease(&role("x")), encode(&lease("a", 1, 3500))),
            (keys::lease(&role("y")), encode(&lease("b", 2, 1000))),
            (keys::lease(&role("z")), encode(&lease("b", 2, 3000).released(Timestamp(3100)))),
            (keys::drain("a"), encode(&Drain { since: Timestamp(1) })),
            (keys::refusal(&role("x"), "b"), encode(&RoleRefusal::new("no", Timestamp(3000)))),
            (keys::report("a"), encode(&Report::default())),
            (keys::news(), Bytes::from_static(b"anything")),
        ],
    );
    let live: Vec<&str> = roster.live().map(|member| member.id.as_str()).collect();
    assert_eq!(live, ["a"]);
    assert_eq!(roster.candidates(), [Candidate { id: "a".into(), draining: true }]);
    assert_eq!(roster.owner(&role("x")), Some("a"));
    assert_eq!(roster.owner(&role("y")), None, "it lapsed");
    assert_eq!(roster.owner(&role("z")), None, "it was released");
    assert_eq!(roster.refused(), BTreeSet::from([(role("x"), "b".to_string())]));
    assert_eq!(roster.unreadable, []);
}

#[test]
fn a_refusal_that_lapsed_says_nothing() {
    let refusal = RoleRefusal::new("no", Timestamp(1000));
    let cells = vec![(keys::refusal(&role("x"), "b"), encode(&refusal))];
    assert_eq!(roster(30_999, cells.clone()).refused().len(), 1);
    assert_eq!(roster(31_000, cells).refused().len(), 0);
}

#[test]
fn what_cannot_be_read_is_told_and_passed_over() {
    let newer = Bytes::from_static(b"\x02{}");
    let cells = vec![
        (keys::member("a"), newer.clone()),
        (keys::member("b"), encode(&member("c", 1, 0))),
        (keys::lease(&role("x")), newer.clone()),
        (keys::refusal(&role("x"), "b"), newer.clone()),
        (keys::root().with("vote").with("a"), newer.clone()),
        (keys::root().with(7u64), newer),
        (keys::member("d"), encode(&member("d", 1, 0))),
    ];
    let roster = roster(10, cells);
    assert_eq!(roster.unreadable.len(), 6);
    assert_eq!(roster.live().count(), 1);
    assert!(roster.locked.contains(&role("x")));
    let me = Holder { id: "d".into(), incarnation: 1 };
    assert_eq!(roster.standing(&role("x"), &me, 1), Standing::Taken);
}

#[test]
fn who_is_alone_finds_everybody_else_dead() {
    let cells = vec![
        (keys::member("a"), encode(&member("a", 1, 0))),
        (keys::member("b"), encode(&member("b", 2, 0))),
        (keys::lease(&role("x")), encode(&lease("a", 1, 0))),
        (keys::lease(&role("y")), encode(&lease("b", 2, 0))),
    ];
    let roster = roster(10, cells).seen_by(Some(2));
    let live: Vec<&str> = roster.live().map(|member| member.id.as_str()).collect();
    assert_eq!(live, ["b"]);
    assert_eq!(roster.owner(&role("x")), None);
    assert_eq!(roster.owner(&role("y")), Some("b"));
}

#[test]
fn the_only_process_is_alive_and_owns_its_leases_however_late_it_renews_them() {
    let cells = vec![
        (keys::member("b"), encode(&member("b", 2, 0))),
        (keys::lease(&role("y")), encode(&lease("b", 2, 0))),
        (keys::lease(&role("z")), encode(&lease("b", 2, 0).released(Timestamp(5)))),
    ];
    let late = roster(1_000_000, cells);
    assert_eq!((late.live().count(), late.owner(&role("y"))), (0, None));
    let late = late.seen_by(Some(2));
    assert_eq!((late.live().count(), late.owner(&role("y"))), (1, Some("b")));
    assert_eq!(late.owner(&role("z")), None, "it was released");
}

#[test]
fn the_next_look_is_when_something_of_others_lapses() {
    let me = Holder { id: "a".into(), incarnation: 1 };
    let mut cells = vec![
        (keys::member("a"), encode(&member("a", 1, 0))),
        (keys::lease(&role("x")), encode(&lease("a", 1, 0))),
    ];
    assert_eq!(roster(10, cells.clone()).next_lapse(&me), None, "its own");
    cells.push((keys::lease(&role("y")), encode(&lease("b", 2, 7000).released(Timestamp(7000)))));
    cells.push((keys::member("c"), encode(&member("c", 3, 0))));
    assert_eq!(roster(8000, cells.clone()).next_lapse(&me), None, "lapsed already");
    cells.push((keys::refusal(&role("x"), "b"), encode(&RoleRefusal::new("no", Timestamp(0)))));
    assert_eq!(roster(8000, cells.clone()).next_lapse(&me), Some(Timestamp(30_000)));
    cells.push((keys::member("b"), encode(&member("b", 2, 7000))));
    assert_eq!(roster(8000, cells.clone()).next_lapse(&me), Some(Timestamp(10_000)));
    cells.push((keys::lease(&role("z")), encode(&lease("b", 2, 6500))));
    assert_eq!(roster(8000, cells).next_lapse(&me), Some(Timestamp(9500)));
}

#[tokio::test]
async fn a_roster_longer_than_a_page_is_read_whole() {
    use consort_kernel::memory::MemoryStore;
    use consort_kernel::{Commit, ManualClock, Operation};
    use std::sync::Arc;

    let store = MemoryStore::new(1, Arc::new(ManualClock::at(Timestamp(5))));
    let names: Vec<String> = (0..PAGE_ROWS * 2 + 7).map(|n| n.to_string()).collect();
    let put = |name: &String| Operation::Put {
        key: keys::lease(&role(name)),
        value: encode(&lease("a", 1, 0)),
    };
    store.commit(keys::SHARD, Commit::of(names.iter().map(put))).await.unwrap();
    let roster = Roster::read(&store).await.unwrap();
    assert_eq!((roster.now, roster.leases.len()), (Timestamp(5), names.len()));
}
