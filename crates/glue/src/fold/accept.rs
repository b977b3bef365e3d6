//! A piece from the log: repeat, then halt, then the rest.

use consort_kernel::Timestamp;

use super::{Effects, Fold, FoldRule, IncomingPiece};
use crate::stored::{DocumentFlow, HaltCause, Halting, KeyOutcome, PendingState, PieceOutcome};
use crate::{PiecePlace, Reason, Rejection, TenantCounter};

impl Fold<'_> {
    /// Takes a piece from the log. `keys` are the cells of its idempotency key.
    pub fn piece(mut self, incoming: &IncomingPiece<'_>, keys: &[KeyOutcome]) -> Effects {
        self.count(TenantCounter::Received, 1);
        if self.state.head.flow == DocumentFlow::Releasing {
            self.release();
        }
        #[cfg(feature = "mutations")]
        self.end_overdue_gap(incoming);
        if let Some(rejection) = self.unmet_before_repeat(incoming) {
            self.reject(incoming, &rejection);
        } else if !self.is_repeat(incoming, keys) {
            match self.state.head.flow {
                DocumentFlow::Open => self.judge(incoming),
                DocumentFlow::Halted if self.ends_gap(incoming) => {
                    self.end_halt_at_gap();
                    self.judge(incoming);
                }
                DocumentFlow::Halted if !self.rules.keep(FoldRule::HaltQueues) => {
                    self.judge(incoming);
                }
                DocumentFlow::Halted | DocumentFlow::Releasing => self.queue(incoming),
            }
            self.release();
        }
        self.finish(incoming.time)
    }

    /// Rejects a piece that is not to be tried. It passes no other check.
    pub fn reject_untried(
        mut self,
        incoming: &IncomingPiece<'_>,
        rejection: &Rejection,
    ) -> Effects {
        self.count(TenantCounter::Received, 1);
        self.reject(incoming, rejection);
        self.finish(incoming.time)
    }

    /// Why the condition of a piece fails that may be a repeat: checked only where the order of checks is broken.
    fn unmet_before_repeat(&self, incoming: &IncomingPiece<'_>) -> Option<Rejection> {
        if self.rules.keep(FoldRule::RepeatBeforeCondition) {
            return None;
        }
        incoming.piece.condition.and_then(|condition| self.unmet(condition))
    }

    /// Ends a gap at its deadline, as a node with a clock of its own would.
    #[cfg(feature = "mutations")]
    fn end_overdue_gap(&mut self, incoming: &IncomingPiece<'_>) {
        let word = super::word(self.collection, (self.tenant, self.id), self.state);
        if let Some((deadline, word)) = word
            && let crate::stored::WordAction::Gap { source, number } = word.action
            && deadline <= incoming.time
            && !self.rules.keep(FoldRule::LogEndsGaps)
        {
            let at = WordPlace { place: incoming.place, time: incoming.time };
            self.gap_is_over(&source, number, at);
            self.release();
        }
    }

    /// Whether the piece is the missing one that the document halts for.
    fn ends_gap(&self, incoming: &IncomingPiece<'_>) -> bool {
        let Some(Halting { cause: HaltCause::Gap { source }, .. }) = self.state.head.halting else {
            return false;
        };
        let source = &self.state.head.sources[usize::from(source)];
        incoming
            .piece
            .source
            .is_some_and(|number| number.source == source.name && number.seq == source.last + 1)
    }

    /// Queues a piece behind a halt or a release. Beyond the bound of the pending cell it is rejected (H29).
    pub(super) fn queue(&mut self, incoming: &IncomingPiece<'_>) {
        if !self.rules.keep(FoldRule::NoPieceWaitsInTheLog) {
            return;
        }
        let waiting = incoming.waiting(PendingState::Queued);
        if self.has_room(&waiting) {
            return self.wait(incoming, waiting, &PieceOutcome::Queued);
        }
        let state = match self.state.head.halting {
            Some(Halting { place, .. }) => format!("is halted by the piece at {place}"),
            None => "is releasing pieces".to_owned(),
        };
        let detail = format!("the document {state}, and as many pieces wait for it as may");
        self.reject(incoming, &Rejection::new(Reason::HALTED, detail));
    }

    /// Applies queued pieces within the bounds of one record, and settles the flow.
    pub(super) fn release(&mut self) {
        while self.state.head.flow != DocumentFlow::Halted && self.may_release() {
            if !self.release_next() {
                break;
            }
        }
        if self.state.head.flow != DocumentFlow::Halted {
            let flow = match self.state.has_queued() {
                true => DocumentFlow::Releasing,
                false => DocumentFlow::Open,
            };
            self.state.changed |= self.state.head.flow != flow;
            self.state.head.flow = flow;
        }
    }
}

/// Where and when a control record stands.
#[derive(Clone, Copy, Debug)]
pub struct WordPlace {
    /// Where it stands in the log.
    pub place: PiecePlace,
    /// When its frame was appended.
    pub time: Timestamp,
}
