//! The submissions that wait for one partition's next frames.

use std::collections::VecDeque;
use std::time::Duration;

use consort_kernel::{AppendError, Records};
use tokio::sync::oneshot;

use super::error::{NotStored, SubmitError};
use super::ticket::Numbered;
use super::{FRAME_ROOM, SubmitOptions, WAITING_BYTES, weigh};
use crate::appender::Place;

type Answered = oneshot::Sender<Result<Place, SubmitError>>;

/// A partition's queue.
#[derive(Default)]
pub(super) struct Waiting {
    /// By their ids, which only grow.
    submissions: VecDeque<Submission>,
    next_id: u64,
    bytes: usize,
    /// Whether a task is sending.
    pub(super) sending: bool,
    /// Submissions that left the queue without a frame since the last frame was taken.
    withdrawn: usize,
}

struct Submission {
    id: u64,
    records: Records,
    bytes: usize,
    /// In the runtime's local time.
    deadline: Option<Duration>,
    ticket: Option<Numbered>,
    answer: Answered,
}

/// What a queue has for the log.
pub(super) struct Next {
    /// The next frame; none ends the sending.
    pub(super) load: Option<Load>,
    /// How many submissions left the queue and are in no frame.
    pub(super) withdrawn: usize,
}

/// What one frame carries.
pub(super) struct Load {
    pub(super) records: Records,
    /// The earliest deadline of its submissions.
    pub(super) until: Option<Duration>,
    pub(super) answers: Answers,
}

/// The submissions of one frame, which are to be answered.
pub(super) struct Answers(Vec<Answer>);

struct Answer {
    /// The index of the submission's first record in the frame.
    first: u32,
    ticket: Option<Numbered>,
    sender: Answered,
}

impl Waiting {
    /// Puts records at the end of the queue, and gives them an id. Their ticket fails if the queue does not take them.
    pub(super) fn add(
        &mut self,
        records: Records,
        options: SubmitOptions<'_>,
        now: Duration,
        answer: Answered,
    ) -> Result<u64, SubmitError> {
        let ticket = options.ticket.map(|ticket| ticket.number());
        let bytes = match self.admit(&records, ticket.as_ref()) {
            Ok(bytes) => bytes,
            Err(error) => {
                ticket.inspect(Numbered::fail);
                return Err(error);
            }
        };
        let (id, deadline) = (self.next_id, options.within.map(|within| now + within));
        self.next_id += 1;
        self.bytes += bytes;
        self.submissions.push_back(Submission { id, records, bytes, deadline, ticket, answer });
        Ok(id)
    }

    /// What the records weigh, if the queue takes them.
    fn admit(&self, records: &Records, ticket: Option<&Numbered>) -> Result<usize, SubmitError> {
        if ticket.is_some_and(Numbered::is_behind_failure) {
            return Err(NotStored::Behind.into());
        }
        let bytes = weigh(records)?;
        if self.bytes + bytes > WAITING_BYTES && !self.submissions.is_empty() {
            return Err(NotStored::QueueFull.into());
        }
        Ok(bytes)
    }

    /// Takes a submission back that no frame has taken; `false` if there is none with this id.
    pub(super) fn withdraw(&mut self, id: u64) -> bool {
        let at = self.submissions.binary_search_by_key(&id, |one| one.id);
        let Some(taken) = at.ok().and_then(|at| self.submissions.remove(at)) else { return false };
        taken.ticket.inspect(Numbered::fail);
        self.bytes -= taken.bytes;
        self.withdrawn += 1;
        true
    }

    /// The next frame, in the order of the queue. Submissions past their deadline and those behind a failure of
    /// their ticket are answered, and left out.
    ///
    /// The caller has answered the frame before: only then all failures of tickets are known.
    pub(super) fn next(&mut self, now: Duration) -> Next {
        let mut room = FRAME_ROOM;
        let (mut records, mut answers) = (Vec::new(), Vec::new());
        let (mut count, mut until) = (0u32, None::<Duration>);
        while let Some(one) = self.submissions.pop_front_if(|one| one.bytes <= room) {
            self.bytes -= one.bytes;
            if let Some(reason) = one.refused(now) {
                one.ticket.inspect(Numbered::fail);
                self.withdrawn += 1;
                // A caller that went away needs no answer.
                let _ = one.answer.send(Err(reason.into()));
                continue;
            }
            room -= one.bytes;
            until = [until, one.deadline].into_iter().flatten().min();
            answers.push(Answer { first: count, ticket: one.ticket, sender: one.answer });
            count += one.records.len() as u32;
            records.push(one.records);
        }
        let withdrawn = std::mem::take(&mut self.withdrawn);
        if answers.is_empty() {
            self.sending = false;
            return Next { load: None, withdrawn };
        }
        let load = Load { records: Records::joined(records), until, answers: Answers(answers) };
        Next { load: Some(load), withdrawn }
    }

    /// Whether there is more to send; otherwise the sending ends.
    pub(super) fn goes_on(&mut self) -> bool {
        self.sending = !self.submissions.is_empty();
        self.sending
    }
}

impl Submission {
    /// Why no frame may carry it any more.
    fn refused(&self, now: Duration) -> Option<NotStored> {
        if self.ticket.as_ref().is_some_and(Numbered::is_behind_failure) {
            return Some(NotStored::Behind);
        }
        self.deadline.is_some_and(|deadline| deadline <= now).then_some(NotStored::Late)
    }
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells all submissions of the frame what became of it. Their tickets fail before they are told: a caller
    /// that hears of a failure finds its ticket closed.
    pub(super) fn tell(mut self, result: &Result<Place, AppendError>) {
        if result.is_err() {
            self.fail();
        }
        for Answer { first, sender, .. } in self.0.drain(..) {
            let answer = match result {
                Ok(place) => Ok(Place { record: first, ..place.clone() }),
                Err(error) => Err(error.clone().into()),
            };
            // A caller that went away needs no answer.
            let _ = sender.send(answer);
        }
    }

    fn fail(&self) {
        self.0.iter().filter_map(|answer| answer.ticket.as_ref()).for_each(Numbered::fail);
    }
}

/// A frame that is dropped without an answer, by a panic or the end of the node, has an unknown outcome.
impl Drop for Answers {
    fn drop(&mut self) {
        self.fail();
    }
}
