//! The collector: group commit for the door. What arrives while a frame is on its way goes into the next
//! one, so that one fsync or one confirm acknowledges many requests. `sending.rs` says when frames set out.

mod muster;
mod sending;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use consort_kernel::limits::{FRAME_BYTES, RECORD_BYTES};
use consort_kernel::{AppendError, Fault, Partition, Records, Refusal};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::appender::{Appender, Place};
use crate::lanes::Lanes;
use crate::runtime::Runtime;
use muster::Muster;
use sending::begin;

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
    lanes: Lanes,
    docks: Mutex<BTreeMap<Partition, Arc<Mutex<Waiting>>>>,
    due: Mutex<Due>,
    /// Where there are [few lanes](Lanes::Few).
    muster: Option<Muster>,
}

/// Partitions whose first record has come. One task, with one timer, begins for all of them: one for each
/// would cost more than the frames do.
#[derive(Default)]
struct Due {
    /// Not as [`Dock`]s, which hold the collector: it would hold itself.
    docks: Vec<(Partition, Arc<Mutex<Waiting>>)>,
    /// Whether a task is about to send for them, or sends in rounds.
    awaited: bool,
}

/// What waits for one partition's next frames.
#[derive(Default)]
struct Waiting {
    submissions: Vec<Submission>,
    bytes: usize,
    /// Whether a task is sending.
    sending: bool,
}

struct Submission {
    records: Records,
    bytes: usize,
    answer: oneshot::Sender<Result<Place, AppendError>>,
}

/// What one frame carries, and who wants to know what becomes of it.
struct Load {
    records: Records,
    answers: Answers,
}

struct Answers(Vec<oneshot::Sender<Result<Place, AppendError>>>);

impl Answers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn tell(self, result: &Result<Place, AppendError>) {
        for answer in self.0 {
            // Whoever went away does not want to know.
            let _ = answer.send(result.clone());
        }
    }
}

impl Collector {
    /// A collector that appends through `appender`.
    pub fn new(
        appender: Arc<Appender>,
        runtime: Arc<dyn Runtime>,
        linger: Duration,
        lanes: Lanes,
    ) -> Self {
        let (docks, due) = (Mutex::default(), Mutex::default());
        let muster = matches!(lanes, Lanes::Few(_)).then(Muster::default);
        Collector(Arc::new(Shared { appender, runtime, linger, lanes, docks, due, muster }))
    }

    /// The dock of one partition, for whoever has records for it again and again.
    pub fn dock(&self, at: &Partition) -> Dock {
        let waiting = Arc::clone(self.0.docks.lock().entry(at.clone()).or_default());
        Dock { shared: Arc::clone(&self.0), at: at.clone(), waiting }
    }

    /// As [`Dock::submit`], to the dock of `at`.
    pub async fn submit(
        &self,
        at: &Partition,
        records: impl Into<Records>,
    ) -> Result<Place, AppendError> {
        self.dock(at).submit(records).await
    }

    /// As [`Dock::enqueue`], to the dock of `at`.
    pub fn enqueue(&self, at: &Partition, records: Records) -> Result<Appending, AppendError> {
        self.dock(at).enqueue(records)
    }
}

/// Where records wait for the frames of one partition; all clones are of the same dock.
#[derive(Clone)]
pub struct Dock {
    shared: Arc<Shared>,
    at: Partition,
    waiting: Arc<Mutex<Waiting>>,
}

impl Dock {
    /// Has these records appended, all in one frame, together with what others submit. Returns when they
    /// are durable. If the caller goes away, they are appended nevertheless.
    pub async fn submit(&self, records: impl Into<Records>) -> Result<Place, AppendError> {
        self.enqueue(records.into())?.await
    }

    /// As [`submit`](Dock::submit), for a caller with more to come: the records have their place in
    /// the order when this returns, and are durable when the answer has come.
    pub fn enqueue(&self, records: Records) -> Result<Appending, AppendError> {
        let bytes = weigh(&records)?;
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.bytes + bytes > WAITING_BYTES && !waiting.submissions.is_empty() {
                let fault = "more records wait for this partition than the log takes";
                return Err(AppendError::Engine(Fault::Retryable(fault.into())));
            }
            waiting.bytes += bytes;
            waiting.submissions.push(Submission { records, bytes, answer });
            if let Some(muster) = &self.shared.muster {
                muster.arrived();
            }
            if std::mem::replace(&mut waiting.sending, true) {
                return Ok(Appending(answered));
            }
        }
        begin(&self.shared, self.at.clone(), Arc::clone(&self.waiting));
        Ok(Appending(answered))
    }
}

impl fmt::Debug for Dock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dock").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Records on their way into the log.
#[derive(Debug)]
pub struct Appending(oneshot::Receiver<Result<Place, AppendError>>);

impl Future for Appending {
    type Output = Result<Place, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answered.unwrap_or_else(|_| {
            let fault = "the node stopped before the log answered";
            Err(AppendError::Unknown(Fault::Retryable(fault.into())))
        }))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Waiting {
    /// What goes into the next frame, in its order; none ends the sending.
    fn load(&mut self) -> Option<Load> {
        let mut room = FRAME_ROOM;
        let fitting = self.submissions.iter().take_while(|one| {
            let fits = one.bytes <= room;
            room = room.saturating_sub(one.bytes);
            fits
        });
        let count = fitting.count();
        if count == 0 {
            self.sending = false;
            return None;
        }
        let mut taken = 0;
        let (records, answers) = self
            .submissions
            .drain(..count)
            .map(|one| {
                taken += one.bytes;
                (one.records, one.answer)
            })
            .unzip();
        self.bytes -= taken;
        Some(Load { records: Records::joined(records), answers: Answers(answers) })
    }

    /// Whether there is more to send; otherwise the sending ends.
    fn goes_on(&mut self) -> bool {
        self.sending = !self.submissions.is_empty();
        self.sending
    }
}

/// What records cost in a frame; refused if no frame takes them.
fn weigh(records: &Records) -> Result<usize, AppendError> {
    let too_large =
        |what, size, limit| Err(AppendError::Refused(Refusal::TooLarge { what, size, limit }));
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
mod tests;
