//! The records of one large request: sent in batches, bounded in memory, and in their order for each partition.

use std::fmt;
use std::time::Duration;

use consort_cluster::{Appending, NotStored, Place, SubmitError, SubmitOptions, Ticket};
use consort_kernel::{Fault, Records};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::batch::Batch;
use super::{Ingress, POST_WITHIN};
use crate::gate::{Admission, Refused};

/// Bytes of one request that may be on their way into the log while more is read.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// How long to wait when the gate refuses, before it is asked again: a request that streams is slowed down
/// rather than broken off.
const PAUSE_MOST: Duration = Duration::from_millis(500);

/// How many places are kept before those that others stand behind are dropped, for each partition.
const PLACES_EACH: usize = 4;

/// Sends the records of one request.
///
/// Each partition has a ticket: once an append of it failed or ended unknown, no later record of the request is
/// appended to that partition. After the first failure of any partition the sender takes no more batches.
pub struct BulkSender<'a> {
    ingress: &'a Ingress,
    batch: Batch,
    /// One for each partition.
    tickets: Vec<Ticket>,
    /// Tasks of their own: each tells the gate when it is done, whatever the request waits for just then.
    steps: FuturesUnordered<JoinHandle<Step>>,
    in_flight: usize,
    outcome: BulkOutcome,
}

/// What became of the records of a request.
#[derive(Debug, Default)]
pub struct BulkOutcome {
    /// How many are stored.
    pub stored: u64,
    /// Where the last of each partition and producer stand, perhaps with some before them.
    pub places: Vec<Place>,
    /// The failure that tells most: an unknown outcome before a definite one, and the cause before its consequences.
    pub failure: Option<BulkFailure>,
}

/// Why not all records of a request are stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BulkFailure {
    /// The gate refused the rest.
    #[error(transparent)]
    Overloaded(Refused),
    /// An append failed, or ended unknown.
    #[error(transparent)]
    Append(SubmitError),
}

/// What became of a batch.
struct Step {
    bytes: usize,
    /// For each partition, how many records it was sent, and what the log said.
    settled: Vec<(u64, Result<Place, SubmitError>)>,
}

impl<'a> BulkSender<'a> {
    pub(super) fn new(ingress: &'a Ingress) -> Self {
        BulkSender {
            batch: Batch::new(ingress.partitions()),
            tickets: (0..ingress.partitions()).map(|_| Ticket::default()).collect(),
            ingress,
            steps: FuturesUnordered::new(),
            in_flight: 0,
            outcome: BulkOutcome::default(),
        }
    }

    /// Takes a record, which is no larger than a record may be. It is sent with the next [`flush`](Self::flush).
    pub fn push(&mut self, partition: u32, record: &[u8]) {
        self.batch.push(partition, record);
    }

    /// Whether it is time to send.
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Whether some of it was not stored: the rest will not be sent.
    pub fn has_failed(&self) -> bool {
        self.outcome.failure.is_some()
    }

    /// Sends what was taken, and waits only while too much is on its way.
    pub async fn flush(&mut self) {
        if self.batch.records() == 0 || self.has_failed() {
            return;
        }
        let admission = match enter(self.ingress, self.batch.records()).await {
            Ok(admission) => admission,
            Err(refused) => {
                self.outcome.fail(BulkFailure::Overloaded(refused));
                return;
            }
        };
        self.send(admission);
        while self.in_flight > IN_FLIGHT_BYTES
            && let Some(step) = self.steps.next().await
        {
            self.settle(step);
        }
    }

    /// Bytes of records that were pushed and are not yet answered.
    pub fn held(&self) -> usize {
        self.batch.bytes() + self.in_flight
    }

    /// Drops the records that were pushed and not sent: the request ends early.
    pub fn drop_unsent(&mut self) {
        drop(self.batch.take());
    }

    /// Sends the rest and waits until all of it is answered.
    pub async fn finish(mut self) -> BulkOutcome {
        self.flush().await;
        while let Some(step) = self.steps.next().await {
            self.settle(step);
        }
        self.outcome
    }

    fn send(&mut self, admission: Admission) {
        let bytes = self.batch.bytes();
        let send = |(index, records): (u32, Records)| {
            let count = records.len() as u64;
            let ticket = Some(&self.tickets[index as usize]);
            let options = SubmitOptions { ticket, within: None };
            (count, self.ingress.enqueue(index, records, options))
        };
        let sent = self.batch.take().into_iter().map(send).collect();
        self.in_flight += bytes;
        self.steps.push(tokio::spawn(step(sent, bytes, admission)));
    }

    fn settle(&mut self, step: Result<Step, JoinError>) {
        let Ok(step) = step else {
            let fault = Fault::Retryable("the task that waited for the log failed".into());
            let failure = BulkFailure::Append(SubmitError::Unknown(fault));
            self.outcome.fail(failure);
            return;
        };
        self.in_flight -= step.bytes;
        let metrics = self.ingress.metrics();
        for (records, result) in step.settled {
            match result {
                Ok(place) => {
                    metrics.accepted.inc_by(records);
                    self.outcome.stored += records;
                    self.outcome.places.push(place);
                }
                Err(error) => {
                    metrics.unappended.inc_by(records);
                    self.outcome.fail(BulkFailure::Append(error));
                }
            }
        }
        if self.outcome.places.len() > 2 * PLACES_EACH * self.tickets.len() {
            self.outcome.keep_last_places();
        }
    }
}

impl BulkFailure {
    /// How much it tells: a client must hear of an unknown outcome, and batches are settled in no certain order.
    fn weight(&self) -> u8 {
        match self {
            BulkFailure::Append(SubmitError::Unknown(_)) => 2,
            BulkFailure::Append(SubmitError::NotStored(NotStored::Behind)) => 0,
            BulkFailure::Append(_) | BulkFailure::Overloaded(_) => 1,
        }
    }
}

impl BulkOutcome {
    fn fail(&mut self, failure: BulkFailure) {
        if self.failure.as_ref().is_none_or(|known| known.weight() < failure.weight()) {
            self.failure = Some(failure);
        }
    }

    /// Drops the places that others of the same partition and producer stand behind.
    fn keep_last_places(&mut self) {
        self.places.sort_by(|one, other| {
            let key = |place: &Place| (place.producer.0, place.sequence);
            one.partition.cmp(&other.partition).then_with(|| key(one).cmp(&key(other)))
        });
        self.places.dedup_by(|next, kept| {
            let same = next.partition == kept.partition && next.producer == kept.producer;
            if same {
                // They are in their order: the later one stays.
                std::mem::swap(next, kept);
            }
            same
        });
    }
}

impl fmt::Debug for BulkSender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkSender").field("ingress", &self.ingress).finish_non_exhaustive()
    }
}

/// Asks the gate until it lets these records in, or the time of a post is over.
async fn enter(ingress: &Ingress, records: u64) -> Result<Admission, Refused> {
    let deadline = Instant::now() + POST_WITHIN;
    let mut waited = false;
    loop {
        let refused = match ingress.gate().enter(records, deadline).await {
            Ok(admission) => {
                if waited || admission.has_waited() {
                    ingress.demand().note_delayed(records);
                }
                return Ok(admission);
            }
            Err(refused) => refused,
        };
        let pause = refused.retry_after.min(PAUSE_MOST);
        if Instant::now() + pause >= deadline {
            ingress.demand().note_refused(records);
            return Err(refused);
        }
        waited = true;
        tokio::time::sleep(pause).await;
    }
}

async fn step(
    sent: Vec<(u64, Result<Appending, SubmitError>)>,
    bytes: usize,
    admission: Admission,
) -> Step {
    let mut settled = Vec::with_capacity(sent.len());
    let mut appended = 0;
    for (records, appending) in sent {
        let result = match appending {
            Ok(appending) => appending.await,
            Err(error) => Err(error),
        };
        appended += if result.is_ok() { records } else { 0 };
        settled.push((records, result));
    }
    admission.done_in_bulk(appended);
    Step { bytes, settled }
}
