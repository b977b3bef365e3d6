//! Gaps in the numbers of a source: pieces behind them are held, and a gap ends by `on_gap` (H2).

use std::collections::BTreeMap;

use super::{Fold, IncomingPiece, PieceOrigin};
use crate::cells::TenantCounter;
use crate::collection::OnGap;
use crate::stored::outcome::MAX_MISSING;
use crate::stored::{
    DocumentFlow, HaltCause, Halting, PendingPiece, PendingState, PieceOutcome, RejectEntry,
    RejectedContent, SourceNumber,
};
use crate::{PiecePlace, Reason, Rejection};
use consort_kernel::Timestamp;

/// What to do with a piece that does not fit into the full pending cell.
pub(super) enum AtFullCell {
    /// Its number is next.
    Next,
    /// Other pieces became ready: they go first, then the piece is judged again.
    Again,
    /// It is rejected.
    Reject(Rejection),
}

impl Fold<'_> {
    /// Holds a piece until the numbers before it have come. False if the pending cell has no room.
    pub(super) fn hold(&mut self, incoming: &IncomingPiece<'_>, number: SourceNumber<'_>) -> bool {
        let waiting = incoming.waiting(PendingState::Held);
        if !self.has_room(&waiting) {
            return false;
        }
        let outcome = PieceOutcome::Held(self.missing_before(number));
        self.wait(incoming, waiting, &outcome);
        true
    }

    /// The first numbers before this one that are neither used up nor known.
    pub(super) fn missing_before(&self, number: SourceNumber<'_>) -> Vec<u64> {
        let known = |seq: &u64| {
            let number = SourceNumber { seq: *seq, ..number };
            let mut pieces = self.state.pending.pieces.iter();
            self.is_passed(number) || pieces.any(|waiting| waiting.number() == Some(number))
        };
        let numbers = self.last_number(number.source) + 1..number.seq;
        // No more numbers than these can be known.
        let most = MAX_MISSING + self.state.pending.pieces.len();
        numbers.take(most).filter(|seq| !known(seq)).take(MAX_MISSING).collect()
    }

    /// The held pieces of a source, by number.
    fn held(&self, name: &str) -> BTreeMap<u64, (PiecePlace, Timestamp)> {
        let pieces = self.state.pending.pieces.iter();
        let held = pieces
            .filter(|waiting| matches!(waiting.state, PendingState::Held | PendingState::Halting));
        let of_source = held.filter_map(|waiting| {
            let number = waiting.number().filter(|number| number.source == name)?;
            Some((number.seq, (waiting.place, waiting.time)))
        });
        of_source.collect()
    }

    /// The lowest number above the last one that is held, or was used up ahead of its turn.
    fn next_known(&self, name: &str) -> Option<u64> {
        let held = self.held(name).into_keys().find(|seq| *seq > self.last_number(name));
        held.into_iter().chain(self.first_passed(name)).min()
    }

    /// Ends the gap behind the last number of a source.
    pub(super) fn end_gap(&mut self, name: &str, place: PiecePlace, time: Timestamp) {
        match self.collection.on_gap {
            OnGap::Skip => self.skip_gap(name, place, time),
            OnGap::Reject => self.reject_behind_gap(name),
            OnGap::Halt => self.halt_at_gap(name, time),
        }
    }

    /// Ends the gap before a piece that the full cell does not hold.
    pub(super) fn end_gap_at_full_cell(
        &mut self,
        incoming: &IncomingPiece<'_>,
        number: SourceNumber<'_>,
    ) -> AtFullCell {
        let name = number.source;
        let own_is_next = self.next_known(name).is_none_or(|known| number.seq < known);
        let gap = || {
            let detail = format!("numbers of source {name:?} before {} are missing", number.seq);
            Rejection::new(Reason::GAP, detail)
        };
        match (self.collection.on_gap, own_is_next) {
            (OnGap::Skip, true) => {
                self.skip_to(name, number.seq, incoming.place, incoming.time);
                AtFullCell::Next
            }
            (OnGap::Reject, true) => {
                self.skip_silently(name, number.seq);
                AtFullCell::Reject(gap())
            }
            (OnGap::Halt, _) if self.held(name).is_empty() => AtFullCell::Reject(gap()),
            (OnGap::Halt, _) => {
                self.halt_at_gap(name, incoming.time);
                AtFullCell::Again
            }
            (OnGap::Skip | OnGap::Reject, false) => {
                self.end_gap(name, incoming.place, incoming.time);
                AtFullCell::Again
            }
        }
    }

    /// Notes the missing numbers; the pieces behind them are ready.
    pub(super) fn skip_gap(&mut self, name: &str, place: PiecePlace, time: Timestamp) {
        if let Some(next) = self.next_known(name) {
            self.skip_to(name, next, place, time);
            self.make_ready(name);
        }
    }

    /// Notes the missing numbers before `next`, and skips them.
    fn skip_to(&mut self, name: &str, next: u64, place: PiecePlace, time: Timestamp) {
        let first = self.last_number(name) + 1;
        if first < next {
            let detail = format!("{} did not come, and are skipped", numbers(first, next - 1));
            self.note_missing(name, (first, next - 1), place, time, detail);
            self.skip_silently(name, next);
        }
    }

    /// Skips the numbers before `next`.
    fn skip_silently(&mut self, name: &str, next: u64) {
        let Some(index) = self.source_index(name) else { return };
        if self.state.head.sources[index].last + 1 < next {
            self.state.changed = true;
            self.state.head.sources[index].skip_to(next);
            self.pass_over(index);
        }
    }

    fn note_missing(
        &mut self,
        name: &str,
        (first, last): (u64, u64),
        place: PiecePlace,
        time: Timestamp,
        detail: String,
    ) {
        self.effects.push_reject(RejectEntry {
            place,
            tenant: self.tenant.to_owned(),
            id: self.id.to_owned(),
            version: self.state.head.version,
            reason: Reason::GAP,
            detail,
            form: None,
            content: RejectedContent::None,
            source: Some((name.to_owned(), first)),
            missing_to: Some(last),
            time,
        });
    }

    /// Rejects the pieces behind the gap, up to the next one.
    fn reject_behind_gap(&mut self, name: &str) {
        let Some(next) = self.next_known(name) else { return };
        let missing = numbers(self.last_number(name) + 1, next - 1);
        self.skip_silently(name, next);
        while let Some(waiting) = self.take_held(name) {
            let detail = format!("{missing} of source {name:?} did not come");
            let record = waiting.piece_record();
            let incoming = IncomingPiece {
                piece: record,
                place: waiting.place,
                time: waiting.time,
                waiter: None,
                origin: PieceOrigin::Held,
            };
            self.reject(&incoming, &Rejection::new(Reason::GAP, detail));
        }
    }

    /// Halts the document at the first piece behind the gap.
    fn halt_at_gap(&mut self, name: &str, time: Timestamp) {
        let Some(index) = self.source_index(name) else { return };
        let Some((next, (place, _))) = self.held(name).into_iter().next() else { return };
        let first = self.last_number(name) + 1;
        let last = self.next_known(name).unwrap_or(next) - 1;
        let cause = HaltCause::Gap { source: index as u8 };
        self.state.head.flow = DocumentFlow::Halted;
        self.state.head.halting = Some(Halting { place, cause });
        self.state.changed = true;
        for waiting in self.state.pending.pieces.iter_mut().filter(|one| one.place == place) {
            waiting.state = PendingState::Halting;
        }
        self.count(TenantCounter::Held, -1);
        self.count(TenantCounter::Queued, 1);
        let detail = format!(
            "{} did not come: send them, or discard {place} to skip them",
            numbers(first, last)
        );
        self.note_missing(name, (first, last), place, time, detail);
    }

    /// The piece that halted the document at a gap is held again.
    pub(super) fn end_halt_at_gap(&mut self) {
        self.state.head.halting = None;
        self.state.head.flow = DocumentFlow::Releasing;
        self.state.changed = true;
        for waiting in &mut self.state.pending.pieces {
            if waiting.state == PendingState::Halting {
                waiting.state = PendingState::Held;
                self.effects.counts[TenantCounter::Held as usize] += 1;
                self.effects.counts[TenantCounter::Queued as usize] -= 1;
            }
        }
    }

    /// Takes the held piece whose number is next.
    fn take_held(&mut self, name: &str) -> Option<PendingPiece> {
        let next = Some(SourceNumber { source: name, seq: self.last_number(name) + 1 });
        let pieces = &mut self.state.pending.pieces;
        let at = pieces
            .iter()
            .position(|waiting| waiting.state == PendingState::Held && waiting.number() == next)?;
        self.state.changed = true;
        pieces.remove(at)
    }

    /// Queues the held piece whose number is next, before all other queued pieces: it would have been applied right
    /// behind its predecessor.
    pub(super) fn make_ready(&mut self, name: &str) {
        let Some(mut waiting) = self.take_held(name) else { return };
        waiting.state = PendingState::Queued;
        self.count(TenantCounter::Held, -1);
        self.count(TenantCounter::Queued, 1);
        let pieces = &mut self.state.pending.pieces;
        let behind_halting = pieces.front().is_some_and(|first| {
            matches!(first.state, PendingState::Halting | PendingState::HaltingWithoutContent)
        });
        pieces.insert(usize::from(behind_halting), waiting);
    }
}

/// Numbers as a detail names them.
fn numbers(first: u64, last: u64) -> String {
    if first == last {
        format!("the number {first}")
    } else {
        format!("the numbers {first} to {last}")
    }
}
