//! The threads that run reads.

use crate::read::{ReadAnswer, ReadFailure, ReadJob};
use crate::worker::shared::LocalWorker;
use crate::write::job::JobLimits;

/// The threads that run the reads of a node. All clones are of the same ones.
#[derive(Clone, Debug)]
pub struct ReadPool;

impl ReadPool {
    /// Starts the threads.
    pub fn start() -> Self {
        ReadPool
    }

    /// Runs a read on the file that `worker` serves.
    pub async fn run(
        &self,
        _worker: &LocalWorker,
        _job: ReadJob,
        _limits: JobLimits,
    ) -> Result<ReadAnswer, ReadFailure> {
        Err(ReadFailure::NoWorker)
    }
}
