//! Reads on the workers of this node: which of them may serve a read, and the waits until one may.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::file::{FileReader, QueryError};
use super::freshness::LookFailure;
use super::pool::PoolFailure;
use super::snapshot::ReadSnapshot;
use super::{
    BatchReadAnswer, BatchReadOutcome, Consistency, ReadAnswer, ReadFailure, ReadJob, ReadLimits,
    StatementShape,
};
use crate::db::Database;
use crate::head::DbHead;
use crate::local::FileState;
use crate::position::DbPosition;
use crate::settings::DatabaseSettings;
use crate::worker::cell::WorkerState;
use crate::worker::shared::{LocalWorker, ServedFile, WorkerStatus, boot_time};
use crate::write::batch::BatchJob;

/// A read that a worker drops is tried on one more.
const ATTEMPTS: usize = 2;
/// A read that waits for a worker looks this often for one that has begun meanwhile.
const RECHECK: Duration = Duration::from_millis(100);
/// An answer that comes later than the time of its read by this much was held up by a pause of the whole process.
const PAUSE: Duration = Duration::from_secs(1);

impl DatabaseSettings {
    /// The bounds of one read.
    pub fn read_limits(&self) -> ReadLimits {
        ReadLimits {
            read_time: self.read_time,
            max_rows: self.max_rows,
            max_answer: self.max_answer,
        }
    }
}

impl Database {
    /// Runs a read on a worker of this node: a reader if one may serve it, else the leader. The answer is not
    /// before `after`. A worker must take the read by `take_by`.
    pub async fn read(
        &self,
        job: ReadJob,
        consistency: Consistency,
        after: Option<DbPosition>,
        take_by: Instant,
    ) -> Result<ReadAnswer, ReadFailure> {
        let limits = self.settings().read_limits();
        let job = Arc::new(job);
        let work = move |reader: &mut FileReader, state: &FileState| {
            (state.position(), reader.run(&job, &limits))
        };
        let floor = self.floor(consistency, after, take_by).await?;
        let (worker, (position, results)) = self.run_above(&floor, take_by, work).await?;
        self.count_read();
        match results {
            Ok(results) => Ok(ReadAnswer { position, worker, results }),
            Err(QueryError::NotRead(error) | QueryError::Failed(error)) => Err(error.into()),
        }
    }

    /// Runs the steps of a batch on one snapshot of the present state, unless one of them changes data.
    pub async fn read_batch(
        &self,
        batch: BatchJob,
        take_by: Instant,
    ) -> Result<BatchReadOutcome, ReadFailure> {
        let limits = self.settings().read_limits();
        let batch = Arc::new(batch);
        let work = move |reader: &mut FileReader, state: &FileState| {
            (state.position(), reader.run_batch(&batch, &limits))
        };
        let floor = self.floor(Consistency::Strong, None, take_by).await?;
        let (_, (position, ran)) = self.run_above(&floor, take_by, work).await?;
        let Some((outcomes, is_in_transaction)) = ran else { return Ok(BatchReadOutcome::NotRead) };
        self.count_read();
        let answer = BatchReadAnswer { position, outcomes, is_in_transaction };
        Ok(BatchReadOutcome::Read(answer))
    }

    /// The shape of a statement, as of now.
    pub async fn describe(
        &self,
        sql: String,
        take_by: Instant,
    ) -> Result<StatementShape, ReadFailure> {
        let floor = self.floor(Consistency::Strong, None, take_by).await?;
        let (sql, time) = (Arc::new(sql), self.settings().read_time);
        let work = move |reader: &mut FileReader, _: &FileState| reader.describe(&sql, time);
        let (_, shape) = self.run_above(&floor, take_by, work).await?;
        Ok(shape?)
    }

    /// Opens a snapshot of the present state, for more than one request. It counts as one read.
    pub async fn open_snapshot(&self, take_by: Instant) -> Result<ReadSnapshot, ReadFailure> {
        let floor = self.floor(Consistency::Strong, None, take_by).await?;
        let place = self.place(&floor, take_by).await?;
        let is_enough = move |state: &FileState| floor.is_below(state);
        let pool = self.pool().clone();
        let snapshot =
            ReadSnapshot::open(pool, &place.worker, &place.file, take_by, is_enough).await?;
        self.count_read();
        Ok(snapshot)
    }

    /// The state that the snapshot of a read must have.
    async fn floor(
        &self,
        consistency: Consistency,
        after: Option<DbPosition>,
        take_by: Instant,
    ) -> Result<ReadFloor, ReadFailure> {
        let max_stale = self.settings().max_stale;
        if consistency == Consistency::Any {
            return Ok(ReadFloor { at_least: after, head: None, max_stale });
        }
        // No worker applies an entry before the head names it, so a look that begins now shows no less than the
        // workers have, unless entries were lost.
        let before = self.workers_with_files();
        if before.is_empty() {
            return Err(ReadFailure::NoWorker);
        }
        let looked = tokio::time::timeout_at(take_by, self.looks().sound_head()).await;
        let head =
            looked.map_err(|_| ReadFailure::StoreFault)?.map_err(|failure| match failure {
                LookFailure::Store(_) => ReadFailure::StoreFault,
                LookFailure::Missing => ReadFailure::NoWorker,
                LookFailure::Stopped(reason) => ReadFailure::Stopped(reason),
            })?;
        let is_later = |(file, applied): &(ServedFile, DbPosition)| {
            file.database == head.database && *applied > head.position()
        };
        if before.iter().any(is_later) {
            let reason =
                "a worker has entries that the store has not: it has lost acknowledged writes";
            return Err(ReadFailure::Stopped(reason.into()));
        }
        if let Some(asked) = after.filter(|after| after.era < head.era) {
            return Err(ReadFailure::OlderEra { asked, era: head.era });
        }
        let at_least = Some(head.position()).max(after);
        Ok(ReadFloor { at_least, head: Some(head), max_stale })
    }

    fn workers_with_files(&self) -> Vec<(ServedFile, DbPosition)> {
        let statuses = self.local_workers().into_iter().map(|worker| worker.status());
        statuses.filter_map(|status| Some((status.file?, status.applied))).collect()
    }

    /// Does `work` on a worker above the floor, and says on which.
    async fn run_above<T: Send + 'static>(
        &self,
        floor: &ReadFloor,
        take_by: Instant,
        work: impl Fn(&mut FileReader, &FileState) -> T + Clone + Send + 'static,
    ) -> Result<(u64, T), ReadFailure> {
        for _ in 0..ATTEMPTS {
            let place = self.place(floor, take_by).await?;
            let (floor, work, fresh_until) = (floor.clone(), work.clone(), place.fresh_until);
            let checked = move |reader: &mut FileReader, state: &FileState| {
                let began = boot_time();
                // The process may have been paused since the worker was chosen (H4).
                let is_fresh = fresh_until.is_none_or(|until| began <= until);
                (is_fresh && floor.is_below(state)).then(|| (began, work(reader, state)))
            };
            let ran = self.pool().on_file(&place.worker, &place.file, take_by, checked).await;
            match ran {
                Ok(Some((began, answer))) if !self.is_held_up(&place, began) => {
                    return Ok((place.worker.id(), answer));
                }
                Ok(_) | Err(PoolFailure::NotServed) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(ReadFailure::NoWorker)
    }

    /// Whether a pause of the process has made a default answer old before it was given (H4).
    fn is_held_up(&self, place: &ReadPlace, began: Duration) -> bool {
        let time = self.settings().read_time + PAUSE;
        place.fresh_until.is_some() && boot_time().saturating_sub(began) > time
    }

    /// The worker that serves a read above the floor: one that may at once, or else the first that gets there.
    async fn place(&self, floor: &ReadFloor, take_by: Instant) -> Result<ReadPlace, ReadFailure> {
        loop {
            let mut candidates = self.candidates(floor);
            let era = candidates.iter().map(|candidate| candidate.status.applied.era).max();
            let era = era.ok_or(ReadFailure::NoWorker)?;
            if let Some(asked) = floor.at_least.filter(|asked| asked.era < era)
                && floor.head.is_none()
            {
                return Err(ReadFailure::OlderEra { asked, era });
            }
            let is_above = |candidate: &&Candidate| {
                floor.at_least.is_none_or(|position| candidate.status.applied >= position)
            };
            let rank = |candidate: &&Candidate| {
                let id = std::cmp::Reverse(candidate.worker.id());
                (!candidate.status.leads, candidate.status.applied, id)
            };
            if let Some(best) = candidates.iter().filter(is_above).max_by_key(rank) {
                return Ok(best.place());
            }
            let now = Instant::now();
            if now >= take_by {
                return Err(floor.at_least.map_or(ReadFailure::NoWorker, ReadFailure::Behind));
            }
            let changes = candidates.iter_mut().map(|c| Box::pin(c.statuses.changed()));
            // A worker that ends is no candidate the next time.
            let _ = tokio::time::timeout_at(take_by.min(now + RECHECK), select_all(changes)).await;
        }
    }

    /// The workers that may serve the read, as soon as they are above its floor.
    fn candidates(&self, floor: &ReadFloor) -> Vec<Candidate> {
        let candidate = |worker: LocalWorker| {
            let mut statuses = worker.statuses();
            let status = statuses.borrow_and_update().clone();
            let file = status.file.clone()?;
            let may_serve = matches!(status.state, WorkerState::Fit | WorkerState::Yielded);
            let fresh_until = match &floor.head {
                Some(head) => (head.database == file.database).then_some(None)?,
                None => {
                    let left = floor.max_stale.checked_sub(worker.stale_for()?)?;
                    Some(boot_time() + left)
                }
            };
            may_serve.then_some(Candidate { worker, file, status, statuses, fresh_until })
        };
        self.local_workers().into_iter().filter_map(candidate).collect()
    }
}

/// What the snapshot of a read must contain.
#[derive(Clone, Debug)]
struct ReadFloor {
    at_least: Option<DbPosition>,
    /// For a strong read: the head after it arrived.
    head: Option<Arc<DbHead>>,
    /// For a default read.
    max_stale: Duration,
}

impl ReadFloor {
    fn is_below(&self, state: &FileState) -> bool {
        let is_reached = self.at_least.is_none_or(|position| state.position() >= position);
        // A file with another entry at the head's index is of a history that was lost (H8).
        let is_same_history = self
            .head
            .as_ref()
            .is_none_or(|head| state.position() != head.position() || state.digest == head.digest);
        is_reached && is_same_history
    }
}

/// A worker that may serve a read, at once or later.
struct Candidate {
    worker: LocalWorker,
    file: ServedFile,
    status: WorkerStatus,
    statuses: watch::Receiver<WorkerStatus>,
    fresh_until: Option<Duration>,
}

/// A worker that may serve a read now.
struct ReadPlace {
    worker: LocalWorker,
    file: ServedFile,
    /// For a default read: until when, by [`boot_time`], its snapshot may begin.
    fresh_until: Option<Duration>,
}

impl Candidate {
    fn place(&self) -> ReadPlace {
        ReadPlace {
            worker: self.worker.clone(),
            file: self.file.clone(),
            fresh_until: self.fresh_until,
        }
    }
}
