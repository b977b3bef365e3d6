//! Snapshots, backups and comparisons of files, on whole nodes.

use std::path::Path;
use std::time::Duration;

use consort_db::snapshot::manifest::{Manifest, trim_before};
use consort_db::snapshot::verify::replace_diverged_workers;
use consort_kernel::{Expect, Operation};
use rusqlite::Connection;

use crate::bed::{Bed, PATIENCE, TestNode, applied, eventually, number};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";
const FILL: &str = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000)
    INSERT INTO t (a) SELECT hex(randomblob(100)) FROM n";

/// Asks for a snapshot of this index or later, as a supervisor does, and waits until there is one.
async fn snapshot(node: &TestNode, index: u64) -> Manifest {
    let store = node.db.store();
    loop {
        let wanted = store.sight().await.unwrap().wanted.unwrap();
        let Some(next) = wanted.with_snapshot(index) else { break };
        let key = store.cells().wanted();
        let put = Operation::Put { key: key.clone(), value: next.encode() };
        store.commit([Expect::Bytes(key, Some(wanted.encode()))], vec![put]).await;
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while store.sight().await.unwrap().wanted.unwrap().snapshot_behind.is_some() {
        assert!(tokio::time::Instant::now() < deadline, "the snapshot is made: never");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let manifests = store.manifests().await.unwrap();
    let made = manifests.into_iter().flatten().filter(|manifest| manifest.index >= index);
    made.max_by_key(|manifest| manifest.index).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wanted_snapshot_is_made_and_a_new_worker_loads_it() {
    let bed = Bed::with(|settings| settings.readers.min = 2);
    let a = bed.node("a").await;
    a.sql(TABLE).await;
    let first = a.sql(FILL).await;
    let older = snapshot(&a, first).await;
    let second = a.sql("UPDATE t SET a = 'x' WHERE id <= 10").await;
    let newer = snapshot(&a, second).await;
    assert_eq!((older.index, newer.index), (first, second));
    let before = trim_before([Some(&older), Some(&newer)]).unwrap();
    a.db.store().trim(1, before).await.unwrap();
    let last = a.sql("DELETE FROM t WHERE id > 1900").await;
    // The entries at the beginning are gone, so the workers of this node need a snapshot.
    let b = bed.node("b").await;
    let workers = applied(&b, last).await;
    for worker in &workers {
        assert_eq!(number(worker, "SELECT count(*) FROM t"), 1900);
        assert_eq!(number(worker, "SELECT count(*) FROM t WHERE a = 'x'"), 10);
    }
    for check in a.db.verify_local().await.into_iter().chain(b.db.verify_local().await) {
        assert!(check.found.unwrap().is_equal(), "worker {}", check.worker);
    }
    b.stop().await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_one_plain_file_as_of_one_index() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    node.sql("INSERT INTO t (a) VALUES ('x')").await;
    let index = node.sql("INSERT INTO t (a) VALUES ('y')").await;
    applied(&node, index).await;
    let path = bed.folder("backup.sqlite");
    let position = node.db.backup(&path).await.unwrap();
    assert_eq!(position.index, index);
    assert_eq!(rows(&path, "SELECT count(*) FROM t"), 2);
    let own = "SELECT count(*) FROM sqlite_schema WHERE name = '_consort_local'";
    assert_eq!(rows(&path, own), 0);
    let beside = ["backup.sqlite-wal", "backup.sqlite-shm"].map(|name| bed.folder(name).exists());
    assert_eq!(beside, [false, false]);
    node.stop().await;
}

fn rows(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_file_differs_is_found_and_replaced() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.sql(TABLE).await;
    let index = node.sql("INSERT INTO t (a) VALUES ('x'), ('y')").await;
    let workers = applied(&node, index).await;
    replace_diverged_workers(&node.db).await;
    assert_eq!(ids(&node), workers.iter().map(|worker| worker.id()).collect::<Vec<_>>());
    let reader = workers.iter().find(|worker| !worker.status().leads).unwrap();
    let file = reader.status().file.unwrap();
    let damage = "UPDATE t SET a = 'z' WHERE id = 1";
    Connection::open(&*file.path).unwrap().execute(damage, []).unwrap();
    let differs = |check: &consort_db::snapshot::verify::WorkerCheck| {
        check.found.as_ref().is_ok_and(|found| !found.is_equal())
    };
    let checks = node.db.verify_local().await;
    let found: Vec<u64> = checks.iter().filter(|c| differs(c)).map(|c| c.worker).collect();
    assert_eq!(found, [reader.id()]);
    replace_diverged_workers(&node.db).await;
    let old = reader.id();
    eventually("another worker has its slot", || (!ids(&node).contains(&old)).then_some(())).await;
    for worker in eventually("two workers", || {
        let workers = node.db.local_workers();
        let has_rows = |w: &consort_db::worker::shared::LocalWorker| {
            w.status().file.is_some() && w.status().applied.index >= index
        };
        (workers.len() == 2 && workers.iter().all(has_rows)).then_some(workers)
    })
    .await
    {
        assert_eq!(number(&worker, "SELECT count(*) FROM t WHERE a = 'z'"), 0);
    }
    assert!(node.db.verify_local().await.iter().all(|check| !differs(check)));
    node.stop().await;
}

fn ids(node: &TestNode) -> Vec<u64> {
    node.db.local_workers().iter().map(|worker| worker.id()).collect()
}
