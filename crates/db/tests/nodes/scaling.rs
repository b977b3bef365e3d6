//! Readers come and go with the load, on whole nodes.

use std::time::Duration;

use crate::bed::{Bed, TestNode, eventually, number};

/// The ids of all workers that serve a file, on all nodes.
fn serving(nodes: &[&TestNode]) -> Vec<u64> {
    let workers = nodes.iter().flat_map(|node| node.db.local_workers());
    let serving = workers.filter(|worker| worker.status().file.is_some());
    let mut ids: Vec<u64> = serving.map(|worker| worker.id()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_grow_with_reads_and_those_with_the_highest_ids_retire() {
    let bed = Bed::with(|settings| settings.readers.window = Duration::from_secs(2));
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    let nodes = [&a, &b];
    let before =
        eventually("a leader and a reader", || Some(serving(&nodes)).filter(|ids| ids.len() == 2))
            .await;
    for n in 0..60 {
        nodes[n % 2].db.count_read();
    }
    let grown = eventually("three readers beside the leader", || {
        Some(serving(&nodes)).filter(|ids| ids.len() == 4)
    })
    .await;
    assert_eq!(grown[..2], before[..], "a worker that is added moves no other");
    let after =
        eventually("one reader is left", || Some(serving(&nodes)).filter(|ids| ids.len() == 2))
            .await;
    // The leader and the reader that was there before, unless a later worker leads.
    let leads = nodes.iter().find_map(|node| node.db.local_leader()).map(|leader| leader.id());
    assert!(leads.is_none_or(|leader| after.contains(&leader)), "{after:?} {leads:?}");
    assert!(after.iter().any(|id| before.contains(id)), "{before:?} {grown:?} {after:?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_reader_has_all_rows() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)").await;
    let index = node.sql("INSERT INTO t (a) VALUES ('x'), ('y')").await;
    for _ in 0..21 {
        node.db.count_read();
    }
    let workers = eventually("two readers have the rows", || {
        let workers = node.db.local_workers();
        let has = |index| workers.iter().all(|worker| worker.status().applied.index >= index);
        (workers.len() == 3 && has(index)).then_some(workers)
    })
    .await;
    for worker in workers {
        assert_eq!(number(&worker, "SELECT count(*) FROM t"), 2);
    }
    node.stop().await;
}
