//! Restores and the end of a stop, on whole nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort_db::DbPosition;
use consort_db::snapshot::resolve::{ResolveError, ResolveFrom};
use consort_db::write::job::JobAnswer;
use consort_db::write::schema_file::SchemaFile;
use tokio::time::Instant;

use crate::bed::{Bed, TestNode, applied, eventually, job, keyed, number};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

/// Waits until all workers of a node are in this era, and one of them leads.
async fn in_era(node: &TestNode, era: u64) {
    eventually("the workers have loaded the era", || {
        let workers = node.db.local_workers();
        let all =
            workers.iter().all(|w| w.status().applied.era == era && w.status().file.is_some());
        (!workers.is_empty() && all && node.db.local_leader().is_some()).then_some(())
    })
    .await;
}

async fn count(node: &TestNode, sql: &str) -> i64 {
    let leader = node.leads().await;
    number(&leader, sql)
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_a_restore_begins_a_new_era_with_the_rows_of_the_backup() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    let file = |n: u32, sql: &str| SchemaFile { name: format!("{n}.sql"), sql: sql.into() };
    node.leads().await;
    apply(&node, file(1, TABLE)).await;
    node.sql("INSERT INTO t (a) VALUES ('x')").await;
    let backup = bed.folder("backup.sqlite");
    let index = node.sql("INSERT INTO t (a) VALUES ('y')").await;
    applied(&node, index).await;
    node.db.backup(&backup).await.unwrap();
    apply(&node, file(2, "CREATE TABLE later (a)")).await;
    node.sql("DELETE FROM t").await;
    let position = node.db.restore(&backup).await.unwrap();
    assert_eq!(position, DbPosition { era: 2, index: 0 });
    in_era(&node, 2).await;
    assert_eq!(count(&node, "SELECT count(*) FROM t").await, 2);
    // The schema file of after the backup is no longer applied.
    let applied_files = node.db.store().schema_files().await.unwrap();
    assert_eq!(applied_files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["1.sql"]);
    apply(&node, file(1, TABLE)).await;
    apply(&node, file(2, "CREATE TABLE later (a)")).await;
    node.sql("INSERT INTO later VALUES (1)").await;
    let settled = node.write(job("INSERT INTO t (a) VALUES ('z')")).await.unwrap();
    assert_eq!(settled.position, DbPosition { era: 2, index: 3 });
    assert_eq!(count(&node, "SELECT count(*) FROM t").await, 3);
    for check in node.db.verify_local().await {
        assert!(check.found.unwrap().is_equal());
    }
    node.stop().await;
}

async fn apply(node: &TestNode, file: SchemaFile) {
    let by = Instant::now() + Duration::from_secs(5);
    node.db.apply_schema_file(file, by).await.unwrap().outcome.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_while_writes_go_on_keeps_each_write_of_the_new_era_and_none_of_the_old() {
    let bed = Bed::new();
    let node = Arc::new(bed.node("a").await);
    node.sql(TABLE).await;
    let index = node.sql("INSERT INTO t (a) VALUES ('backup')").await;
    applied(&node, index).await;
    let backup = bed.folder("backup.sqlite");
    node.db.backup(&backup).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (node, is_over) = (Arc::clone(&node), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut stored = [0u64; 3];
                while !is_over.load(Ordering::SeqCst) {
                    match node.write(job("INSERT INTO t (a) VALUES ('new')")).await {
                        Ok(settled) => stored[settled.position.era as usize] += 1,
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
                stored
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.db.restore(&backup).await.unwrap();
    in_era(&node, 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    is_over.store(true, Ordering::SeqCst);
    let stored = futures::future::join_all(writers).await;
    let of_era =
        |era: usize| stored.iter().map(|writer| writer.as_ref().unwrap()[era]).sum::<u64>();
    assert!(of_era(1) > 0 && of_era(2) > 0, "{stored:?}");
    let end = node.sql("UPDATE t SET a = 'seen' WHERE a = 'new'").await;
    for worker in applied(&node, end).await {
        let seen = number(&worker, "SELECT count(*) FROM t WHERE a = 'seen'");
        assert_eq!(seen as u64, of_era(2), "worker {}", worker.id());
        assert_eq!(number(&worker, "SELECT count(*) FROM t WHERE a = 'backup'"), 1);
    }
    let node = Arc::into_inner(node).expect("the writers have ended");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_refused_changes_nothing() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let bad = bed.folder("bad.sqlite");
    rusqlite::Connection::open(&bad)
        .unwrap()
        .execute_batch("CREATE TABLE u (a TEXT PRIMARY KEY)")
        .unwrap();
    let refused = node.db.restore(&bad).await.unwrap_err();
    assert!(refused.to_string().contains("a TEXT NOT NULL PRIMARY KEY"), "{refused}");
    assert!(!refused.is_unknown());
    let head = node.db.store().head().await.unwrap().unwrap();
    assert_eq!(head.era, 1);
    node.sql("INSERT INTO t (a) VALUES ('x')").await;
    // Nothing is left in the folder.
    let left = std::fs::read_dir(bed.folder("a").join("db").join("notes")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("restore")), "{left:?}");
    node.stop().await;
}

/// Loses the last writes, as an engine does that fails over to a copy that lagged, and waits for the stop.
async fn with_lost_tail(bed: &Bed, node: &TestNode) {
    node.sql(TABLE).await;
    node.write(keyed("k", "INSERT INTO t (a) VALUES ('kept')")).await.unwrap().outcome.unwrap();
    let index = node.sql("INSERT INTO t (a) VALUES ('kept')").await;
    applied(node, index).await;
    let shard = node.db.store().cells().shard();
    let image = bed.memory.image(shard);
    let index = node.sql("INSERT INTO t (a) VALUES ('lost'), ('lost')").await;
    applied(node, index).await;
    bed.memory.roll_back(shard, image);
    eventually("the database stops", || node.db.view().now().stopped().map(drop)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_stopped_database_goes_on_with_what_the_store_has() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql("CREATE TABLE other (a)").await;
    let early = node.db.resolve(ResolveFrom::Store).await;
    assert!(matches!(early, Err(ResolveError::Head(_))), "{early:?}");
    with_lost_tail(&bed, &node).await;
    let position = node.db.resolve(ResolveFrom::Store).await.unwrap();
    assert_eq!(position, DbPosition { era: 2, index: 0 });
    in_era(&node, 2).await;
    assert_eq!(count(&node, "SELECT count(*) FROM t").await, 2);
    // A repeat of a request of before takes no effect again (H22).
    let again = node.write(keyed("k", "INSERT INTO t (a) VALUES ('kept')")).await.unwrap();
    assert!(matches!(again.outcome, Ok(JobAnswer::Known { .. })), "{again:?}");
    node.sql("INSERT INTO t (a) VALUES ('new')").await;
    assert_eq!(count(&node, "SELECT count(*) FROM t").await, 3);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_stopped_database_goes_on_with_a_worker_that_has_the_lost_writes() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    with_lost_tail(&bed, &node).await;
    let none = node.db.resolve(ResolveFrom::Worker(999)).await;
    assert!(matches!(none, Err(ResolveError::NoWorker(999))), "{none:?}");
    let ahead = eventually("a worker with the lost writes", || {
        let workers = node.db.local_workers();
        let file = |w: &consort_db::worker::shared::LocalWorker| w.status().file.is_some();
        workers.into_iter().find(|w| file(w) && number(w, "SELECT count(*) FROM t") == 4)
    })
    .await;
    node.db.resolve(ResolveFrom::Worker(ahead.id())).await.unwrap();
    in_era(&node, 2).await;
    assert_eq!(count(&node, "SELECT count(*) FROM t WHERE a = 'lost'").await, 2);
    node.sql("INSERT INTO t (a) VALUES ('new')").await;
    for check in node.db.verify_local().await {
        assert!(check.found.unwrap().is_equal());
    }
    node.stop().await;
}
