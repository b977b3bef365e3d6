//! Reads: the pool of threads that runs them, and the rules by which a worker may serve them.

pub mod freshness;
pub mod pool;

use crate::position::DbPosition;
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
}
