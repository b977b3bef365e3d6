//! Calls of a database that are written elsewhere at the same time, with the signatures that this folder needs. A method
//! of `Database` itself takes precedence over the one here with its name.

use std::path::Path;

use consort_db::DbPosition;
use consort_db::admin::{DbAdminError, DbResolution, WorkerCheck};
use consort_db::db::Database;

/// The calls.
#[allow(async_fn_in_trait, reason = "it goes when the methods are there")]
pub trait PendingCalls {
    /// Copies the file of a worker of this node.
    async fn backup(&self, to: &Path) -> Result<DbPosition, DbAdminError>;

    /// Begins a new era with this file.
    async fn restore(&self, from: &Path) -> Result<DbPosition, DbAdminError>;

    /// Ends a stop.
    async fn resolve(&self, decision: DbResolution) -> Result<DbPosition, DbAdminError>;

    /// Scans the files of this node's workers.
    async fn verify_local(&self) -> Vec<WorkerCheck>;

    /// Runs `ANALYZE` on the files of this node's workers.
    async fn analyze_local(&self) -> Vec<(u64, Result<(), String>)>;

    /// Reads of all nodes in the running window.
    async fn window_reads(&self) -> Option<u64>;
}

impl PendingCalls for Database {
    async fn backup(&self, _: &Path) -> Result<DbPosition, DbAdminError> {
        Err(DbAdminError::NoWorker)
    }

    async fn restore(&self, _: &Path) -> Result<DbPosition, DbAdminError> {
        Err(DbAdminError::NoWorker)
    }

    async fn resolve(&self, _: DbResolution) -> Result<DbPosition, DbAdminError> {
        Err(DbAdminError::NoWorker)
    }

    async fn verify_local(&self) -> Vec<WorkerCheck> {
        Vec::new()
    }

    async fn analyze_local(&self) -> Vec<(u64, Result<(), String>)> {
        Vec::new()
    }

    async fn window_reads(&self) -> Option<u64> {
        None
    }
}
