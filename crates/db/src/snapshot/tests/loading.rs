//! Loads, and the races of loads with newer snapshots, sweeps and trims (H13, H39).

use std::time::Duration;

use crate::bed::{Call, StoreBed};
use crate::snapshot::chunks::{ChunkName, pack};
use crate::snapshot::load::LoadError;
use crate::snapshot::loading::LoadSnapshotError;
use crate::snapshot::sweep::{SweepOutcome, sweep};
use crate::snapshot::upload::upload;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_worker_loads_the_newest_snapshot_and_follows_the_feed() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    bed.sql("UPDATE t SET b = 'x' WHERE a < 10").await;
    let newest = bed.snapshot().await;
    bed.sql("DELETE FROM t WHERE a > 2990").await;
    let (path, loaded) = bed.load().await;
    assert_eq!(loaded.unwrap().unwrap().position(), newest.position());
    bed.assert_follows(&path).await;
}

#[tokio::test]
async fn a_new_database_is_followed_from_its_beginning() {
    let mut bed = StoreBed::filled().await;
    let (path, loaded) = bed.load().await;
    assert_eq!(loaded.unwrap(), None);
    bed.assert_follows(&path).await;
}

#[tokio::test]
async fn an_era_without_a_base_is_refused() {
    let mut bed = StoreBed::filled().await;
    bed.direct.trim(1, 1).await.unwrap();
    let (_, loaded) = bed.load().await;
    assert!(matches!(loaded, Err(LoadSnapshotError::NoBase { era: 1 })), "{loaded:?}");
    // A later era never begins empty, whatever its feed has.
    bed.head.era = 2;
    let (_, loaded) = bed.load().await;
    assert!(matches!(loaded, Err(LoadSnapshotError::NoBase { era: 2 })), "{loaded:?}");
}

#[tokio::test]
async fn h13_a_load_whose_snapshot_is_replaced_and_swept_begins_again() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    let mut copies = Vec::new();
    for _ in 0..2 {
        bed.sql("UPDATE t SET b = hex(randomblob(150))").await;
        copies.push(bed.copy());
    }
    let newest = copies[1].1.position();
    let (store, now) = (bed.direct.clone(), bed.now().after(HOUR));
    // After the load has read the manifests, both are replaced, and an hour passes.
    bed.hooked.before(Call::Get, 1, async move {
        for (copy, manifest) in copies {
            upload(&store, &copy, manifest).await.unwrap().publish(&store).await.unwrap();
        }
        while sweep(&store, now).await.unwrap() != SweepOutcome::NothingDue {}
    });
    let (path, loaded) = bed.load().await;
    assert_eq!(bed.hooked.waiting(), 0);
    assert_eq!(loaded.unwrap().unwrap().position(), newest);
    bed.assert_follows(&path).await;
}

#[tokio::test]
async fn h13_a_load_that_misses_a_chunk_twice_takes_the_older_snapshot() {
    let mut bed = StoreBed::filled().await;
    let older = bed.snapshot().await;
    bed.sql("UPDATE t SET b = hex(randomblob(150))").await;
    let newest = bed.snapshot().await;
    let lost = *newest.chunks.last().unwrap();
    bed.delete(&bed.store.cells().chunk(lost)).await;
    let (path, loaded) = bed.load().await;
    assert_eq!(loaded.unwrap().unwrap().position(), older.position());
    bed.assert_follows(&path).await;
    // Without a chunk of both there is nothing to load.
    bed.delete(&bed.store.cells().chunk(older.chunks[1])).await;
    let (_, loaded) = bed.load().await;
    let missing = |error: &LoadSnapshotError| {
        matches!(error, LoadSnapshotError::Unusable { era: 1, reason: LoadError::Missing(_) })
    };
    assert!(loaded.as_ref().is_err_and(missing), "{loaded:?}");
}

#[tokio::test]
async fn h39_a_chunk_with_other_contents_is_refused() {
    let mut bed = StoreBed::filled().await;
    let manifest = bed.snapshot().await;
    let [first, second] = [manifest.chunks[0], manifest.chunks[1]];
    let cells = bed.store.cells().clone();
    let chunk = |name: ChunkName| cells.chunk(name);
    bed.put(&chunk(first), &pack(b"other")).await;
    let (_, loaded) = bed.load().await;
    assert!(matches!(loaded, Err(LoadSnapshotError::Unusable { .. })), "{loaded:?}");
    let stored = bed.store.bytes(&[chunk(second)]).await.unwrap().remove(0).unwrap();
    bed.put(&chunk(first), &stored).await;
    let (_, loaded) = bed.load().await;
    let reason = loaded.unwrap_err().to_string();
    assert!(reason.contains("damaged"), "{reason}");
}

#[tokio::test]
async fn a_snapshot_of_another_era_is_never_loaded() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    bed.head.era = 2;
    let (_, loaded) = bed.load().await;
    assert!(matches!(loaded, Err(LoadSnapshotError::NoBase { era: 2 })), "{loaded:?}");
}
