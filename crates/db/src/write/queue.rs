//! The queue of a leader's writer: bounded in jobs and bytes, with a deadline for each job.
//!
//! A job that its client gives up while it waits was certainly not carried out. One that the writer has taken may
//! be: its outcome is unknown. A flag with compare-and-swap decides which of the two it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::batch::BatchJob;
use super::batch::BatchOutcome;
use super::job::{JobArgs, JobOutcome, WriteJob};
use super::schema_file::SchemaFile;
use super::transaction::TransactionRequest;
use crate::position::DbPosition;
use crate::settings::{QUEUE_BYTES, QUEUE_JOBS};

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

/// The writer's work of one kind, and where its outcome goes.
#[derive(Debug)]
pub enum WriterTask {
    /// A request of statements that take effect together.
    Write(WriteJob, oneshot::Sender<WriterReply<JobOutcome>>),
    /// Steps that succeed or fail by themselves.
    Batch(BatchJob, oneshot::Sender<WriterReply<BatchOutcome>>),
    /// A file of the schema.
    SchemaFile(SchemaFile, oneshot::Sender<WriterReply<JobOutcome>>),
    /// A transaction that goes on over multiple requests.
    Transaction(TransactionRequest),
}

/// The outcome of a job whose group is settled.
pub type WriterReply<T> = Result<Settled<T>, WriteFailure>;

/// An outcome, and the position at which it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled<T> {
    /// The end of the group.
    pub position: DbPosition,
    /// The outcome of the job itself.
    pub outcome: T,
}

/// Why a job has no outcome of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFailure {
    /// Nothing was stored, and another worker leads or will: send the job there.
    #[error("this worker does not lead any more")]
    NotLeader,
    /// The queue of the writer is full. Nothing was stored.
    #[error("the writer has too many jobs to do")]
    QueueFull,
    /// No worker took the job within its time. Nothing was stored.
    #[error("no worker took the request in time")]
    NotTaken,
    /// The store cannot be reached. Nothing was stored.
    #[error("the store cannot be reached: nothing was stored")]
    StoreFault,
    /// The commit may still be applied.
    #[error(
        "whether the write is stored is not known: a repeat with the same Idempotency-Key takes effect once"
    )]
    Unknown,
    /// The job made the writer panic. Nothing was stored.
    #[error("the request made the writer fail: {0}")]
    Panicked(String),
    /// The writer's file failed, for example because the disk is full. Nothing was stored.
    #[error("the writer's file failed: {0}")]
    File(String),
    /// The database is stopped.
    #[error("the database is stopped: {0}")]
    Stopped(String),
}

/// A job in the queue.
#[derive(Debug)]
pub struct QueuedTask {
    /// The work.
    pub task: WriterTask,
    /// Its bytes, about.
    pub bytes: usize,
    claim: Arc<AtomicU8>,
    _bytes: OwnedSemaphorePermit,
}

/// The client's side of a queued job.
#[derive(Debug)]
pub struct TaskTicket(Arc<AtomicU8>);

/// The way into the queue. It is closed when the worker leads no more.
#[derive(Clone, Debug)]
pub struct JobSender {
    jobs: mpsc::Sender<QueuedTask>,
    bytes: Arc<Semaphore>,
}

/// A queue for one lead.
pub fn job_queue() -> (JobSender, mpsc::Receiver<QueuedTask>) {
    let (jobs, receiver) = mpsc::channel(QUEUE_JOBS);
    (JobSender { jobs, bytes: Arc::new(Semaphore::new(QUEUE_BYTES)) }, receiver)
}

impl JobSender {
    /// Puts a task into the queue.
    pub fn send(&self, task: WriterTask) -> Result<TaskTicket, WriteFailure> {
        let bytes = task.bytes();
        // A job has at most the bytes of a request, which are far fewer than the queue's.
        let wanted = u32::try_from(bytes.min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.bytes).try_acquire_many_owned(wanted);
        let permit = permit.map_err(|_| WriteFailure::QueueFull)?;
        let claim = Arc::new(AtomicU8::new(WAITING));
        let queued = QueuedTask { task, bytes, claim: Arc::clone(&claim), _bytes: permit };
        match self.jobs.try_send(queued) {
            Ok(()) => Ok(TaskTicket(claim)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(WriteFailure::QueueFull),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(WriteFailure::NotLeader),
        }
    }
}

impl QueuedTask {
    /// The writer takes the job, unless its client has given it up.
    pub fn take(&self) -> bool {
        self.claim.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl TaskTicket {
    /// The client gives the job up, unless the writer has taken it. Whether it did.
    pub fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Waits for the reply to a job: until `take_by` for the writer to take it, then until `settle_by`.
pub async fn reply<T>(
    ticket: TaskTicket,
    replied: oneshot::Receiver<WriterReply<T>>,
    take_by: Instant,
    settle_by: Instant,
) -> WriterReply<T> {
    // A writer that is gone took the job or did not: the ticket tells.
    let gone = |ticket: &TaskTicket| match ticket.give_up() {
        true => Err(WriteFailure::NotLeader),
        false => Err(WriteFailure::Unknown),
    };
    let mut replied = replied;
    tokio::select! {
        biased;
        reply = &mut replied => return reply.unwrap_or_else(|_| gone(&ticket)),
        () = tokio::time::sleep_until(take_by) => {}
    }
    if ticket.give_up() {
        return Err(WriteFailure::NotTaken);
    }
    match tokio::time::timeout_at(settle_by, replied).await {
        Ok(reply) => reply.unwrap_or_else(|_| gone(&ticket)),
        Err(_) => Err(WriteFailure::Unknown),
    }
}

impl WriterTask {
    fn bytes(&self) -> usize {
        match self {
            WriterTask::Write(job, _) => job.statements.iter().map(|s| s.bytes()).sum(),
            WriterTask::Batch(job, _) => job.steps.iter().map(|step| step.statement.bytes()).sum(),
            WriterTask::SchemaFile(file, _) => file.sql.len(),
            WriterTask::Transaction(_) => 1,
        }
    }
}

impl super::job::JobStatement {
    /// Its memory, about.
    pub fn bytes(&self) -> usize {
        let args: usize = match &self.args {
            JobArgs::Positional(values) => values.iter().map(|value| value.bytes() + 16).sum(),
            JobArgs::Named(values) => {
                values.iter().map(|(name, value)| name.len() + value.bytes() + 16).sum()
            }
        };
        self.sql.len() + args + 64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queued(sender: &JobSender) -> (TaskTicket, oneshot::Receiver<WriterReply<JobOutcome>>) {
        let (tell, told) = oneshot::channel();
        let job = WriteJob { statements: vec![], key: None };
        (sender.send(WriterTask::Write(job, tell)).unwrap(), told)
    }

    fn in_ms(millis: u64) -> Instant {
        Instant::now() + Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_nobody_took_is_not_stored_and_one_that_was_taken_is_unknown() {
        let (sender, mut jobs) = job_queue();
        let (ticket, told) = queued(&sender);
        assert_eq!(reply(ticket, told, in_ms(10), in_ms(20)).await, Err(WriteFailure::NotTaken));
        assert!(!jobs.recv().await.unwrap().take(), "its client has given it up");

        let (ticket, told) = queued(&sender);
        let job = jobs.recv().await.unwrap();
        assert!(job.take());
        assert_eq!(reply(ticket, told, in_ms(10), in_ms(20)).await, Err(WriteFailure::Unknown));
        assert!(!job.take(), "it was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_is_gone_leaves_what_it_had_taken_unknown() {
        let (sender, mut jobs) = job_queue();
        let (ticket, told) = queued(&sender);
        drop(jobs.recv().await);
        assert_eq!(reply(ticket, told, in_ms(10), in_ms(20)).await, Err(WriteFailure::NotLeader));
        let (ticket, told) = queued(&sender);
        let job = jobs.recv().await.unwrap();
        job.take();
        drop(job);
        assert_eq!(reply(ticket, told, in_ms(10), in_ms(20)).await, Err(WriteFailure::Unknown));
    }

    #[tokio::test]
    async fn the_queue_is_bounded_in_jobs_and_closed_with_the_lead() {
        let (sender, jobs) = job_queue();
        let (mut tickets, mut refused) = (0, None);
        for _ in 0..=QUEUE_JOBS {
            let (tell, _) = oneshot::channel();
            let job = WriteJob { statements: vec![], key: None };
            match sender.send(WriterTask::Write(job, tell)) {
                Ok(_) => tickets += 1,
                Err(failure) => refused = Some(failure),
            }
        }
        assert_eq!((tickets, refused), (QUEUE_JOBS, Some(WriteFailure::QueueFull)));
        drop(jobs);
        let (tell, _) = oneshot::channel();
        let job = WriteJob { statements: vec![], key: None };
        let closed = sender.send(WriterTask::Write(job, tell)).unwrap_err();
        assert_eq!(closed, WriteFailure::NotLeader);
    }
}
