//! Elections, hand-overs and replacements.

use std::time::Duration;

use consort_db::write::queue::WriteFailure;

use crate::bed::{
    Bed, TestNode, applied, eventually, integer, job, knows_other_leader, leader_of, number,
    results, statement,
};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_elects_the_lowest_worker_and_its_reader_follows() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    let leader = node.leads().await;
    assert_eq!(leader.id(), 1);
    node.sql(TABLE).await;
    let index = node.sql("INSERT INTO t (a) VALUES ('x'), ('y')").await;
    assert_eq!(index, 2);
    let workers = applied(&node, index).await;
    assert_eq!(workers.iter().map(|worker| worker.id()).collect::<Vec<_>>(), [1, 2]);
    for worker in &workers {
        assert_eq!(number(worker, "SELECT count(*) FROM t"), 2);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_arrive_together_share_groups_and_each_gets_its_own_answer() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let writes = (0..200).map(|n| {
        let insert = match n % 10 {
            // It fails alone.
            0 => statement("INSERT INTO missing VALUES (1)"),
            _ => statement(&format!("INSERT INTO t (id, a) VALUES ({n}, 'x') RETURNING id")),
        };
        let job = consort_db::write::job::WriteJob { statements: vec![insert], key: None };
        let node = &node;
        async move { (n, node.write(job).await.unwrap()) }
    });
    let replies = futures::future::join_all(writes).await;
    for (n, settled) in &replies {
        match n % 10 {
            0 => assert!(settled.outcome.is_err()),
            _ => {
                let rows = &results(settled.outcome.clone().unwrap())[0].rows;
                assert_eq!(integer(&rows[0][0]), *n);
            }
        }
    }
    let end = replies.iter().map(|(_, settled)| settled.position.index).max().unwrap();
    assert!(end < 100, "200 jobs took {end} entries");
    for worker in applied(&node, end).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t"), 180);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h28_a_leader_that_leaves_hands_the_lead_to_the_reader_on_the_other_node() {
    let bed = Bed::new();
    let nodes = [bed.node("a").await, bed.node("b").await];
    let at = leader_of(&nodes).await;
    nodes[at].sql(TABLE).await;
    let index = nodes[at].sql("INSERT INTO t (a) VALUES ('x')").await;
    let [first, second] = nodes;
    let (leaving, staying) = if at == 0 { (first, second) } else { (second, first) };
    eventually("the reader knows the leader", || knows_other_leader(&staying).then_some(())).await;
    leaving.stop().await;
    let leader = staying.leads().await;
    assert_eq!(number(&leader, "SELECT count(*) FROM t"), 1);
    assert_eq!(staying.sql("INSERT INTO t (a) VALUES ('y')").await, index + 1);
    staying.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_node_dies_is_replaced_and_its_writes_are_kept() {
    let bed = Bed::new();
    let nodes = [bed.node("a").await, bed.node("b").await];
    let at = leader_of(&nodes).await;
    nodes[at].sql(TABLE).await;
    let index = nodes[at].sql("INSERT INTO t (a) VALUES ('x')").await;
    let [first, second] = nodes;
    let (dying, staying) = if at == 0 { (first, second) } else { (second, first) };
    dying.kill();
    staying.leads().await;
    assert_eq!(staying.sql("INSERT INTO t (a) VALUES ('y')").await, index + 1);
    staying.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h25_a_crashed_worker_is_replaced_by_one_with_a_new_id() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    let leader = node.leads().await;
    node.sql(TABLE).await;
    leader.crash();
    let next = eventually("another worker leads", || {
        node.db.local_leader().filter(|next| next.id() != leader.id())
    })
    .await;
    assert_eq!(next.id(), 2);
    let ids = eventually("the crashed worker is replaced", || {
        let ids: Vec<u64> = node.db.local_workers().iter().map(|worker| worker.id()).collect();
        (ids.len() == 2).then_some(ids)
    })
    .await;
    assert_eq!(ids, [2, 3]);
    let index = node.sql("INSERT INTO t (a) VALUES ('x')").await;
    for worker in applied(&node, index).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t"), 1);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_a_leader_that_was_cut_off_cannot_write_when_it_comes_back() {
    let bed = Bed::new();
    let nodes = [bed.node("a").await, bed.node("b").await];
    let at = leader_of(&nodes).await;
    let (old, other) = (&nodes[at], &nodes[1 - at]);
    old.sql(TABLE).await;
    let index = old.sql("INSERT INTO t (a) VALUES ('x')").await;
    let worker = old.leads().await;
    old.store.cut_off(true);
    let next = other.leads().await;
    assert_ne!(next.id(), worker.id());
    assert_eq!(other.sql("INSERT INTO t (a) VALUES ('y')").await, index + 1);
    let refused = old.write(job("INSERT INTO t (a) VALUES ('late')")).await;
    let refused = refused.unwrap_err();
    let expected = [WriteFailure::StoreFault, WriteFailure::NotLeader, WriteFailure::NotTaken];
    assert!(expected.contains(&refused), "{refused:?}");
    old.store.cut_off(false);
    old.leads_no_more().await;
    let workers = applied(other, index + 1).await;
    assert_eq!(number(&workers[0], "SELECT count(*) FROM t WHERE a = 'late'"), 0);
    stop_all(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_store_that_lost_its_tail_stops_the_database() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let shard = node.db.store().cells().shard();
    let image = bed.memory.image(shard);
    node.sql("INSERT INTO t (a) VALUES ('lost')").await;
    bed.memory.roll_back(shard, image);
    eventually("the database is stopped", || node.db.sight().stopped().map(str::to_owned)).await;
    let refused = node.write(job("INSERT INTO t (a) VALUES ('x')")).await.unwrap_err();
    let is_refused = matches!(refused, WriteFailure::Stopped(_) | WriteFailure::NotLeader);
    assert!(is_refused, "{refused:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_again_goes_on_with_its_old_file() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let index = node.sql("INSERT INTO t (a) VALUES ('x')").await;
    let workers = applied(&node, index).await;
    let file = workers[0].status().file.unwrap();
    node.stop().await;
    let node = bed.node("a").await;
    let workers = applied(&node, index).await;
    let files: Vec<_> = workers.iter().map(|worker| worker.status().file.unwrap()).collect();
    assert!(files.contains(&file), "{files:?} lacks {file:?}");
    assert_eq!(node.sql("INSERT INTO t (a) VALUES ('y')").await, index + 1);
    node.stop().await;
}

async fn stop_all(nodes: [TestNode; 2]) {
    for node in nodes {
        // A node that another has replaced stops, too.
        let _ = tokio::time::timeout(Duration::from_secs(20), node.stop()).await;
    }
}
