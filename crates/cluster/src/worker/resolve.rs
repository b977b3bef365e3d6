//! An operator's decision on a partition that stopped for a loss: go on from where.

use std::time::Duration;

use consort_kernel::{
    Commit, CommitError, Cursor, Expect, Log, Most, Name, Operation, Partition, ReadError, Store,
};

use super::Setback;
use super::cells::{Cells, Held, Loaded};
use super::stand::{Checkpoint, Mark};
use crate::format;

/// How long the log is listened to before its end counts as its end: a broker may be slow to deliver.
const END_WAIT: Duration = Duration::from_secs(2);

/// Where a partition goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At this frame. Frames of producers that are remembered are not applied again, even if the place
    /// lies before them.
    Offset(u64),
    /// At the oldest frame there is.
    First,
    /// Behind the newest frame there is.
    End,
}

/// Why a decision was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The partition moved meanwhile, or nothing is lost: it is not stopped.
    #[error("{0} is at work: only a partition that stopped can be resolved")]
    AtWork(Partition),
    /// The engine's own failure, or cells that cannot be read.
    #[error("{0}")]
    Failed(String),
}

/// Begins a new era at `from`: marks first, so that an owner of the old era is refused everywhere, then the
/// checkpoint, which the stopped worker is waiting for. Cut off in the middle, it can be repeated.
pub async fn resolve(
    store: &dyn Store,
    log: &dyn Log,
    partition: &Partition,
    pipeline: &Name,
    from: Resume,
) -> Result<Checkpoint, ResolveError> {
    let cells = Cells::new(pipeline, partition, store.shards());
    let failed = |error: &dyn std::fmt::Display| ResolveError::Failed(error.to_string());
    let loaded = cells.load(store, log, partition).await.map_err(|setback| match setback {
        Setback::Fault(fault) => failed(&fault),
        Setback::Loss(reason) => ResolveError::Failed(reason),
        Setback::Oversized(refusal) => failed(&refusal),
        Setback::Stale | Setback::Due | Setback::Doubted(_) => {
            ResolveError::AtWork(partition.clone())
        }
    })?;
    // A place in words is meant for the loss that was seen: said twice, it must not skip what came since.
    if !matches!(from, Resume::Offset(_)) && !is_lost(&loaded, log, partition).await {
        return Err(ResolveError::AtWork(partition.clone()));
    }
    let next = match from {
        Resume::Offset(offset) => offset,
        Resume::First => log.first(partition).await.map_err(|fault| failed(&fault))?,
        Resume::End => end_of(log, partition).await.map_err(|error| failed(&error))?,
    };
    let mut stand = loaded.checkpoint.value.stand.clone();
    let begun = loaded.marks.values().map(|mark| mark.value.stand.era).max().unwrap_or_default();
    // A decision that was cut off left some marks in the new era: it is the same era again.
    stand.era = if begun > stand.era { begun } else { stand.era + 1 };
    (stand.next, stand.last) = (next, None);
    let commit = async |shard, key: consort_kernel::Key, held: Option<bytes::Bytes>, value| {
        let put = Operation::Put { key: key.clone(), value };
        let commit = Commit::of([put]).expecting(Expect::Bytes(key, held));
        match store.commit(shard, commit).await {
            Ok(_) => Ok(()),
            Err(CommitError::Stale(_)) => Err(ResolveError::AtWork(partition.clone())),
            Err(error) => Err(failed(&error)),
        }
    };
    let mark = format::encode(&Mark::at(stand.clone()));
    for (&shard, Held { raw, .. }) in &loaded.marks {
        commit(shard, cells.mark(), raw.clone(), mark.clone()).await?;
    }
    let marks = cells.shards.iter().map(|shard| (shard.0, stand.position())).collect();
    let checkpoint = Checkpoint { stand, marks };
    let value = format::encode(&checkpoint);
    commit(cells.home(), cells.checkpoint(), loaded.checkpoint.raw, value).await?;
    Ok(checkpoint)
}

/// Whether the log still is not what was applied, or an earlier decision is in force by halves.
async fn is_lost(loaded: &Loaded, log: &dyn Log, partition: &Partition) -> bool {
    if loaded.verify_era().is_err() {
        return true;
    }
    let cursor = loaded.start.cursor();
    let read = log.read(partition, &cursor, Most::entries(1), Duration::ZERO).await;
    let lost = |error: ReadError| matches!(Setback::from(error), Setback::Loss(_));
    let ahead = loaded.verify_ahead(log, partition, loaded.start.next);
    read.is_err_and(lost) || ahead.await.is_err_and(lost)
}

/// The offset behind the newest frame.
async fn end_of(log: &dyn Log, partition: &Partition) -> Result<u64, ReadError> {
    let first = log.first(partition).await?;
    let mut cursor = Cursor::at(first);
    loop {
        let entries = log.read(partition, &cursor, Most::default(), END_WAIT).await?;
        match entries.last() {
            Some(last) => cursor = last.cursor(),
            None => return Ok(cursor.next),
        }
    }
}
