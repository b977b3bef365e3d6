//! Compares the files of this node's workers with the content hash of their history.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::files::{on_file_thread, remove_file};
use super::make::MakeError;
use crate::db::Database;
use crate::hash::ContentHash;
use crate::local::FileState;
use crate::position::DbPosition;
use crate::sqlite::connect::open_reader;
use crate::sqlite::scan::content_hash;
use crate::worker::shared::ServedFile;

/// How often each worker's file is compared: a scan takes about a second for each GiB.
const VERIFY_EVERY: Duration = Duration::from_secs(600);

/// The comparison of one worker's file.
#[derive(Debug)]
pub struct WorkerCheck {
    /// The worker.
    pub worker: u64,
    /// What was found; an error if the file could not be read.
    pub found: Result<FileCheck, MakeError>,
}

/// What a scan of a file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// The position of the file.
    pub position: DbPosition,
    /// The contents that the history has there.
    pub expected: ContentHash,
    /// The contents of the file.
    pub found: ContentHash,
}

impl FileCheck {
    /// Whether the file has the contents that it should have.
    pub fn is_equal(&self) -> bool {
        self.expected == self.found
    }
}

impl Database {
    /// Scans the file of each worker of this node.
    pub async fn verify_local(&self) -> Vec<WorkerCheck> {
        let mut checks = Vec::new();
        for worker in self.local_workers() {
            if let Some(file) = worker.status().file {
                let found = on_file_thread(move || scan(&file.path)).await;
                checks.push(WorkerCheck { worker: worker.id(), found });
            }
        }
        checks
    }

    /// Ends a worker whose file differs. Its next one loads a snapshot, since the file is gone.
    async fn replace_diverged(&self, id: u64, file: Option<ServedFile>, check: &FileCheck) {
        let (database, expected, found) = (self.name(), check.expected, check.found);
        tracing::error!(
            database, worker = id, position = %check.position, %expected, %found,
            "a worker's file has other contents than its history: the worker is replaced"
        );
        let worker = self.local_workers().into_iter().find(|worker| worker.id() == id);
        let Some(worker) = worker.filter(|worker| worker.status().file == file) else { return };
        if let Some(file) = file {
            let removed = on_file_thread(move || remove_file(&file.path)).await;
            if let Err(error) = removed {
                tracing::warn!(database, %error, "the file could not be removed");
            }
        }
        worker.crash();
    }
}

/// Compares the files of this node's workers again and again, for as long as it runs.
pub async fn keep_verified(database: Database) {
    loop {
        sleep(VERIFY_EVERY).await;
        replace_diverged_workers(&database).await;
    }
}

/// Compares the files of this node's workers, and replaces each worker whose file differs.
pub async fn replace_diverged_workers(database: &Database) {
    let before: Vec<(u64, Option<ServedFile>)> =
        database.local_workers().iter().map(|worker| (worker.id(), worker.status().file)).collect();
    for check in database.verify_local().await {
        let file = before.iter().find(|(id, _)| *id == check.worker).and_then(|(_, f)| f.clone());
        match check.found {
            Ok(found) if !found.is_equal() => {
                database.replace_diverged(check.worker, file, &found).await;
            }
            Ok(_) => {}
            Err(error) => {
                let (database, worker) = (database.name(), check.worker);
                tracing::warn!(database, worker, %error, "a worker's file could not be compared");
            }
        }
    }
}

/// State and contents of one moment.
fn scan(path: &Path) -> Result<FileCheck, MakeError> {
    let connection = open_reader(path)?;
    connection.execute_batch("BEGIN")?;
    let state = FileState::read(&connection)?.ok_or(MakeError::Empty)?;
    let found = content_hash(&connection)?;
    Ok(FileCheck { position: state.position(), expected: state.content, found })
}
