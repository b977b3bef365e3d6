//! Reads: the pool of threads that runs them, and the rules by which a worker may serve them.

pub(crate) mod file;
pub mod freshness;
mod local;
pub mod pool;
mod queue;
pub mod snapshot;
mod steps;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::position::DbPosition;
use crate::write::batch::StepOutcome;
use crate::write::job::{JobError, JobStatement, SqlValue};

/// Queries that see one snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadJob {
    /// The queries, in order.
    pub queries: Vec<JobStatement>,
}

/// The rows of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryRows {
    /// The columns.
    pub columns: Vec<String>,
    /// The declared types of the columns, where they have one.
    pub types: Vec<Option<String>>,
    /// The rows.
    pub rows: Vec<Vec<SqlValue>>,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadAnswer {
    /// The snapshot that it saw.
    pub position: DbPosition,
    /// The worker that served it.
    pub worker: u64,
    /// The rows of each query.
    pub results: Vec<QueryRows>,
}

/// The answer to a batch that only reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchReadAnswer {
    /// The snapshot that it saw.
    pub position: DbPosition,
    /// The outcomes of its steps.
    pub outcomes: Vec<StepOutcome>,
    /// Whether a transaction that it began is still open.
    pub is_in_transaction: bool,
}

/// The outcome of a batch of which it is not known whether it only reads.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchReadOutcome {
    /// It only reads.
    Read(BatchReadAnswer),
    /// One of its steps changes data, or cannot be prepared here: the leader runs the batch.
    NotRead,
}

/// The shape of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementShape {
    /// The names of its parameters with their prefix, by place; `None` where one has no name.
    pub parameters: Vec<Option<String>>,
    /// Its columns with their declared types.
    pub columns: Vec<(String, Option<String>)>,
    /// Whether it explains another statement.
    pub is_explain: bool,
    /// Whether it changes nothing.
    pub is_readonly: bool,
}

/// The bounds of one read.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// For all queries together.
    pub read_time: Duration,
    /// Most rows of the answer.
    pub max_rows: usize,
    /// Most bytes of the answer.
    pub max_answer: usize,
}

/// The promise that a read asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// A committed prefix, from a worker that looked at the head within `max_stale`.
    #[default]
    Any,
    /// Linearizable: the worker looks at the head after the read arrived (C6).
    Strong,
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// The queries are at fault.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No worker of this node may serve it: another node may.
    #[error("no worker of this node can serve the read")]
    NoWorker,
    /// No worker of this node has come as far as the position yet.
    #[error("no worker of this node has reached position {0} in time")]
    Behind(DbPosition),
    /// The position is of an era that has ended (H11).
    #[error("position {asked} is of an era that has ended: the database is in era {era} now")]
    OlderEra {
        /// The position.
        asked: DbPosition,
        /// The present era.
        era: u64,
    },
    /// Too many reads wait.
    #[error("too many reads wait for this database")]
    Busy,
    /// The store cannot be reached, and the read needs a look at the head.
    #[error("the store cannot be reached, and this read needs it")]
    StoreFault,
    /// The store lost entries that it had acknowledged, so no read can be strong (H34).
    #[error("the database is stopped: {0}")]
    Stopped(String),
    /// The read made its thread panic. This is a defect.
    #[error("the read met a defect; the node's log has the details")]
    Panicked,
}
