//! Calls of a database that are written elsewhere at the same time, with the signatures that this folder needs. A method
//! of `Database` itself takes precedence over the one here with its name.

use std::path::Path;

use consort_db::DbPosition;
use consort_db::db::{Database, Databases};
use consort_db::hash::ContentHash;
use consort_db::read::{Consistency, ReadAnswer, ReadFailure, ReadJob};
use consort_db::write::job::JobError;
use futures::future::BoxFuture;
use tokio::time::Instant;

/// A call that an operator makes failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DbAdminError {
    /// No worker of this node can do it.
    #[error("no worker of this node can do it")]
    NoWorker,
    /// The request is at fault: a file that is no database, a decision where nothing is to decide.
    #[error("{0}")]
    Refused(String),
    /// A table of the file cannot be replicated.
    #[error(transparent)]
    Schema(#[from] JobError),
    /// The store or the disk failed.
    #[error("{0}")]
    Failed(String),
}

/// How a stopped database goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbResolution {
    /// With what the store still has.
    Accept,
    /// With the file of a worker that is ahead of the store.
    FromWorker(u64),
}

/// The check of one worker's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCheck {
    /// The worker.
    pub worker: u64,
    /// The index that its file had.
    pub position: DbPosition,
    /// The hash that the file should have, and the one that a scan found; or why there was no scan.
    pub hashes: Result<(ContentHash, ContentHash), String>,
}

/// The outcome of a schema file that was handed to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOutcome {
    /// It was applied now.
    Applied,
    /// It had been applied before.
    Known,
}

/// Why a schema file was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFileError {
    /// Another text was applied under this name.
    #[error("the file was applied with another text: write the change into a new file")]
    Changed,
    /// Its statements failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The leader did not take it, or did not settle it.
    #[error(transparent)]
    Write(#[from] consort_db::write::queue::WriteFailure),
}

/// The calls.
#[allow(async_fn_in_trait, reason = "it goes when the methods are there")]
pub trait PendingCalls {
    /// Runs queries on a worker of this node.
    async fn read(
        &self,
        job: ReadJob,
        consistency: Consistency,
        after: Option<DbPosition>,
        take_by: Instant,
    ) -> Result<ReadAnswer, ReadFailure>;

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

    /// Applies a schema file at the leader of this node.
    async fn apply_schema_file(
        &self,
        name: &str,
        sql: &str,
    ) -> Result<SchemaOutcome, SchemaFileError>;

    /// Reads of all nodes in the running window.
    async fn window_reads(&self) -> Option<u64>;
}

/// The calls of all databases.
#[allow(async_fn_in_trait, reason = "it goes when the methods are there")]
pub trait PendingSetup {
    /// Creates the heads that are missing.
    async fn create_missing(&self) -> Result<(), consort_db::store::DbStoreError>;

    /// The work that goes on while the node runs.
    fn background(&self) -> Vec<BoxFuture<'static, ()>>;
}

impl PendingCalls for Database {
    async fn read(
        &self,
        _: ReadJob,
        _: Consistency,
        _: Option<DbPosition>,
        _: Instant,
    ) -> Result<ReadAnswer, ReadFailure> {
        Err(ReadFailure::NoWorker)
    }

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

    async fn apply_schema_file(&self, _: &str, _: &str) -> Result<SchemaOutcome, SchemaFileError> {
        Err(SchemaFileError::Write(consort_db::write::queue::WriteFailure::NotLeader))
    }

    async fn window_reads(&self) -> Option<u64> {
        None
    }
}

impl PendingSetup for Databases {
    async fn create_missing(&self) -> Result<(), consort_db::store::DbStoreError> {
        Ok(())
    }

    fn background(&self) -> Vec<BoxFuture<'static, ()>> {
        Vec::new()
    }
}
