//! Ends the stop of a database that lost acknowledged writes: an operator decides with which contents a new era
//! begins.

use std::io;
use std::path::Path;
use std::time::Duration;

use consort_kernel::{Cursor, Most, ReadError};

use super::base::{BaseFile, RequestKeys};
use super::files::{ScratchFile, on_file_thread};
use super::loading::{LoadSnapshotError, load_one, newest_first};
use super::make::{MakeError, copy_file};
use super::publish::SwitchError;
use super::restore::RestoreError;
use crate::db::Database;
use crate::follow::Follower;
use crate::head::{DbHead, FIRST_ERA, HeadError, HeadState};
use crate::local::FileState;
use crate::sqlite::connect::open_reader;
use crate::store::{DatabaseStore, DbStoreError};

/// Where the contents of the new era come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveFrom {
    /// From the store: its newest snapshot and the entries behind it, as far as they can be read.
    Store,
    /// From the file of this worker, which may be ahead of the store.
    Worker(u64),
}

/// Why a stop was not ended.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The database is not stopped.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// This node has no such worker: another node may.
    #[error("worker {0} is not on this node, or has no file of the present era")]
    NoWorker(u64),
    /// The store has no contents to go on with.
    #[error("{0}: go on with the file of a worker, or restore a backup")]
    NoBase(LoadSnapshotError),
    /// The worker's file could not be copied.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The store failed, or the new era was not begun.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl From<DbStoreError> for ResolveError {
    fn from(error: DbStoreError) -> Self {
        ResolveError::Restore(error.into())
    }
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        ResolveError::Restore(error.into())
    }
}

impl Database {
    /// Ends a stop: begins a new era from the store's contents, or from a worker's file. Returns its beginning.
    pub async fn resolve(
        &self,
        from: ResolveFrom,
    ) -> Result<crate::position::DbPosition, ResolveError> {
        let head = self.store().head().await?.ok_or(RestoreError::from(SwitchError::NoHead))?;
        if !matches!(head.state, HeadState::Stopped { .. }) {
            return Err(HeadError::NotStopped.into());
        }
        let scratch = match from {
            ResolveFrom::Store => self.stored_contents(&head).await?,
            ResolveFrom::Worker(worker) => self.worker_contents(worker, &head).await?,
        };
        // The contents come from leaders of this version at most.
        let sqlite = head.sqlite.max(rusqlite::version_number() as u32);
        let step =
            |head: &DbHead, base: &BaseFile, origin| head.resolved(base.era_base(origin, sqlite));
        Ok(self.begin_era(scratch, RequestKeys::Keep, step).await?)
    }

    /// A copy of the file of a worker of this node.
    async fn worker_contents(&self, id: u64, head: &DbHead) -> Result<ScratchFile, ResolveError> {
        let worker = self.local_workers().into_iter().find(|worker| worker.id() == id);
        let file = worker.and_then(|worker| worker.status().file);
        let file = file.filter(|file| file.database == head.database);
        let file = file.ok_or(ResolveError::NoWorker(id))?;
        let (scratch, era) = (self.scratch_file("resolve")?, head.era);
        let copied = move || {
            let state = copy_file(&open_reader(&file.path)?, scratch.path())?;
            Ok::<_, MakeError>((state.era == era).then_some(scratch))
        };
        on_file_thread(copied).await?.ok_or(ResolveError::NoWorker(id))
    }

    /// The newest contents that the store has. A snapshot may be ahead of a feed that lost its end, and the feed may
    /// have grown again since, so the state that the head names is best, and else the one with most entries.
    async fn stored_contents(&self, head: &DbHead) -> Result<ScratchFile, ResolveError> {
        let store = self.store();
        let mut best: Option<(bool, FileState, ScratchFile)> = None;
        let mut failure = None;
        for manifest in newest_first(store, head.era).await? {
            let scratch = self.scratch_file("resolve")?;
            match load_one(store, &manifest, scratch.path()).await {
                Ok(_) => {}
                Err(LoadSnapshotError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            }
            let state = replay(store, scratch.path(), head.era).await?;
            let rank = (is_named(head, &state), state.index);
            if best.as_ref().is_none_or(|(named, state, _)| rank > (*named, state.index)) {
                best = Some((rank.0, state, scratch));
            }
        }
        match (best, failure) {
            (Some((_, _, scratch)), _) => Ok(scratch),
            (None, Some(failure)) => Err(ResolveError::NoBase(failure)),
            (None, None) if head.era == FIRST_ERA => {
                let scratch = self.scratch_file("resolve")?;
                replay(store, scratch.path(), head.era).await?;
                Ok(scratch)
            }
            (None, None) => Err(ResolveError::NoBase(LoadSnapshotError::NoBase { era: head.era })),
        }
    }
}

/// Whether the head ends with this state.
fn is_named(head: &DbHead, state: &FileState) -> bool {
    (head.index, head.digest, head.content) == (state.index, state.digest, state.content)
}

/// Applies the feed behind a file, as far as it can be read and applied.
async fn replay(store: &DatabaseStore, path: &Path, era: u64) -> Result<FileState, ResolveError> {
    let path = path.to_owned();
    let open = move || Follower::open(&path, era).map_err(MakeError::from);
    let mut follower = on_file_thread(open).await?;
    loop {
        let at = *follower.state();
        let cursor = match (at.index.checked_sub(1), at.digest) {
            (Some(number), Some(digest)) => Cursor::behind(number, digest),
            _ => Cursor::START,
        };
        let entries = match store.entries(era, &cursor, Most::default(), Duration::ZERO).await {
            Ok(entries) => entries,
            Err(ReadError::Engine(fault)) => return Err(DbStoreError::Engine(fault).into()),
            Err(end) => {
                tracing::warn!(at = %at.position(), %end, "the feed cannot be read to its end");
                return Ok(at);
            }
        };
        let apply = move || {
            let entries: Vec<_> = entries.into_iter().map(|entry| entry.entry).collect();
            let mut rest = &entries[..];
            loop {
                match follower.apply(rest) {
                    Ok(0) => break,
                    Ok(applied) => rest = &rest[applied..],
                    Err(error) => {
                        tracing::warn!(%error, "the feed cannot be applied to its end");
                        break;
                    }
                }
            }
            Ok::<_, io::Error>(follower)
        };
        follower = on_file_thread(apply).await?;
        if follower.state().index == at.index {
            on_file_thread(move || Ok::<_, io::Error>(drop(follower))).await?;
            return Ok(at);
        }
    }
}
