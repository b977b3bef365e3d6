//! Makers of snapshots, beside each other and beside restores.

use crate::bed::{Call, CommitFault, StoreBed};
use crate::hash::{ContentHash, SchemaChain};
use crate::head::EraBase;
use crate::snapshot::sight::SnapshotSight;
use crate::snapshot::upload::PublishError;

fn is_overtaken<T>(result: Result<T, PublishError>) -> bool {
    matches!(result, Err(PublishError::Overtaken))
}

#[tokio::test]
async fn h13_two_manifests_are_kept_and_the_next_snapshot_puts_only_new_chunks() {
    let mut bed = StoreBed::filled().await;
    let mut indexes = Vec::new();
    for n in 1..4 {
        bed.sql(&format!("UPDATE t SET b = 'x' WHERE a = {n}")).await;
        indexes.push(bed.snapshot().await.index);
        let manifests = bed.direct.manifests().await.unwrap();
        let mut kept: Vec<u64> = manifests.iter().flatten().map(|m| m.index).collect();
        kept.sort_unstable();
        assert_eq!(kept, indexes[indexes.len().saturating_sub(2)..]);
    }
    let named = SnapshotSight::read(&bed.direct).await.unwrap().named();
    let all = bed.direct.manifests().await.unwrap().iter().flatten().map(|m| m.chunks.len()).sum();
    assert!(named.len() < all, "the manifests share chunks");
    assert!(bed.chunks().await >= named.len());
}

#[tokio::test]
async fn of_two_makers_at_the_same_time_one_publishes() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    bed.sql("UPDATE t SET b = 'x'").await;
    let (first, second) = (bed.upload().await.unwrap(), bed.upload().await.unwrap());
    first.publish(&bed.store).await.unwrap();
    assert!(is_overtaken(second.publish(&bed.store).await));
    let (path, loaded) = bed.load().await;
    assert_eq!(loaded.unwrap().unwrap(), *bed.state());
    bed.assert_follows(&path).await;
}

#[tokio::test]
async fn a_snapshot_of_an_ended_era_is_not_published() {
    let mut bed = StoreBed::filled().await;
    let uploaded = bed.upload().await.unwrap();
    let base = EraBase {
        origin: 8,
        chain: SchemaChain::START,
        content: ContentHash::EMPTY,
        sqlite: bed.head.sqlite,
    };
    let next = bed.head.restored(base);
    // A restore replaces both manifests as well; here even the head alone suffices.
    bed.put(&bed.store.cells().head(), &next.encode()).await;
    let late = bed.upload().await.unwrap();
    assert!(is_overtaken(late.publish(&bed.store).await));
    bed.put(&bed.store.cells().manifests()[1], &uploaded.manifest().encode()).await;
    assert!(is_overtaken(uploaded.publish(&bed.store).await));
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_are_settled_by_the_identical_commit() {
    let faults = [CommitFault::AppliedUnknown, CommitFault::LostUnknown, CommitFault::Refused];
    for fault in faults {
        // The commits of a snapshot: its batch, its chunks, its manifest.
        for commit in 0..3 {
            let mut bed = StoreBed::filled().await;
            let none = std::iter::repeat_n(CommitFault::None, commit);
            bed.hooked.fail(none.chain([fault]));
            let manifest = bed.snapshot().await;
            let (path, loaded) = bed.load().await;
            assert_eq!(
                loaded.unwrap().unwrap().position(),
                manifest.position(),
                "{fault:?} {commit}"
            );
            bed.assert_follows(&path).await;
        }
    }
}

#[tokio::test]
async fn a_list_that_changes_while_chunks_are_put_costs_a_try_and_no_snapshot() {
    let mut bed = StoreBed::filled().await;
    for commit in 1..3 {
        bed.sql("UPDATE t SET b = hex(randomblob(150))").await;
        let store = bed.direct.clone();
        bed.hooked.before(Call::Commit, commit, async move {
            let key = store.cells().sweep();
            let seen = SnapshotSight::read(&store).await.unwrap();
            let (_, list) = seen.list.with_batch(store.now().await.unwrap());
            let put = consort_kernel::Operation::Put { key, value: list.encode() };
            store.commit([seen.expect_list(store.cells())], vec![put]).await;
        });
        let manifest = bed.snapshot().await;
        assert_eq!(bed.hooked.waiting(), 0);
        let (_, loaded) = bed.load().await;
        assert_eq!(loaded.unwrap().unwrap().position(), manifest.position());
    }
}
