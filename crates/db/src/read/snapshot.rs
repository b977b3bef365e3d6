//! A snapshot that stays open over multiple requests.

use std::fmt;

use tokio::sync::watch;
use tokio::time::Instant;

use super::file::{FileReader, QueryError};
use super::pool::ReadPool;
use super::{QueryOutcome, ReadAnswer, ReadFailure, ReadJob, ReadLimits, StatementShape};
use crate::local::FileState;
use crate::position::DbPosition;
use crate::worker::shared::{LocalWorker, ServedFile, WorkerStatus};

/// An open read transaction with a connection of its own. It ends when it is dropped. Its holder must drop it soon:
/// while it is open, the WAL of the file grows (H29).
pub struct ReadSnapshot {
    pool: ReadPool,
    /// Taken while a request runs. If the request is given up, the transaction ends with it.
    reader: Option<FileReader>,
    file: ServedFile,
    served: watch::Receiver<WorkerStatus>,
    worker: u64,
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
            worker: worker.id(),
            position: state.position(),
        })
    }

    /// The state that it sees.
    pub fn position(&self) -> DbPosition {
        self.position
    }

    /// Runs queries.
    pub async fn query(
        &mut self,
        job: ReadJob,
        limits: ReadLimits,
        take_by: Instant,
    ) -> Result<QueryOutcome, ReadFailure> {
        let results = self.run(take_by, move |reader| reader.run(&job, &limits)).await?;
        let (position, worker) = (self.position, self.worker);
        match results {
            Ok(results) => Ok(QueryOutcome::Rows(ReadAnswer { position, worker, results })),
            Err(QueryError::NotRead(error)) => Ok(QueryOutcome::NotRead(error)),
            Err(QueryError::Failed(error)) => Err(error.into()),
        }
    }

    /// The shape of a statement.
    pub async fn describe(
        &mut self,
        sql: String,
        limits: ReadLimits,
        take_by: Instant,
    ) -> Result<StatementShape, ReadFailure> {
        let shape = self.run(take_by, move |reader| reader.describe(&sql, limits.read_time));
        Ok(shape.await??)
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
