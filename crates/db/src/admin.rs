//! Calls that an operator makes, as far as they have something in common: their errors, decisions and results.

use consort_kernel::Value;

use crate::db::Database;
use crate::snapshot::backup::BackupError;
use crate::snapshot::resolve::{ResolveError, ResolveFrom};
use crate::snapshot::restore::RestoreError;
use crate::sqlite::connect::open_apply;
use crate::supervise::window::{WindowCell, decode_count};

/// A call that an operator makes failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DbAdminError {
    /// No worker of this node can do it.
    #[error("no worker of this node can do it")]
    NoWorker,
    /// The request is at fault: a file that is no database, a decision where nothing is to decide.
    #[error("{0}")]
    Refused(String),
    /// The store did not say whether the step was taken.
    #[error("{0}")]
    Unknown(String),
    /// The store or the disk failed.
    #[error("{0}")]
    Failed(String),
}

/// The outcome of a schema file that was handed to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOutcome {
    /// It was applied now.
    Applied,
    /// It had been applied before.
    Known,
}

impl From<BackupError> for DbAdminError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NoWorker => DbAdminError::NoWorker,
            BackupError::Make(error) => DbAdminError::Failed(error.to_string()),
        }
    }
}

impl From<RestoreError> for DbAdminError {
    fn from(error: RestoreError) -> Self {
        let words = error.to_string();
        match error {
            error if error.is_unknown() => DbAdminError::Unknown(words),
            RestoreError::Import(_) => DbAdminError::Refused(words),
            RestoreError::Switch(_) => DbAdminError::Failed(words),
        }
    }
}

impl From<ResolveError> for DbAdminError {
    fn from(error: ResolveError) -> Self {
        let words = error.to_string();
        match error {
            ResolveError::NoWorker(_) => DbAdminError::NoWorker,
            ResolveError::Head(_) | ResolveError::NoBase(_) => DbAdminError::Refused(words),
            ResolveError::Restore(error) => error.into(),
            ResolveError::Make(_) => DbAdminError::Failed(words),
        }
    }
}

/// How a stopped database goes on.
pub type DbResolution = ResolveFrom;

impl Database {
    /// Runs `ANALYZE` on the file of each worker of this node (T12).
    pub async fn analyze_local(&self) -> Vec<(u64, Result<(), String>)> {
        let mut analyzed = Vec::new();
        for worker in self.local_workers() {
            let Some(file) = worker.status().file else { continue };
            let analyze = move || open_apply(&file.path)?.execute_batch("ANALYZE");
            let done = match self.runtime().spawn_blocking(analyze).await {
                Ok(done) => done.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            analyzed.push((worker.id(), done));
        }
        analyzed
    }

    /// Reads of all nodes in the running window; `None` if none runs or the store cannot be read.
    pub async fn window_reads(&self) -> Option<u64> {
        let (store, cells) = (self.store(), self.store().cells());
        let stored = store.bytes(&[cells.window()]).await.ok()?.into_iter().next().flatten()?;
        let window = WindowCell::decode(&stored).ok()?.running()?;
        let counts = store.scan(&cells.counts(window.number)).await.ok()?;
        let count = |value: &Value| match value {
            Value::Bytes(bytes) => decode_count(bytes).ok(),
            _ => None,
        };
        Some(counts.iter().filter_map(|(_, value)| count(value)).sum())
    }
}
