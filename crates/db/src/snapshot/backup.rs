//! Backups: one SQLite file as of one index, from a worker of this node.

use std::path::Path;

use rusqlite::Connection;

use super::files::{on_file_thread, remove_file};
use super::make::{MakeError, copy_file};
use crate::db::Database;
use crate::position::DbPosition;
use crate::sqlite::connect::open_reader;
use crate::worker::cell::WorkerState;
use crate::worker::shared::LocalWorker;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// No worker of this node has a file to copy: another node may.
    #[error("no worker of this node has the database")]
    NoWorker,
    /// The file could not be copied.
    #[error(transparent)]
    Make(#[from] MakeError),
}

impl Database {
    /// Copies the database to a new file at `path`, as of the position that is returned. A reader's file is copied
    /// rather than the leader's.
    pub async fn backup(&self, path: &Path) -> Result<DbPosition, BackupError> {
        let worker = self.backup_worker().ok_or(BackupError::NoWorker)?;
        let source = worker.status().file.ok_or(BackupError::NoWorker)?.path;
        let path = path.to_owned();
        let copied = on_file_thread(move || {
            let copied = copy_without_state(&source, &path);
            if copied.is_err() {
                remove_file(&path)?;
            }
            copied
        });
        Ok(copied.await?)
    }

    /// The fit reader that is furthest, else the leader, else any worker with a file.
    fn backup_worker(&self) -> Option<LocalWorker> {
        let local = self.local_workers().into_iter();
        let with_file = local.filter(|worker| worker.status().file.is_some());
        with_file.max_by_key(|worker| {
            let status = worker.status();
            (status.state == WorkerState::Fit, !status.leads, status.applied)
        })
    }
}

/// A backup belongs to no era, so it does not say how far it is.
fn copy_without_state(source: &Path, path: &Path) -> Result<DbPosition, MakeError> {
    let state = copy_file(&open_reader(source)?, path)?;
    Connection::open(path)?.execute_batch("DROP TABLE _consort_local")?;
    Ok(state.position())
}
