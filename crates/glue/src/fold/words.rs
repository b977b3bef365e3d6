//! Control words about a document. One that no longer fits the document changes nothing.

use super::accept::WordPlace;
use super::deadline::is_forgettable;
use super::{DocumentState, Effects, Fold, FoldRule, IncomingPiece, PieceOrigin};
use crate::cells::TenantCounter;
use crate::stored::word::Replacement;
use crate::stored::{
    DocumentFlow, HaltCause, Halting, OutcomeEntry, OutcomeKey, PendingPiece, PendingState,
    PieceOutcome, WordAction,
};
use crate::{PiecePlace, PieceRecord, Reason, Rejection};

impl Fold<'_> {
    /// Takes a control word.
    pub fn word(
        mut self,
        action: &WordAction,
        at: WordPlace,
        waiter: Option<OutcomeKey>,
    ) -> Effects {
        if self.state.head.flow == DocumentFlow::Releasing {
            self.release();
        }
        let outcome = match action {
            WordAction::Gap { source, number } => {
                self.gap_is_over(source, *number, at);
                None
            }
            WordAction::Release => None,
            WordAction::Retry { place, replacement } => {
                Some(self.retry(*place, replacement.as_ref()))
            }
            WordAction::Discard { place } => Some(self.discard(*place, at)),
            WordAction::Forget { deadline } => {
                self.forget(*deadline);
                None
            }
        };
        self.release();
        if let (Some(outcome), Some(key)) = (outcome, waiter) {
            self.effects.outcomes.push(OutcomeEntry {
                key,
                place: at.place,
                repeat: false,
                outcome,
            });
        }
        self.finish(at.time)
    }

    /// Ends the gap, if the number is still awaited.
    pub(super) fn gap_is_over(&mut self, source: &str, number: u64, at: WordPlace) {
        let awaited = self.last_number(source) + 1 == number;
        let mut held = self.state.pending.pieces.iter();
        let waits = held.any(|waiting| {
            waiting.state == PendingState::Held
                && waiting.number().is_some_and(|number| number.source == source)
        });
        if self.state.head.flow == DocumentFlow::Open && awaited && waits {
            self.end_gap(source, at.place, at.time);
        }
    }

    /// Applies the halting piece again, or its replacement.
    fn retry(&mut self, place: PiecePlace, replacement: Option<&Replacement>) -> PieceOutcome {
        match self.halting_at(place) {
            Err(rejection) => self.refuse_word(place, &rejection),
            Ok(HaltCause::Gap { source }) => {
                let source = &self.state.head.sources[usize::from(source)];
                let detail = format!(
                    "the number {} of source {:?} is missing: send it, or discard to skip it",
                    source.last + 1,
                    source.name
                );
                self.refuse_word(place, &Rejection::new(Reason::GAP, detail))
            }
            Ok(HaltCause::Rejected(reason)) => self.retry_piece(place, reason, replacement),
        }
    }

    fn retry_piece(
        &mut self,
        place: PiecePlace,
        reason: Reason,
        replacement: Option<&Replacement>,
    ) -> PieceOutcome {
        let Some(waiting) = self.take_halting() else {
            return self.refuse_word(place, &Rejection::new(reason, "its piece is not kept"));
        };
        if waiting.state == PendingState::HaltingWithoutContent && replacement.is_none() {
            self.state.pending.pieces.push_front(waiting);
            let detail =
                "the piece was too large to be kept: retry with a replacement, or discard it";
            return self.refuse_word(place, &Rejection::new(Reason::NOT_HALTED, detail));
        }
        self.state.head.halting = None;
        self.state.head.flow = DocumentFlow::Releasing;
        let mut incoming = queued(&waiting);
        if let Some(Replacement { form, content }) = replacement {
            incoming.origin = PieceOrigin::Replaced { original: incoming.piece.digest() };
            incoming.piece = PieceRecord { form: *form, content, ..incoming.piece };
        }
        let outcome = self.conclude(&incoming);
        if self.state.head.flow == DocumentFlow::Halted {
            self.keep_original(waiting);
        }
        outcome
    }

    /// A failed replacement does not replace the halting piece.
    fn keep_original(&mut self, waiting: PendingPiece) {
        if let Some(first) = self.state.pending.pieces.front_mut()
            && first.place == waiting.place
        {
            *first = waiting;
        }
    }

    /// Rejects the halting piece for good, or skips the gap that the document halts at.
    fn discard(&mut self, place: PiecePlace, at: WordPlace) -> PieceOutcome {
        match self.halting_at(place) {
            Err(rejection) => return self.refuse_word(place, &rejection),
            Ok(HaltCause::Gap { source }) => {
                let name = self.state.head.sources[usize::from(source)].name.clone();
                self.end_halt_at_gap();
                self.skip_gap(&name, at.place, at.time);
            }
            Ok(HaltCause::Rejected(_)) => {
                self.take_halting();
                self.state.head.halting = None;
                self.state.head.flow = DocumentFlow::Releasing;
                self.count(TenantCounter::Queued, -1);
                self.count(TenantCounter::Rejected, 1);
            }
        }
        PieceOutcome::Discarded
    }

    /// Forgets the document, if it still has this deadline.
    fn forget(&mut self, deadline: u64) {
        let due = self.state.head.deadline.is_some_and(|present| present.0 == deadline);
        if due && is_forgettable(self.state) {
            self.effects.forgotten_at = Some(self.state.head.version);
            *self.state = DocumentState { changed: true, ..DocumentState::default() };
        }
    }

    fn halting_at(&self, place: PiecePlace) -> Result<HaltCause, Rejection> {
        let is_named =
            |halting: PiecePlace| halting == place || !self.rules.keep(FoldRule::WordsNameThePlace);
        match self.state.head.halting {
            Some(Halting { place: halting, cause }) if is_named(halting) => Ok(cause),
            Some(Halting { place: halting, .. }) => Err(Rejection::new(
                Reason::NOT_HALTED,
                format!("the piece at {halting} halts the document, not the one at {place}"),
            )),
            None => Err(Rejection::new(Reason::NOT_HALTED, "the document is not halted")),
        }
    }

    fn refuse_word(&self, place: PiecePlace, rejection: &Rejection) -> PieceOutcome {
        PieceOutcome::rejected(rejection, place, self.state.head.version)
    }

    fn take_halting(&mut self) -> Option<PendingPiece> {
        self.state.changed = true;
        let pieces = &mut self.state.pending.pieces;
        let at = pieces.iter().position(|waiting| {
            matches!(waiting.state, PendingState::Halting | PendingState::HaltingWithoutContent)
        })?;
        pieces.remove(at)
    }
}

fn queued(waiting: &PendingPiece) -> IncomingPiece<'_> {
    IncomingPiece {
        piece: waiting.piece_record(),
        place: waiting.place,
        time: waiting.time,
        waiter: None,
        origin: PieceOrigin::Queued,
    }
}
