//! Releases a parked subject: sends its present state, and from then on the changes that follow that state.
//!
//! The state is read after every row that was passed over, since one sink feed does both in turn. So the state covers those
//! rows. Rows behind the cursor that it covers as well are passed over by its revision.
//!
//! A deliverer that was replaced with this request under way could put an old state over newer changes. Like any
//! replaced attempt it hands the matter to its successor: it parks the subject again and asks for another release.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use consort_cluster::format;
use consort_kernel::{Cell, Kind, Operation};

use super::attempt::Sent;
use super::give_back::Redo;
use super::{Attempted, BATCH, Hindrance, SinkFeed, SinkFeedState};
use crate::cell::Changed;
use crate::feed;
use crate::names;
use crate::parked_subject::{ParkedSubject, SentState, put};
use crate::sink::Delivery;
use crate::subjects::{CoveredChanges, Subject, SubjectState};

impl SinkFeed {
    /// Sends the present state of a parked subject, and notes that it was sent.
    pub(super) async fn release(
        self: Arc<Self>,
        claimed: SinkFeedState,
        subject: Subject,
    ) -> Attempted {
        let Some(cell) = claimed.parked.get(&subject).cloned() else {
            return Attempted { state: Some(claimed), settled: 0, hindrance: None };
        };
        let (state, until) = match self.present(&cell, &claimed).await {
            Ok(found) => found,
            Err(reason) => {
                let hindrance = Some(Hindrance::trouble(reason));
                return Attempted { state: Some(claimed), settled: 0, hindrance };
            }
        };
        let delivery =
            Delivery { feed: Arc::clone(&self.spec), number: cell.number, change: state.change };
        let sent = AtomicBool::new(false);
        let (cell, notes, taken) =
            match self.send(&claimed.found, std::slice::from_ref(&delivery), &sent).await {
                Sent::Taken => {
                    let sent = Some(SentState { revision: state.revision, until });
                    (ParkedSubject { sent, ..cell }, Vec::new(), 1)
                }
                Sent::Refused(reason) => {
                    let note = self.note(cell.number, Some(&delivery), &reason);
                    (cell.with_reason(&reason), vec![note], 0)
                }
                Sent::Failed { reason, after } => {
                    let hindrance = Some(Hindrance::Trouble { reason, after });
                    return Attempted { state: Some(claimed), settled: 0, hindrance };
                }
                Sent::Replaced => return self.release_again(&cell, &sent).await,
            };
        let SinkFeedState { found, mut parked } = claimed;
        let parked_rows = notes.len();
        let mut operations: Vec<Operation> = notes.into_iter().map(Operation::Append).collect();
        let feed = &self.spec.feed;
        let ask = names::release(&self.sink_name, feed, &subject);
        operations.push(Operation::Delete(Cell::new(Kind::Bytes, ask)));
        operations.push(put(&self.sink_name, feed, &cell));
        match self.cell.change(&found, found.stand.with_release(), operations).await {
            Ok(Changed::Done(found)) => {
                self.figures.note(taken, parked_rows);
                parked.insert(cell);
                self.says.parked(feed, parked.waiting());
                let state = Some(SinkFeedState { found, parked });
                Attempted { state, settled: taken, hindrance: None }
            }
            Ok(Changed::Stale) => self.release_again(&cell, &sent).await,
            Err(reason) => {
                let hindrance = Some(Hindrance::trouble(reason));
                Attempted { state: None, settled: 0, hindrance }
            }
        }
    }

    /// The present state, and a number in the feed that all changes up to that state stand before.
    async fn present(
        &self,
        cell: &ParkedSubject,
        claimed: &SinkFeedState,
    ) -> Result<(SubjectState, u64), String> {
        let SinkFeed { store, shard, spec, .. } = self;
        let subjects = spec.payload.subjects().ok_or("the feed has no documents any more")?;
        let covered = CoveredChanges {
            subject: cell.subject.clone(),
            was: cell.refused.version.saturating_sub(1),
            last: cell.refused,
            time: cell.time(),
            is_end: true,
        };
        let told = |error: &dyn std::fmt::Display| {
            format!("the state of {} cannot be read: {error}", cell.subject)
        };
        let states = subjects.states(&**store, *shard, &[covered], BATCH.bytes).await;
        let state = states.map_err(|error| told(&error))?.into_iter().next().flatten();
        let state = state.ok_or_else(|| told(&"there is none"))?;
        let next = claimed.found.stand.next;
        let until = feed::end(&**store, *shard, &spec.feed, next).await;
        Ok((state, until.map_err(|error| told(&error))?))
    }

    /// Has the successor release the subject again, if the state was sent.
    async fn release_again(&self, cell: &ParkedSubject, sent: &AtomicBool) -> Attempted {
        let feed = &self.spec.feed;
        let parked = ParkedSubject { sent: None, ..cell.clone() };
        let ask = Operation::Put {
            key: names::release(&self.sink_name, feed, &cell.subject),
            value: format::encode(&cell.subject),
        };
        let news = Operation::Put {
            key: names::release_news(&self.sink_name, feed),
            value: format::encode(&cell.subject),
        };
        let operations = vec![put(&self.sink_name, feed, &parked), ask, news];
        self.have_redone(&Redo::Release(operations), sent).await;
        Attempted { state: None, settled: 0, hindrance: None }
    }
}
