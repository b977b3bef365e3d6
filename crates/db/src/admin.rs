//! Calls that an operator makes, as far as they have something in common: their errors, decisions and results.

use crate::hash::ContentHash;
use crate::position::DbPosition;
use crate::write::job::JobError;

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
