//! Makes the snapshots that are wanted: a task of each node for each database.
//!
//! One reader makes a snapshot: the live fit worker with the lowest id that does not lead, else the leader. That
//! order only avoids useless work: two makers cannot harm each other.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use consort_kernel::{Commit, Expect, Operation};
use tokio::time::{Instant, sleep, timeout};

use super::files::{ScratchFile, on_file_thread};
use super::make::{MakeError, copy_file, describe};
use super::manifest::Manifest;
use super::sight::SnapshotSight;
use super::upload::{PublishError, SETTLE_WITHIN, upload};
use crate::db::Database;
use crate::head::DbHead;
use crate::settle::Settlement;
use crate::sqlite::connect::open_reader;
use crate::sqlite::scan::content_hash;
use crate::store::{DatabaseStore, DbStoreError};
use crate::supervise::wanted::WantedWorkers;
use crate::view::DatabaseView;
use crate::worker::cell::WorkerState;
use crate::worker::shared::ServedFile;

/// How often a node looks whether a snapshot is wanted of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long one snapshot may take: half of the time after which its chunks are swept. A worker that has not made
/// a snapshot within this time lets the next one try.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1800);
/// The pause after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The file in the database's folder that a snapshot is copied to.
const COPY: &str = "snapshot.copy";

/// Why no snapshot was made.
#[derive(Debug, thiserror::Error)]
pub enum MakeSnapshotError {
    /// It was not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The worker's file could not be copied.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The worker's file differs from the history that it vouches for. Its snapshot would lock out every worker
    /// that loads it.
    #[error("the worker's file has other contents than its index has: it makes no snapshot")]
    Diverged,
    /// It took too long.
    #[error("the snapshot was not made within {GIVE_UP_AFTER:?}")]
    TooSlow,
}

impl From<DbStoreError> for MakeSnapshotError {
    fn from(error: DbStoreError) -> Self {
        MakeSnapshotError::Publish(error.into())
    }
}

impl From<io::Error> for MakeSnapshotError {
    fn from(error: io::Error) -> Self {
        MakeSnapshotError::Make(error.into())
    }
}

/// Makes the snapshots that are wanted of this node's workers, for as long as it runs.
pub async fn keep_snapshots(database: Database) {
    let mut asked: Option<(u64, Instant)> = None;
    loop {
        sleep(LOOK_EVERY).await;
        let view = database.view().now();
        let Some(behind) = wanted_behind(&view) else {
            asked = None;
            continue;
        };
        // A request that is raised goes on waiting since it was made.
        let since = asked.map_or(Instant::now(), |(_, since)| since);
        asked = Some((behind, since));
        let turn = own_turn(&database, &view, behind, since.elapsed());
        let Some(file) = turn else { continue };
        let name = database.name();
        match make_snapshot(&database, &file, behind).await {
            Ok(manifest) => {
                asked = None;
                let (era, index) = (manifest.era, manifest.index);
                tracing::info!(
                    database = name,
                    era,
                    index,
                    bytes = manifest.file_bytes,
                    "made a snapshot"
                );
            }
            Err(MakeSnapshotError::Publish(PublishError::Overtaken)) => {}
            Err(error) => {
                tracing::warn!(database = name, %error, "could not make a snapshot; tries again");
                sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// The index behind which a snapshot is wanted, if one can be made.
fn wanted_behind(view: &DatabaseView) -> Option<u64> {
    match view.stopped() {
        Some(_) => None,
        None => view.wanted.as_ref()?.snapshot_behind,
    }
}

/// The file to copy, if it is the turn of a worker of this node, and the worker has come far enough.
fn own_turn(
    database: &Database,
    view: &DatabaseView,
    behind: u64,
    waited: Duration,
) -> Option<ServedFile> {
    let head = view.head.as_ref()?;
    let makers = makers(view);
    let turns = turns_after(waited).min(makers.len());
    let local = database.local_workers();
    let own =
        makers[..turns].iter().find_map(|id| local.iter().find(|worker| worker.id() == *id))?;
    let status = own.status();
    let is_there = status.applied.era == head.era && status.applied.index >= behind;
    status.file.filter(|file| is_there && file.database == head.database)
}

/// The workers that may make a snapshot, in order: readers by id, then the leader.
fn makers(view: &DatabaseView) -> Vec<u64> {
    let fit = view.workers.iter().filter(|worker| worker.state == WorkerState::Fit);
    let mut makers: Vec<(bool, u64)> = fit.map(|w| (view.leads(w.id), w.id)).collect();
    makers.sort_unstable();
    makers.into_iter().map(|(_, id)| id).collect()
}

/// How many of the makers have had their turn begin.
fn turns_after(waited: Duration) -> usize {
    usize::try_from(waited.as_secs() / GIVE_UP_AFTER.as_secs())
        .unwrap_or(usize::MAX)
        .saturating_add(1)
}

/// Makes a snapshot behind `behind` from a worker's file, unless there is one, and takes note that it is made.
async fn make_snapshot(
    database: &Database,
    file: &ServedFile,
    behind: u64,
) -> Result<Manifest, MakeSnapshotError> {
    let store = database.store();
    let making = async {
        let seen = SnapshotSight::read(store).await?;
        let head = seen.head.as_ref().ok_or(PublishError::Overtaken)?;
        match seen.newest(head.era).filter(|newest| newest.index >= behind) {
            Some(newest) => Ok(newest.clone()),
            None => snapshot_of(database, file, head).await,
        }
    };
    let manifest =
        timeout(GIVE_UP_AFTER, making).await.map_err(|_| MakeSnapshotError::TooSlow)??;
    note_made(store, manifest.index).await?;
    Ok(manifest)
}

/// Copies the file, and publishes the copy.
async fn snapshot_of(
    database: &Database,
    file: &ServedFile,
    head: &DbHead,
) -> Result<Manifest, MakeSnapshotError> {
    let (source, copy) = (file.path.clone(), database.folder().join(COPY));
    let copied = move || verified_copy(&source, copy);
    let (copy, manifest) = on_file_thread(copied).await?;
    if manifest.era != head.era || file.database != head.database {
        return Err(PublishError::Overtaken.into());
    }
    let uploaded = upload(database.store(), copy.path(), manifest.clone()).await?;
    uploaded.publish(database.store()).await?;
    on_file_thread(move || Ok::<_, io::Error>(drop(copy))).await?;
    Ok(manifest)
}

/// A copy of a worker's file as of one index, whose contents are those of that index.
fn verified_copy(
    source: &std::path::Path,
    copy: PathBuf,
) -> Result<(ScratchFile, Manifest), MakeSnapshotError> {
    let copy = ScratchFile::at(copy)?;
    let source = open_reader(source).map_err(MakeError::from)?;
    let state = copy_file(&source, copy.path())?;
    let found = open_reader(copy.path()).and_then(|copy| content_hash(&copy));
    if found.map_err(MakeError::from)? != state.content {
        return Err(MakeSnapshotError::Diverged);
    }
    let manifest = describe(copy.path(), &state)?;
    Ok((copy, manifest))
}

/// Takes the request back that a snapshot of this index meets.
pub(crate) async fn note_made(store: &DatabaseStore, index: u64) -> Result<(), DbStoreError> {
    let key = store.cells().wanted();
    loop {
        let Some(stored) = store.bytes(std::slice::from_ref(&key)).await?.remove(0) else {
            return Ok(());
        };
        let Some(next) = WantedWorkers::decode(&stored)?.snapshot_made(index) else {
            return Ok(());
        };
        let commit = Commit::of([Operation::Put { key: key.clone(), value: next.encode() }])
            .expecting(Expect::Bytes(key.clone(), Some(stored)));
        match store.settle(&commit, SETTLE_WITHIN).await {
            Settlement::Applied => return Ok(()),
            // A worker drew an id, or the supervisor changed the slots.
            Settlement::Stale { .. } => {}
            Settlement::Failed(error) => return Err(error),
            Settlement::Unknown(fault) => return Err(DbStoreError::Engine(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use consort_kernel::Timestamp;

    use super::*;
    use crate::head::HeadHolder;
    use crate::position::DbPosition;
    use crate::worker::cell::WorkerCell;

    fn worker(id: u64, state: WorkerState) -> WorkerCell {
        WorkerCell {
            id,
            slot: id as u16,
            node: "a".into(),
            incarnation: 1,
            since: Timestamp(0),
            applied: DbPosition { era: 1, index: 0 },
            state,
        }
    }

    fn view(leader: u64, workers: &[(u64, WorkerState)]) -> DatabaseView {
        let holder =
            HeadHolder { node: "a".into(), incarnation: 1, slot: 0, worker: leader, claim: 3 };
        DatabaseView {
            head: Some(DbHead::created(1, 2, 3).claimed(holder, 3).unwrap()),
            workers: workers.iter().map(|(id, state)| worker(*id, *state)).collect(),
            ..DatabaseView::default()
        }
    }

    #[test]
    fn the_fit_reader_with_the_lowest_id_makes_snapshots_and_the_leader_last() {
        use WorkerState::{Fit, Loading, Unfit, Yielded};
        let cases = [
            (view(1, &[(1, Fit), (3, Fit), (2, Fit)]), vec![2, 3, 1]),
            (view(3, &[(1, Fit), (2, Fit), (3, Fit)]), vec![1, 2, 3]),
            (view(1, &[(1, Fit), (2, Unfit), (3, Loading), (4, Yielded)]), vec![1]),
            (view(1, &[]), vec![]),
        ];
        for (view, expected) in cases {
            assert_eq!(makers(&view), expected);
        }
    }

    #[test]
    fn the_next_worker_has_its_turn_when_the_one_before_it_has_given_up() {
        let cases = [(0, 1), (1799, 1), (1800, 2), (3599, 2), (3600, 3)];
        for (waited, turns) in cases {
            assert_eq!(turns_after(Duration::from_secs(waited)), turns, "{waited}");
        }
    }

    #[test]
    fn a_stopped_database_makes_no_snapshot() {
        let mut view = view(1, &[]);
        view.wanted = WantedWorkers::new(1).with_snapshot(5);
        assert_eq!(wanted_behind(&view), Some(5));
        view.head = view.head.map(|head| head.stopped("lost").unwrap());
        assert_eq!(wanted_behind(&view), None);
    }
}
