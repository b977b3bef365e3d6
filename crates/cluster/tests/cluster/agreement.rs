//! Nodes that settle their definitions in one cell of the store.

use std::sync::Arc;

use consort_cluster::agreement::{Agreement, AgreementError, Differences};
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Commit, Key, ManualClock, Operation, Shard, Store, Timestamp};
use serde_json::json;

use crate::unsound::{Mode, UnsoundStore};

fn store() -> Arc<UnsoundStore> {
    let clock = Arc::new(ManualClock::at(Timestamp(1)));
    UnsoundStore::new(Arc::new(MemoryStore::new(4, clock)), false)
}

/// A view sums `field`; a stream and a kind that release 0.1 did not know stand beside it.
fn summing(field: &str) -> Agreement {
    Agreement::new()
        .define("view", "skier_days", json!({"from": "rides"}))
        .define("stream", "rides", json!({"partitions": "4"}))
        .define("view", "days", json!({"from": "rides", "sum": field}))
        .define("document", "texts", json!({"keep": {"age": "1d"}}))
}

fn differences(result: Result<impl std::fmt::Debug, AgreementError>) -> Vec<String> {
    match result {
        Err(AgreementError::Differ(Differences(lines))) => lines,
        other => panic!("there are differences: {other:?}"),
    }
}

#[tokio::test]
async fn each_name_has_a_number_that_is_the_same_on_every_node() {
    let store = store();
    let first = summing("lift").agree(&*store).await.unwrap();
    assert_eq!(first.number("view", "days"), Ok(1));
    assert_eq!(first.number("view", "skier_days"), Ok(2));
    assert_eq!(first.number("stream", "rides"), Ok(1));
    assert_eq!(first.number("document", "texts"), Ok(1));
    let missing = first.number("view", "rides").unwrap_err().to_string();
    assert_eq!(missing, "the cluster has no number for the view 'rides'");
    assert_eq!(summing("lift").agree(&*store).await, Ok(first));
}

#[tokio::test]
async fn a_node_with_other_definitions_is_told_each_difference() {
    let store = store();
    summing("lift").agree(&*store).await.unwrap();
    let other = summing("skier").define("document", "texts", json!({"keep": {"age": "2d"}}));
    let refused = other.agree(&*store).await;
    let said = refused.as_ref().unwrap_err().to_string();
    let lines = differences(refused);
    assert_eq!(
        lines,
        [
            "document 'texts': keep.age is '2d' here and '1d' in the cluster",
            "view 'days': sum is 'skier' here and 'lift' in the cluster",
        ]
    );
    assert!(lines.iter().all(|line| said.contains(&format!("\n  - {line}\n"))), "{said}");
    let nothing = differences(Agreement::new().agree(&*store).await);
    assert_eq!(nothing.len(), 4, "{nothing:?}");
    assert_eq!(nothing[0], "document 'texts': only the cluster has it");
    // Nothing of this changed what the cluster has.
    summing("lift").agree(&*store).await.unwrap();
}

#[tokio::test]
async fn a_node_without_definitions_leaves_them_to_the_next() {
    let store = store();
    Agreement::new().agree(&*store).await.unwrap();
    summing("lift").agree(&*store).await.unwrap();
}

#[tokio::test]
async fn of_two_nodes_at_the_same_moment_one_settles_and_the_other_compares() {
    for (fields, agreed) in [(["lift", "lift"], 2), (["lift", "skier"], 1)] {
        let store = store();
        // Both have read that there is no cell before either commits.
        store.behave(Mode::Withholding);
        let both = fields.map(|field| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { summing(field).agree(&*store).await })
        });
        tokio::task::yield_now().await;
        store.behave(Mode::Sound);
        let mut outcomes = Vec::new();
        for node in both {
            outcomes.push(node.await.unwrap());
        }
        let (agreeing, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(agreeing.len(), agreed, "{refused:?}");
        assert!(agreeing.windows(2).all(|pair| pair[0] == pair[1]), "{agreeing:?}");
        for refused in refused {
            assert_eq!(differences(refused).len(), 1);
        }
    }
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_is_looked_up() {
    let store = store();
    // The first commit is lost and the second one applied; the node learns of neither.
    store.behave(Mode::Unknowing);
    let agreed = summing("lift").agree(&*store).await.unwrap();
    store.behave(Mode::Sound);
    assert_eq!(summing("lift").agree(&*store).await, Ok(agreed));
    assert_eq!(differences(summing("skier").agree(&*store).await).len(), 1);
}

#[tokio::test]
async fn a_store_that_fails_is_named_as_the_cause() {
    let store = store();
    store.behave(Mode::Failing);
    let failed = summing("lift").agree(&*store).await.unwrap_err();
    assert!(matches!(failed, AgreementError::Store(_)), "{failed:?}");
    assert!(failed.to_string().contains("told to fail"), "{failed}");
}

/// The cell under `["definitions"]` in shard 0.
async fn write(store: &dyn Store, cell: &'static [u8]) {
    let put = Operation::Put { key: Key::from(["definitions"]), value: cell.into() };
    store.commit(Shard(0), Commit::of([put])).await.unwrap();
}

#[tokio::test]
async fn a_store_of_release_0_1_goes_on_with_its_definitions_and_numbers() {
    let store = store();
    write(
        &*store,
        b"\x01{\"streams\":{\"rides\":{\"partitions\":\"4\"}},\
          \"views\":{\"days\":{\"sum\":\"lift\"},\"skier_days\":{}},\
          \"numbers\":{\"days\":2,\"skier_days\":1}}",
    )
    .await;
    let own = |field: &str| {
        Agreement::new()
            .define("stream", "rides", json!({"partitions": "4"}))
            .define("view", "days", json!({"sum": field}))
            .define("view", "skier_days", json!({}))
    };
    let agreed = own("lift").agree(&*store).await.unwrap();
    assert_eq!(agreed.number("view", "days"), Ok(2));
    assert_eq!(agreed.number("view", "skier_days"), Ok(1));
    let lines = differences(own("skier").agree(&*store).await);
    assert_eq!(lines, ["view 'days': sum is 'skier' here and 'lift' in the cluster"]);
}

#[tokio::test]
async fn a_store_of_a_later_release_is_refused_by_its_version() {
    let store = store();
    write(&*store, b"\x07{}").await;
    let refused = summing("lift").agree(&*store).await.unwrap_err().to_string();
    assert!(refused.contains("format version 7 is unknown"), "{refused}");
}
