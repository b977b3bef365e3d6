//! Deletes chunks that no manifest names, an hour after they were listed.

use std::collections::HashSet;

use consort_kernel::{Cell, Commit, Expect, Kind, Operation, Timestamp};

use super::chunks::ChunkName;
use super::sight::SnapshotSight;
use super::sweep_list::{SweepBatch, SweepList, decode_names};
use super::upload::SETTLE_WITHIN;
use crate::settle::Settlement;
use crate::store::{DatabaseStore, DbStoreError};

/// Chunks that one commit deletes, so that the commits of a leader do not wait long behind it.
const COMMIT_DELETES: usize = 200;

/// The end of one sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// No batch is due.
    NothingDue,
    /// A batch was swept, and so many chunks deleted.
    Swept(usize),
    /// The cells changed meanwhile: another sweep finishes the batch.
    Overtaken,
}

/// Sweeps one batch, if one is due.
///
/// Each commit expects both manifests and the list. So a chunk that a manifest comes to name, or that a maker
/// relies on, is not deleted by a decision from before (see [`sweep_list`](super::sweep_list)).
pub async fn sweep(store: &DatabaseStore, now: Timestamp) -> Result<SweepOutcome, DbStoreError> {
    let seen = SnapshotSight::read(store).await?;
    let Some(batch) = seen.list.due(now) else { return Ok(SweepOutcome::NothingDue) };
    let doomed = doomed(store, &seen, batch).await?;
    let cells = store.cells();
    let [first, second] = seen.expect_manifests(cells);
    let closed = seen.list.closed(batch.number);
    let mut expect_list = seen.expect_list(cells);
    for part in doomed.chunks(COMMIT_DELETES) {
        let delete =
            |name: &ChunkName| Operation::Delete(Cell::new(Kind::Bytes, cells.chunk(*name)));
        let close = Operation::Put { key: cells.sweep(), value: closed.encode() };
        let commit = Commit::of(part.iter().map(delete).chain([close]))
            .expecting(first.clone())
            .expecting(second.clone())
            .expecting(expect_list);
        if !apply(store, &commit).await? {
            return Ok(SweepOutcome::Overtaken);
        }
        expect_list = expect(store, &closed);
    }
    let commit = Commit::of([
        Operation::Put { key: cells.sweep(), value: closed.without(batch.number).encode() },
        Operation::Delete(Cell::new(Kind::Bytes, cells.sweep_batch(batch.number))),
    ]);
    match apply(store, &commit.expecting(expect_list)).await? {
        true => Ok(SweepOutcome::Swept(doomed.len())),
        false => Ok(SweepOutcome::Overtaken),
    }
}

/// The chunks of a batch that neither a manifest nor another batch names.
async fn doomed(
    store: &DatabaseStore,
    seen: &SnapshotSight,
    batch: SweepBatch,
) -> Result<Vec<ChunkName>, DbStoreError> {
    let names = batch_names(store, batch.number).await?;
    let mut kept: HashSet<ChunkName> = seen.named();
    for other in seen.list.batches().iter().filter(|other| other.number != batch.number) {
        kept.extend(batch_names(store, other.number).await?);
    }
    Ok(names.into_iter().filter(|name| kept.insert(*name)).collect())
}

async fn batch_names(store: &DatabaseStore, number: u64) -> Result<Vec<ChunkName>, DbStoreError> {
    let stored = store.bytes(&[store.cells().sweep_batch(number)]).await?.remove(0);
    Ok(stored.map(|stored| decode_names(&stored)).transpose()?.unwrap_or_default())
}

fn expect(store: &DatabaseStore, list: &SweepList) -> Expect {
    Expect::Bytes(store.cells().sweep(), Some(list.encode()))
}

/// Whether the commit was applied. Where the outcome stays unknown, the next sweep finds out.
async fn apply(store: &DatabaseStore, commit: &Commit) -> Result<bool, DbStoreError> {
    match store.settle(commit, SETTLE_WITHIN).await {
        Settlement::Applied => Ok(true),
        Settlement::Stale { .. } => Ok(false),
        Settlement::Failed(error) => Err(error),
        Settlement::Unknown(fault) => Err(DbStoreError::Engine(fault)),
    }
}
