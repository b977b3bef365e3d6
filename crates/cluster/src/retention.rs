//! Retention of a log: applied frames go when they are old.

use std::time::Duration;

use consort_kernel::{Cursor, Fault, Log, Most, Name, Partition, ReadError, Store, Timestamp};

use crate::worker::{Cells, ReadCellError};

/// Why a log was not trimmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    /// The checkpoint cannot be read.
    #[error("{0}")]
    Checkpoint(#[from] ReadCellError),
    /// The log cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The engine's own failure.
    #[error("{0}")]
    Engine(#[from] Fault),
}

/// Lets go of frames of `partition` that `pipeline` has applied and that are older than `retain`.
pub async fn trim_log(
    log: &dyn Log,
    store: &dyn Store,
    pipeline: &Name,
    partition: &Partition,
    retain: Duration,
) -> Result<(), TrimError> {
    let cells = Cells::new(pipeline, partition, store.shards());
    let checkpoint = cells.read_checkpoint(store).await?;
    // The entry that the checkpoint vouches for stays.
    let Some((applied, _)) = checkpoint.stand.last else { return Ok(()) };
    let now = store.now().await?;
    let retain = u64::try_from(retain.as_millis()).unwrap_or(u64::MAX);
    let oldest = Timestamp(now.0.saturating_sub(retain));
    let first = log.first(partition).await?;
    let before = first_kept(log, partition, first, applied, oldest).await?;
    if before > first {
        log.trim(partition, before).await?;
    }
    Ok(())
}

/// The first entry from `low` on that is not older than `oldest`, at most `high`: found by halving, since times
/// of frames grow with their offsets, or nearly.
async fn first_kept(
    log: &dyn Log,
    partition: &Partition,
    mut low: u64,
    mut high: u64,
    oldest: Timestamp,
) -> Result<u64, ReadError> {
    while low < high {
        let middle = low + (high - low) / 2;
        let cursor = Cursor { next: middle, last: None };
        let found = log.read(partition, &cursor, Most::entries(1), Duration::ZERO).await?;
        match found.first() {
            Some(entry) if entry.frame.time < oldest => low = entry.offset.max(middle) + 1,
            _ => high = middle,
        }
    }
    Ok(low.min(high))
}
