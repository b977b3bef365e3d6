//! Files of the schema.

use std::time::Duration;

use consort_db::db::SchemaCheckError;
use consort_db::write::job::JobErrorKind;
use consort_db::write::schema_file::SchemaFile;
use tokio::time::Instant;

use crate::bed::{Bed, TestNode, applied, number};

fn file(name: &str, sql: &str) -> SchemaFile {
    SchemaFile { name: name.into(), sql: sql.into() }
}

async fn apply(node: &TestNode, file: &SchemaFile) -> Result<u64, JobErrorKind> {
    let take_by = Instant::now() + Duration::from_secs(2);
    let settled = node.db.apply_schema_file(file.clone(), take_by).await.unwrap();
    settled.outcome.map(|_| settled.position.index).map_err(|error| error.kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_applied_once_as_one_entry_and_must_not_change_afterwards() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.leads().await;
    let first = file("001.sql", "CREATE TABLE t (a TEXT);\nINSERT INTO t VALUES ('x');\n-- done\n");
    assert_eq!(apply(&node, &first).await, Ok(1));
    assert_eq!(apply(&node, &first).await, Ok(1), "again");
    let changed = file("001.sql", "CREATE TABLE u (a TEXT)");
    assert_eq!(apply(&node, &changed).await, Err(JobErrorKind::Schema));
    let second = file("002.sql", "ALTER TABLE t ADD COLUMN b");
    assert_eq!(apply(&node, &second).await, Ok(2));
    for worker in applied(&node, 2).await {
        assert_eq!(number(&worker, "SELECT count(*) FROM t WHERE b IS NULL"), 1);
        assert_eq!(number(&worker, "SELECT count(*) FROM _consort_schema"), 2);
    }
    // A node that starts with a changed file finds out before it has a worker.
    assert_eq!(node.db.check_schema_files(&[first, second]).await, Ok(()));
    let refused = node.db.check_schema_files(&[changed]).await.unwrap_err();
    assert!(matches!(refused, SchemaCheckError::Changed(_)), "{refused:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_mistake_changes_nothing() {
    let bed = Bed::new();
    let node = bed.node("a").await;
    node.leads().await;
    let bad = file("001.sql", "CREATE TABLE t (a TEXT); CREATE TABLE t (b TEXT)");
    assert_eq!(apply(&node, &bad).await, Err(JobErrorKind::Request));
    let good = file("001.sql", "CREATE TABLE t (a TEXT)");
    assert_eq!(apply(&node, &good).await, Ok(1));
    node.stop().await;
}
