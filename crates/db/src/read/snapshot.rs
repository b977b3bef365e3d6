//! A snapshot that stays open over multiple requests.

use std::fmt;

use tokio::sync::watch;
use tokio::time::Instant;

use super::file::FileReader;
use super::pool::ReadPool;
use super::{BatchReadAnswer, ReadFailure, ReadLimits};
use crate::local::FileState;
use crate::position::DbPosition;
use crate::worker::shared::{LocalWorker, ServedFile, WorkerStatus};
use crate::write::batch::BatchJob;

/// An open read transaction with a connection of its own. It ends when it is dropped. Its holder must drop it soon:
/// while it is open, the WAL of the file grows (H29).
pub struct ReadSnapshot {
    pool: ReadPool,
    /// Taken while a request runs. If the request is given up, the transaction ends with it.
    reader: Option<FileReader>,
    file: ServedFile,
    served: watch::Receiver<WorkerStatus>,
    position: DbPosition,
}

impl ReadSnapshot {
    pub(crate) async fn open(
        pool: ReadPool,
        worker: &LocalWorker,
        file: &ServedFile,
        take_by: Instant,
        is_enough: impl FnOnce(&FileState) -> bool + Send + 'static,
    ) -> Result<Self, ReadFailure> {
        let path = file.path.clone();
        let open = move || {
            let mut reader = FileReader::open(&path).ok()?;
            let state = reader.begin().ok()?;
            is_enough(&state).then_some((reader, state))
        };
        let served = worker.statuses();
        let opened = pool.apart(file, take_by, open).await?;
        let (reader, state) = opened.ok_or(ReadFailure::NoWorker)?;
        Ok(ReadSnapshot {
            pool,
            reader: Some(reader),
            file: file.clone(),
            served,
            position: state.position(),
        })
    }

    /// The state that it sees.
    pub fn position(&self) -> DbPosition {
        self.position
    }

    /// Runs the steps of a batch. A transaction is open, as the client sees it: one that ends says so, and the
    /// caller drops this. A step that changes data fails.
    pub async fn run_batch(
        &mut self,
        batch: BatchJob,
        limits: ReadLimits,
        take_by: Instant,
    ) -> Result<BatchReadAnswer, ReadFailure> {
        let work = move |reader: &mut FileReader| reader.run_batch_in_snapshot(&batch, &limits);
        let (outcomes, is_in_transaction) = self.run(take_by, work).await?;
        Ok(BatchReadAnswer { position: self.position, outcomes, is_in_transaction })
    }

    async fn run<T: Send + 'static>(
        &mut self,
        take_by: Instant,
        work: impl FnOnce(&mut FileReader) -> T + Send + 'static,
    ) -> Result<T, ReadFailure> {
        let is_served = self.served.has_changed().is_ok()
            && self.served.borrow().file.as_ref() == Some(&self.file);
        let reader = self.reader.take().filter(|_| is_served);
        let mut reader = reader.ok_or(ReadFailure::NoWorker)?;
        let work = move || {
            let answer = work(&mut reader);
            (reader, answer)
        };
        let (reader, answer) = self.pool.apart(&self.file, take_by, work).await?;
        self.reader = Some(reader);
        Ok(answer)
    }
}

impl fmt::Debug for ReadSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadSnapshot").field("position", &self.position).finish_non_exhaustive()
    }
}
