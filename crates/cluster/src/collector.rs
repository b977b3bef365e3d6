//! The collector: group commit for the door. Records that arrive while a frame of their partition is on its way go
//! into the next one, so that one fsync or one confirm acknowledges many requests.
//!
//! A [`PartitionQueue`] holds the records of one partition (`waiting.rs`), `sending.rs` decides when frames leave,
//! and a [`Ticket`] keeps the submissions of one request in order when one of them fails.

mod error;
mod returning;
mod sending;
mod ticket;
mod waiting;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use consort_kernel::limits::{FRAME_BYTES, RECORD_BYTES};
use consort_kernel::{Fault, Partition, Records, Refusal};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::appender::{Appender, Place};
use crate::frames_in_flight::FramesInFlight;
use crate::runtime::Runtime;
pub use error::{NotStored, SubmitError};
use returning::ReturningClients;
use sending::begin;
pub use ticket::Ticket;
use waiting::Waiting;

/// What one frame takes of records: below the bound of a frame, with room for its header.
const FRAME_ROOM: usize = FRAME_BYTES - 1024;

/// What each record costs in a frame beside its bytes.
const RECORD_COST: usize = 8;

/// Bytes of records that may wait for one partition. Beyond it a submission is refused at once: the log is
/// far too slow for what comes, and memory must stay bounded whatever the gate does.
pub const WAITING_BYTES: usize = 16 << 20;

/// Collects records into frames, one in flight for each partition.
#[derive(Clone)]
pub struct Collector(Arc<Shared>);

struct Shared {
    appender: Arc<Appender>,
    runtime: Arc<dyn Runtime>,
    /// How long the first record of a frame waits for others, unless frames go in rounds.
    linger: Duration,
    in_flight: FramesInFlight,
    queues: Mutex<BTreeMap<Partition, Arc<Mutex<Waiting>>>>,
    due: Mutex<Due>,
    /// Where there are [few](FramesInFlight::Few).
    returning: Option<ReturningClients>,
}

/// Partitions whose first record has come. One task, with one timer, begins for all of them: one for each
/// would cost more than the frames do.
#[derive(Default)]
struct Due {
    /// Without the [`PartitionQueue`]s themselves: they hold the collector, which would then hold itself.
    queues: Vec<(Partition, Arc<Mutex<Waiting>>)>,
    /// Whether a task is about to send for them, or sends in rounds.
    awaited: bool,
}

/// What a submission asks for beside its place in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubmitOptions<'a> {
    /// The order that it belongs to: see [`Ticket`].
    pub ticket: Option<&'a Ticket>,
    /// How long its caller waits. No try is sent after that time. A submission that still waits in the queue then is
    /// taken back, and its answer is [`NotStored::Late`].
    pub within: Option<Duration>,
}

impl Collector {
    /// A collector that appends through `appender`.
    pub fn new(
        appender: Arc<Appender>,
        runtime: Arc<dyn Runtime>,
        linger: Duration,
        in_flight: FramesInFlight,
    ) -> Self {
        let (queues, due) = (Mutex::default(), Mutex::default());
        let returning = matches!(in_flight, FramesInFlight::Few(_)).then(ReturningClients::default);
        Collector(Arc::new(Shared { appender, runtime, linger, in_flight, queues, due, returning }))
    }

    /// The queue of one partition, for callers with records for it again and again.
    pub fn queue(&self, at: &Partition) -> PartitionQueue {
        let waiting = Arc::clone(self.0.queues.lock().entry(at.clone()).or_default());
        PartitionQueue { shared: Arc::clone(&self.0), at: at.clone(), waiting }
    }

    /// As [`PartitionQueue::submit`], to the queue of `at`.
    pub async fn submit(
        &self,
        at: &Partition,
        records: impl Into<Records>,
    ) -> Result<Place, SubmitError> {
        self.queue(at).submit(records).await
    }

    /// As [`PartitionQueue::enqueue`], to the queue of `at`.
    pub fn enqueue(&self, at: &Partition, records: Records) -> Result<Appending, SubmitError> {
        self.queue(at).enqueue(records, SubmitOptions::default())
    }
}

/// Where records wait for the frames of one partition; all clones are of the same queue.
#[derive(Clone)]
pub struct PartitionQueue {
    shared: Arc<Shared>,
    at: Partition,
    waiting: Arc<Mutex<Waiting>>,
}

impl PartitionQueue {
    /// Has these records appended, all in one frame, together with what others submit. Returns when they
    /// are durable. If the caller goes away, they are appended nevertheless.
    pub async fn submit(&self, records: impl Into<Records>) -> Result<Place, SubmitError> {
        self.enqueue(records.into(), SubmitOptions::default())?.await
    }

    /// As [`submit`](PartitionQueue::submit), for a caller with more to come: the records have their place in
    /// the order when this returns, and are durable when the answer has come.
    pub fn enqueue(
        &self,
        records: Records,
        options: SubmitOptions<'_>,
    ) -> Result<Appending, SubmitError> {
        let (answer, answered) = oneshot::channel();
        let now = options.within.map(|_| self.shared.runtime.elapsed()).unwrap_or_default();
        let id = {
            let mut waiting = self.waiting.lock();
            let id = waiting.add(records, options, now, answer)?;
            if let Some(returning) = &self.shared.returning {
                returning.arrived();
            }
            if std::mem::replace(&mut waiting.sending, true) {
                return Ok(self.appending(answered, id));
            }
            id
        };
        begin(&self.shared, self.at.clone(), Arc::clone(&self.waiting));
        Ok(self.appending(answered, id))
    }

    fn appending(
        &self,
        answered: oneshot::Receiver<Result<Place, SubmitError>>,
        id: u64,
    ) -> Appending {
        Appending { answered, waiting: Arc::clone(&self.waiting), id }
    }
}

impl fmt::Debug for PartitionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionQueue").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Records on their way into the log.
pub struct Appending {
    answered: oneshot::Receiver<Result<Place, SubmitError>>,
    waiting: Arc<Mutex<Waiting>>,
    /// Its number in that queue.
    id: u64,
}

impl Appending {
    /// Ends the wait. Records that no frame has taken yet leave the queue, and are not stored for certain.
    pub fn withdraw(mut self) -> Result<Place, SubmitError> {
        if self.waiting.lock().withdraw(self.id) {
            return Err(NotStored::Late.into());
        }
        self.answered.try_recv().unwrap_or_else(|_| {
            let fault = "the log did not answer in time";
            Err(SubmitError::Unknown(Fault::Retryable(fault.into())))
        })
    }
}

impl Future for Appending {
    type Output = Result<Place, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = ready!(Pin::new(&mut self.answered).poll(context));
        Poll::Ready(answered.unwrap_or_else(|_| {
            let fault = "the node stopped before the log answered";
            Err(SubmitError::Unknown(Fault::Retryable(fault.into())))
        }))
    }
}

impl fmt::Debug for Appending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appending").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

/// What records cost in a frame; refused if no frame takes them.
fn weigh(records: &Records) -> Result<usize, SubmitError> {
    let too_large =
        |what, size, limit| Err(SubmitError::Refused(Refusal::TooLarge { what, size, limit }));
    if let Some(large) = records.iter().find(|record| record.len() > RECORD_BYTES) {
        return too_large("a record", large.len(), RECORD_BYTES);
    }
    let bytes = records.bytes() + records.len() * RECORD_COST;
    if bytes > FRAME_ROOM {
        return too_large("the records of one frame", bytes, FRAME_ROOM);
    }
    Ok(bytes)
}

#[cfg(test)]
mod order;
#[cfg(test)]
mod tests;
