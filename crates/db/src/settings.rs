//! The settings of one database.

use std::path::PathBuf;
use std::time::Duration;

use consort_kernel::Name;

use crate::supervise::scale::ScaleRule;
use crate::write::job::JobLimits;

/// Most jobs that share one group.
pub const GROUP_JOBS: usize = 512;
/// A group takes no further job once its changes have this many bytes.
pub const GROUP_CHANGE_BYTES: u64 = 1024 * 1024;
/// A group takes no further job once it has run for this long, so that no job waits long for the others.
pub const GROUP_TIME: Duration = Duration::from_millis(2);
/// Most jobs that wait for the writer of one database.
pub const QUEUE_JOBS: usize = 4096;
/// Most bytes of jobs that wait for the writer of one database.
pub const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// The settings of one database. All nodes declare the same, except for the folder of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// Its name.
    pub name: Name,
    /// The folder of `*.sql` files that make its schema.
    pub schema: Option<PathBuf>,
    /// How many readers there are.
    pub readers: ScaleRule,
    /// Most bytes of the database; beyond it writes are refused.
    pub max_size: u64,
    /// A reader that has not looked at the head for this long serves no default read.
    pub max_stale: Duration,
    /// How long a request may wait for a worker.
    pub wait: Duration,
    /// Run time of one write.
    pub write_time: Duration,
    /// Run time of one read.
    pub read_time: Duration,
    /// Total time of an interactive transaction; zero forbids them.
    pub transaction_time: Duration,
    /// Run time of a request with DDL.
    pub ddl_time: Duration,
    /// Most rows of one answer.
    pub max_rows: usize,
    /// Most bytes of one answer.
    pub max_answer: usize,
}

impl DatabaseSettings {
    /// The defaults, for a database with this name.
    pub fn new(name: Name) -> Self {
        let seconds = Duration::from_secs;
        DatabaseSettings {
            name,
            schema: None,
            readers: ScaleRule { min: 1, max: 8, per_reads: 20, window: seconds(120) },
            max_size: 1024 * 1024 * 1024,
            max_stale: seconds(5),
            wait: seconds(2),
            write_time: seconds(1),
            read_time: seconds(5),
            transaction_time: seconds(5),
            ddl_time: seconds(60),
            max_rows: 10_000,
            max_answer: 8 * 1024 * 1024,
        }
    }

    /// The bounds of one write.
    pub fn job_limits(&self) -> JobLimits {
        JobLimits {
            write_time: self.write_time,
            ddl_time: self.ddl_time,
            max_rows: self.max_rows,
            max_answer: self.max_answer,
        }
    }
}
