//! An attempt: sends the rows in hand as far as the sink takes them, parks those that it refuses for good, and moves
//! the cursor behind all that are settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort_cluster::runtime::within;
use consort_kernel::{Budget, Cell, ChangeError, FeedEntry, Kind, Note, Operation};

use super::batch::{Batch, Item};
use super::{Attempted, Hindrance, SinkFeed, SinkFeedState};
use crate::bisect::Bisect;
use crate::cell::{Changed, Found};
use crate::names;
use crate::parked::Parked;
use crate::parked_subject::{PARKED_SUBJECTS_MAX, ParkedSubject, put};
use crate::row::Row;
use crate::sink::{Delivery, Failed};
use crate::subjects::Subject;

/// How one request ended.
pub(super) enum Sent {
    Taken,
    Refused(String),
    Failed {
        reason: String,
        after: Option<Duration>,
    },
    /// Another deliverer holds the cell.
    Replaced,
}

/// How far a batch has come.
struct Progress {
    /// The rows that are settled, from the first one on.
    settled: usize,
    /// The deliveries that the sink took.
    taken: usize,
    refused: Refused,
    end: End,
}

/// Why no more of a batch is sent.
enum End {
    Done,
    Hindered(Hindrance),
    Replaced,
}

/// The deliveries that the sink refused for good.
#[derive(Default)]
struct Refused {
    notes: Vec<Note>,
    subjects: BTreeMap<Subject, ParkedSubject>,
}

impl SinkFeed {
    /// Delivers the entries, as far as it goes, and moves the cursor behind those that are settled.
    pub(super) async fn attempt(
        self: Arc<Self>,
        claimed: SinkFeedState,
        entries: Vec<FeedEntry>,
    ) -> Attempted {
        let (mut rows, mut budget) = (Vec::with_capacity(entries.len()), Budget::default());
        for entry in &entries {
            rows.push(Row::read(&*self.spec.payload, entry));
            budget.spend(entry.entry.len()).await;
        }
        let batch = match self.batch(&rows, &claimed.parked).await {
            Ok(batch) => batch,
            Err(reason) => {
                let hindrance = Some(Hindrance::trouble(reason));
                return Attempted { state: Some(claimed), settled: 0, hindrance };
            }
        };
        let sent = AtomicBool::new(false);
        let progress = self.send_batch(&claimed, &batch, &sent).await;
        let hindrance = match progress.end {
            End::Done => None,
            End::Hindered(hindrance) => Some(hindrance),
            End::Replaced => {
                self.give_back(&claimed.found, &sent).await;
                return Attempted { state: None, settled: 0, hindrance: None };
            }
        };
        let Some(last) = progress.settled.checked_sub(1).map(|at| &rows[at]) else {
            return Attempted { state: Some(claimed), settled: 0, hindrance };
        };
        let SinkFeedState { found, mut parked } = claimed;
        let Refused { notes, subjects } = progress.refused;
        let parked_rows = notes.len();
        let mut operations: Vec<Operation> = notes.into_iter().map(Operation::Append).collect();
        for cell in subjects.into_values() {
            operations.push(put(&self.sink_name, &self.spec.feed, &cell));
            parked.insert(cell);
        }
        for subject in parked.through(last.cursor.next) {
            operations.push(self.forget(&subject));
            parked.remove(&subject);
        }
        let stand = found.stand.moved_to(&last.cursor);
        match self.cell.change(&found, stand, operations).await {
            Ok(Changed::Done(found)) => {
                self.figures.note(progress.taken, parked_rows);
                self.says.parked(&self.spec.feed, parked.waiting());
                let state = Some(SinkFeedState { found, parked });
                Attempted { state, settled: progress.settled, hindrance }
            }
            Ok(Changed::Stale) => {
                self.give_back(&found, &sent).await;
                Attempted { state: None, settled: 0, hindrance: None }
            }
            // Whether it was moved is seen when the cell is read again; otherwise the rows come again.
            Err(reason) => {
                let hindrance = Some(Hindrance::trouble(reason));
                Attempted { state: None, settled: 0, hindrance }
            }
        }
    }

    /// Sends the items in their order, in smaller and smaller requests where the sink refuses one.
    async fn send_batch(
        &self,
        claimed: &SinkFeedState,
        batch: &Batch,
        sent: &AtomicBool,
    ) -> Progress {
        let mut bisect = Bisect::new(batch.items.len());
        let (mut refused, mut taken, mut end) = (Refused::default(), 0, End::Done);
        while let Some(range) = bisect.next() {
            let is_sent = |item: &&Item| {
                let subject = item.subject.as_ref().map(|change| &change.subject);
                !subject.is_some_and(|subject| refused.subjects.contains_key(subject))
            };
            let items: Vec<&Item> = batch.items[range.clone()].iter().filter(is_sent).collect();
            if items.is_empty() {
                bisect.taken();
                continue;
            }
            match self.send_items(&claimed.found, &items, sent).await {
                Sent::Taken => {
                    taken += items.len();
                    bisect.taken();
                }
                Sent::Refused(reason) if range.len() == 1 => {
                    let item = &batch.items[range.start];
                    if let Err(hindrance) = self.park(item, &reason, claimed, &mut refused) {
                        end = End::Hindered(hindrance);
                        break;
                    }
                    bisect.refused();
                }
                Sent::Refused(_) => {
                    bisect.refused();
                }
                Sent::Failed { reason, after } => {
                    end = End::Hindered(Hindrance::Trouble { reason, after });
                    break;
                }
                Sent::Replaced => {
                    end = End::Replaced;
                    break;
                }
            }
        }
        Progress { settled: batch.settled(bisect.done()), taken, refused, end }
    }

    async fn send_items(&self, claimed: &Found, items: &[&Item], sent: &AtomicBool) -> Sent {
        let deliveries: Result<Vec<Delivery>, ChangeError> =
            items.iter().map(|item| item.delivery.clone()).collect();
        match deliveries {
            Ok(deliveries) => self.send(claimed, &deliveries, sent).await,
            // A change of a later release is whole: a node of that release can deliver it.
            Err(error @ ChangeError::Version(_)) => {
                Sent::Failed { reason: format!("{error}; upgrade the node"), after: None }
            }
            Err(error) => Sent::Refused(error.to_string()),
        }
    }

    /// Sends one request, if the cell still is this sink feed's.
    pub(super) async fn send(
        &self,
        claimed: &Found,
        deliveries: &[Delivery],
        sent: &AtomicBool,
    ) -> Sent {
        let failed = |reason: String| Sent::Failed { reason, after: None };
        let sending = async {
            match self.cell.read().await {
                Ok(now) if now == *claimed => {}
                Ok(_) => return Sent::Replaced,
                Err(reason) => return failed(reason),
            }
            sent.store(true, Ordering::Relaxed);
            match self.sink.deliver(deliveries).await {
                Ok(()) => Sent::Taken,
                Err(Failed::Refused { reason }) => Sent::Refused(reason),
                Err(Failed::Retry { reason, after }) => Sent::Failed { reason, after },
            }
        };
        let time = self.timing.request_within;
        let late = || failed(format!("no answer within {time:?}"));
        within(&*self.runtime, time, sending).await.unwrap_or_else(late)
    }

    /// Notes a refused row, and its subject with it.
    fn park(
        &self,
        item: &Item,
        reason: &str,
        claimed: &SinkFeedState,
        refused: &mut Refused,
    ) -> Result<(), Hindrance> {
        let SinkFeed { sink_name, shard, spec, .. } = self;
        if let (Some(change), Ok(delivery)) = (&item.subject, &item.delivery) {
            let parked = claimed.parked.waiting() + refused.subjects.len();
            if self.says.parked_by_others(&spec.feed) + parked >= PARKED_SUBJECTS_MAX {
                return Err(Hindrance::Full(format!(
                    "{sink_name} has {PARKED_SUBJECTS_MAX} parked documents in {shard} and refuses another: nothing \
                     more of {} is delivered there. Mend the sink, or release documents with POST \
                     /sinks/{sink_name}/parked/release; the last reason was: {reason}",
                    spec.path
                )));
            }
            let time = delivery.change.time;
            let cell = ParkedSubject::new(change, item.number, time, reason);
            refused.subjects.insert(change.subject.clone(), cell);
        }
        refused.notes.push(self.note(item.number, item.delivery.as_ref().ok(), reason));
        Ok(())
    }

    /// The operation that removes the cell of a subject whose release is through.
    fn forget(&self, subject: &Subject) -> Operation {
        let key = names::parked_subject(&self.sink_name, &self.spec.feed, subject);
        Operation::Delete(Cell::new(Kind::Bytes, key))
    }

    /// The note of a refused row, for the list of parked rows.
    pub(super) fn note(&self, number: u64, delivery: Option<&Delivery>, reason: &str) -> Note {
        let SinkFeed { sink_name, shard, spec, .. } = self;
        tracing::warn!(sink = %sink_name, feed = %spec.feed, %shard, number,
            "a row is refused for good, and parked: {reason}");
        let shown = delivery.map(|delivery| delivery.change.payload_line().into_owned());
        let parked = Parked::new(&spec.feed, number, reason, shown);
        Note { feed: self.parked.clone(), entry: parked.encode() }
    }
}
