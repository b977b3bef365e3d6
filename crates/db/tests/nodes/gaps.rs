//! A fault at each gap of the write path: whatever the store answers, no acknowledged write is lost, and no write
//! takes effect twice.

use std::time::Duration;

use consort_db::write::queue::WriteFailure;

use crate::bed::{Bed, applied, job, keyed, leader_of, number};
use crate::faults::GroupFault;

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_commit_with_an_unknown_outcome_is_repeated_until_it_is_certain() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let cases: [&[GroupFault]; 5] = [
        &[GroupFault::AppliedUnknown],
        &[GroupFault::LostUnknown],
        &[GroupFault::LostUnknown, GroupFault::AppliedUnknown, GroupFault::LostUnknown],
        &[GroupFault::AppliedUnknown, GroupFault::Refused, GroupFault::Refused],
        &[GroupFault::Refused, GroupFault::LostUnknown],
    ];
    let mut index = 1;
    for (n, faults) in cases.iter().enumerate() {
        node.store.plan(faults.iter().copied());
        index += 1;
        let stored = node.sql(&format!("INSERT INTO t (a) VALUES ('{n}')")).await;
        assert_eq!(stored, index, "{faults:?}");
    }
    for worker in applied(&node, index).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t"), 5);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_for_long_stores_nothing_and_the_leader_goes_on() {
    let bed = Bed::with(|settings| settings.wait = Duration::from_millis(200));
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    node.store.plan([GroupFault::Refused; 1000]);
    let refused = node.write(job("INSERT INTO t (a) VALUES ('x')")).await;
    assert_eq!(refused.unwrap_err(), WriteFailure::StoreFault);
    let left = node.store.planned();
    assert!(left > 0 && left < 1000);
    while node.store.planned() > 0 {
        let _ = node.write(job("INSERT INTO t (a) VALUES ('x')")).await;
    }
    let index = node.sql("INSERT INTO t (a) VALUES ('y')").await;
    for worker in applied(&node, index).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t WHERE a = 'y'"), 1);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h36_a_leader_that_cannot_settle_answers_unknown_and_a_repeat_with_the_key_counts_once() {
    let bed = Bed::with(|settings| settings.wait = Duration::from_millis(300));
    let nodes = [bed.node("a").await, bed.node("b").await];
    let at = leader_of(&nodes).await;
    let (old, other) = (&nodes[at], &nodes[1 - at]);
    old.sql(TABLE).await;
    old.store.plan([GroupFault::AppliedUnknown]);
    old.store.plan([GroupFault::LostUnknown; 10_000]);
    let unknown = old.write(keyed("k", "INSERT INTO t (a) VALUES ('x')")).await;
    assert_eq!(unknown.unwrap_err(), WriteFailure::Unknown);
    old.store.cut_off(true);
    other.leads().await;
    let settled = other.write(keyed("k", "INSERT INTO t (a) VALUES ('x')")).await.unwrap();
    settled.outcome.unwrap();
    let workers = applied(other, settled.position.index).await;
    assert_eq!(number(&workers[0], "SELECT count(*) FROM t"), 1);
    for node in nodes {
        node.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_while_its_commit_is_open_leaves_the_write_whole_or_not_at_all() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    for n in 0..4 {
        let leader = node.leads().await;
        let fault = match n % 2 {
            0 => GroupFault::Slow(Duration::from_millis(200)),
            _ => GroupFault::LostUnknown,
        };
        node.store.plan([fault]);
        let insert = keyed(&format!("k{n}"), "INSERT INTO t (a) VALUES ('x'), ('y')");
        let write = node.write(insert.clone());
        let crash = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            leader.crash();
        };
        let (_, ()) = tokio::join!(write, crash);
        node.leads_no_more_or_other(leader.id()).await;
        // The client repeats it until it is answered.
        loop {
            node.leads().await;
            if let Ok(settled) = node.write(insert.clone()).await {
                settled.outcome.unwrap();
                break;
            }
        }
    }
    let index = node.sql("INSERT INTO t (a) VALUES ('last')").await;
    for worker in applied(&node, index).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t"), 9);
    }
    node.stop().await;
}
