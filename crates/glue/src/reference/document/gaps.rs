//! Numbers and gaps of the naive fold.

use super::{Halt, Numbers, Subject, Waiting};
use crate::collection::OnGap;
use crate::reference::At;
use crate::stored::outcome::MAX_MISSING;
use crate::stored::{PieceOutcome, RejectEntry, RejectedContent, SourceNumber};
use crate::{PiecePlace, Reason, TenantCounter};

impl Subject<'_> {
    /// Ends the gap behind the last number of a source.
    pub(super) fn end_gap(&mut self, source: &str, at: At) {
        self.document.changed = at.time;
        let first = self.first_held(source);
        match self.fold.collection.on_gap {
            OnGap::Skip => {
                self.skip(source, at);
                self.ready(source);
            }
            OnGap::Reject => {
                self.skip_numbers(source);
                while let Some(waiting) = self.take_next_held(source) {
                    self.count(TenantCounter::Held, -1);
                    let outcome = self.list(&waiting, Reason::GAP);
                    let time = At { place: waiting.place, time: at.time, waiter: None };
                    self.end(&waiting, TenantCounter::Rejected, outcome, time);
                }
            }
            OnGap::Halt => {
                let Some((held, place)) = first else { return };
                let seq = self.next_known(source).unwrap_or(held);
                self.document.halted = Some(place);
                self.document.halting = Some(Halt::Gap(source.into()));
                self.count(TenantCounter::Held, -1);
                self.count(TenantCounter::Queued, 1);
                self.note(source, seq - 1, At { place, ..at });
            }
        }
    }

    pub(super) fn skip(&mut self, source: &str, at: At) {
        let next = self.next_number(source);
        // A piece that was rejected behind the halt may have used up the last missing number.
        if let Some(seq) = self.next_known(source).filter(|seq| *seq > next) {
            self.note(source, seq - 1, at);
            self.skip_numbers(source);
        }
    }

    pub(super) fn skip_numbers(&mut self, source: &str) {
        let Some(seq) = self.next_known(source) else { return };
        let next = self.next_number(source);
        let numbers = self.document.sources.entry(source.into()).or_default();
        numbers.skipped.extend(next..seq);
    }

    /// The piece that halted the document at a gap is held again.
    pub(super) fn unhalt_gap(&mut self) {
        (self.document.halted, self.document.halting) = (None, None);
        self.count(TenantCounter::Held, 1);
        self.count(TenantCounter::Queued, -1);
    }

    pub(super) fn note(&mut self, source: &str, last: u64, at: At) {
        let first = self.next_number(source);
        self.fold.rejects.push(RejectEntry {
            place: at.place,
            tenant: self.tenant.into(),
            id: self.id.into(),
            version: self.document.version,
            reason: Reason::GAP,
            detail: String::new(),
            form: None,
            content: RejectedContent::None,
            source: Some((source.into(), first)),
            missing_to: Some(last),
            time: at.time,
        });
    }

    /// The held piece whose number is next goes before all queued ones.
    pub(super) fn ready(&mut self, source: &str) {
        if let Some(waiting) = self.take_next_held(source) {
            self.count(TenantCounter::Held, -1);
            self.count(TenantCounter::Queued, 1);
            self.document.queue.push_front(waiting);
        }
    }

    pub(super) fn take_next_held(&mut self, source: &str) -> Option<Waiting> {
        let next = self.next_number(source);
        self.document.held.remove(&(source.to_owned(), next))
    }

    /// The lowest number behind the gap that is held or used up.
    pub(super) fn next_known(&self, source: &str) -> Option<u64> {
        let numbers = self.document.sources.get(source);
        let next = self.next_number(source);
        let mut used = numbers.into_iter().flat_map(|numbers| numbers.used.keys().copied());
        let used = used.find(|seq| *seq > next);
        self.first_held(source).map(|(seq, _)| seq).into_iter().chain(used).min()
    }

    pub(super) fn first_held(&self, source: &str) -> Option<(u64, PiecePlace)> {
        let mut held = self.document.held.iter();
        let ((_, seq), waiting) = held.find(|((name, _), _)| name == source)?;
        Some((*seq, waiting.place))
    }

    pub(super) fn next_number(&self, source: &str) -> u64 {
        self.document.sources.get(source).map_or(1, Numbers::next)
    }

    pub(super) fn missing(&self, source: &str, seq: u64) -> Vec<u64> {
        let numbers = self.document.sources.get(source);
        let waits = |seq: &u64| {
            let number = (source.to_owned(), *seq);
            numbers.is_some_and(|numbers| numbers.used.contains_key(seq))
                || self.document.held.contains_key(&number)
                || self
                    .document
                    .queue
                    .iter()
                    .any(|waiting| waiting.number().as_ref() == Some(&number))
        };
        (self.next_number(source)..seq).filter(|seq| !waits(seq)).take(MAX_MISSING).collect()
    }

    /// The outcome of a number that came before.
    pub(super) fn known_number(&self, number: SourceNumber<'_>) -> Option<PieceOutcome> {
        let own = (number.source.to_owned(), number.seq);
        if self.document.held.contains_key(&own) {
            let halts = matches!(&self.document.halting, Some(Halt::Gap(source)) if source == number.source)
                && self.first_held(number.source).is_some_and(|(seq, _)| seq == number.seq);
            let missing = self.missing(number.source, number.seq);
            return Some(if halts { PieceOutcome::Queued } else { PieceOutcome::Held(missing) });
        }
        if self.document.queue.iter().any(|waiting| waiting.number().as_ref() == Some(&own)) {
            return Some(PieceOutcome::Queued);
        }
        let numbers = self.document.sources.get(number.source)?;
        let outcome = numbers.used.get(&number.seq)?;
        let last = number.seq + 1 == numbers.next();
        Some(if last { outcome.brief() } else { PieceOutcome::Repeat })
    }

    pub(super) fn is_known(&self, number: SourceNumber<'_>) -> bool {
        let numbers = self.document.sources.get(number.source);
        numbers.is_some_and(|numbers| numbers.skipped.contains(&number.seq))
            || self.known_number(number).is_some()
    }
}
