//! Sweeps, and their races with makers (H13).

use std::time::Duration;

use consort_kernel::Timestamp;

use crate::bed::{Call, StoreBed};
use crate::snapshot::sight::SnapshotSight;
use crate::snapshot::sweep::{SweepOutcome, sweep};
use crate::snapshot::upload::{PublishError, upload};

const HOUR: Duration = Duration::from_secs(3600);
const REWRITE: &str = "UPDATE t SET b = hex(randomblob(150))";

/// Sweeps all that is due; how many chunks were deleted.
async fn sweep_due(bed: &StoreBed, now: Timestamp) -> usize {
    let mut deleted = 0;
    loop {
        match sweep(&bed.direct, now).await.unwrap() {
            SweepOutcome::NothingDue => return deleted,
            SweepOutcome::Swept(chunks) => deleted += chunks,
            SweepOutcome::Overtaken => panic!("nothing else changes cells"),
        }
    }
}

async fn assert_loads(bed: &mut StoreBed) {
    let (path, loaded) = bed.load().await;
    loaded.unwrap().unwrap();
    bed.assert_follows(&path).await;
}

#[tokio::test]
async fn h13_chunks_that_no_manifest_names_are_swept_after_an_hour() {
    let mut bed = StoreBed::filled().await;
    for _ in 0..3 {
        bed.sql(REWRITE).await;
        bed.snapshot().await;
    }
    let named = SnapshotSight::read(&bed.direct).await.unwrap().named().len();
    assert!(bed.chunks().await > named);
    assert_eq!(sweep_due(&bed, bed.now()).await, 0);
    bed.clock.advance(HOUR);
    assert!(sweep_due(&bed, bed.now()).await > 0);
    assert_eq!(bed.chunks().await, named);
    assert_eq!(SnapshotSight::read(&bed.direct).await.unwrap().list.batches(), []);
    assert_loads(&mut bed).await;
}

#[tokio::test]
async fn chunks_of_a_maker_that_ended_are_swept() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    let before = bed.chunks().await;
    bed.sql(REWRITE).await;
    drop(bed.upload().await.unwrap());
    assert!(bed.chunks().await > before);
    bed.clock.advance(HOUR);
    sweep_due(&bed, bed.now()).await;
    assert_eq!(bed.chunks().await, before);
    assert_loads(&mut bed).await;
}

#[tokio::test]
async fn a_maker_that_was_paused_for_an_hour_publishes_no_swept_chunks() {
    let mut bed = StoreBed::filled().await;
    let paused = bed.upload().await.unwrap();
    bed.clock.advance(HOUR);
    sweep_due(&bed, bed.now()).await;
    assert_eq!(bed.chunks().await, 0);
    assert!(matches!(paused.publish(&bed.store).await, Err(PublishError::Overtaken)));
    let (_, loaded) = bed.load().await;
    assert_eq!(loaded.unwrap(), None);
    // The same while it puts its chunks: none of them comes into being unlisted.
    let (store, now) = (bed.direct.clone(), bed.now().after(HOUR));
    bed.hooked.before(Call::Commit, 1, async move {
        while sweep(&store, now).await.unwrap() != SweepOutcome::NothingDue {}
    });
    assert!(matches!(bed.upload().await, Err(PublishError::Overtaken)));
    assert_eq!((bed.chunks().await, bed.hooked.waiting()), (0, 0));
}

#[tokio::test]
async fn a_sweep_spares_the_chunks_of_a_maker_that_began_after_it_had_decided() {
    let mut bed = StoreBed::filled().await;
    drop(bed.upload().await.unwrap());
    bed.clock.advance(HOUR);
    // A second maker needs the same chunks. It begins just before the deletion is committed.
    let (copy, manifest) = bed.copy();
    let (tell, told) = tokio::sync::oneshot::channel();
    let store = bed.direct.clone();
    bed.hooked.before(Call::Commit, 0, async move {
        let uploaded = upload(&store, &copy, manifest).await.unwrap();
        let _ = tell.send(uploaded);
    });
    let swept = sweep(&bed.store, bed.now()).await.unwrap();
    assert_eq!(swept, SweepOutcome::Overtaken);
    assert_eq!(sweep_due(&bed, bed.now()).await, 0, "the second maker's batch names them all");
    told.await.unwrap().publish(&bed.store).await.unwrap();
    assert_loads(&mut bed).await;
}

#[tokio::test]
async fn a_sweep_spares_chunks_that_a_new_manifest_names() {
    let mut bed = StoreBed::filled().await;
    let first = bed.upload().await.unwrap();
    bed.clock.advance(HOUR);
    let store = bed.direct.clone();
    bed.hooked.before(Call::Commit, 0, async move { first.publish(&store).await.unwrap() });
    assert_eq!(sweep(&bed.store, bed.now()).await.unwrap(), SweepOutcome::Overtaken);
    assert_eq!(sweep_due(&bed, bed.now()).await, 0);
    assert_loads(&mut bed).await;
}

#[tokio::test]
async fn a_sweep_that_ended_half_way_is_finished_by_the_next_one() {
    let mut bed = StoreBed::filled().await;
    drop(bed.upload().await.unwrap());
    bed.clock.advance(HOUR);
    // The first commit closes the batch and deletes chunks; this process ends before the second.
    bed.hooked.before(Call::Commit, 1, std::future::pending());
    let ended = tokio::time::timeout(Duration::from_millis(200), sweep(&bed.store, bed.now()));
    assert!(ended.await.is_err());
    assert!(matches!(sweep(&bed.direct, bed.now()).await.unwrap(), SweepOutcome::Swept(_)));
    assert_eq!(bed.chunks().await, 0);
    assert_eq!(SnapshotSight::read(&bed.direct).await.unwrap().list.batches(), []);
}
