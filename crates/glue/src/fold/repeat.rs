//! The first check: whether a piece came before.

use super::{Fold, FoldRule, IncomingPiece};
use crate::cells::TenantCounter;
use crate::stored::{KeyOutcome, PendingState, PieceOutcome, SourceNumber};
use crate::{Reason, Rejection};

impl Fold<'_> {
    /// Answers a piece that came before, or that comes too late. True if the piece needs no more.
    ///
    /// `keys` are the cells of its idempotency key in all buckets of time that may count.
    pub(super) fn is_repeat(&mut self, incoming: &IncomingPiece<'_>, keys: &[KeyOutcome]) -> bool {
        if !self.rules.keep(FoldRule::RepeatsAreKnown) {
            return false;
        }
        if let Some(first) = self.first_with_key(incoming, keys).cloned() {
            if first.digest == incoming.piece.digest() {
                self.repeat(incoming, first.outcome);
            } else {
                let detail = format!("the key came with another piece, at {}", first.place);
                self.refuse_key(incoming, &Rejection::new(Reason::KEY_REUSED, detail));
            }
            return true;
        }
        let Some(number) = incoming.piece.source else { return false };
        if let Some(waiting) = self.waiting(number) {
            self.repeat(incoming, waiting);
            return true;
        }
        if self.is_passed(number) {
            self.repeat(incoming, PieceOutcome::Repeat);
            return true;
        }
        let Some(source) = self.state.head.source(number.source) else { return false };
        if number.seq > source.last {
            return false;
        }
        if source.is_skipped(number.seq) && self.rules.keep(FoldRule::LateIsNoRepeat) {
            self.reject_late(incoming, number);
        } else if number.seq == source.last {
            let outcome = source.outcome.clone().unwrap_or(PieceOutcome::Repeat);
            self.repeat(incoming, outcome);
        } else {
            self.repeat(incoming, PieceOutcome::Repeat);
        }
        true
    }

    /// Rejects a piece whose number was skipped.
    pub(super) fn reject_late(&mut self, incoming: &IncomingPiece<'_>, number: SourceNumber<'_>) {
        let detail = format!(
            "the number {} of source {:?} was skipped: pieces behind it are applied",
            number.seq, number.source
        );
        self.reject(incoming, &Rejection::new(Reason::LATE, detail));
    }

    pub(super) fn repeat(&mut self, incoming: &IncomingPiece<'_>, first: PieceOutcome) {
        self.move_to(incoming, TenantCounter::Repeats);
        self.tell(incoming, first, true);
    }

    /// The piece that the key stands for, if it still counts. The release before this piece may have ended its wait.
    fn first_with_key<'k>(
        &'k self,
        incoming: &IncomingPiece<'_>,
        keys: &'k [KeyOutcome],
    ) -> Option<&'k KeyOutcome> {
        let own = incoming.piece.key?;
        let released = self.effects.keys.iter().filter(|(key, _)| key == own);
        let lifetime = u64::try_from(self.collection.ids_for.as_millis()).unwrap_or(u64::MAX);
        let counts = |key: &&KeyOutcome| {
            key.place != incoming.place && key.time.0.abs_diff(incoming.time.0) <= lifetime
        };
        let keys = keys.iter().chain(released.map(|(_, first)| first));
        keys.filter(counts).max_by_key(|key| key.place)
    }

    /// Rejects a piece whose key came with another piece. The key goes on standing for the first one, and so does a
    /// number that is known already.
    fn refuse_key(&mut self, incoming: &IncomingPiece<'_>, rejection: &Rejection) {
        let outcome = self.list(incoming, rejection);
        let mut nameless = *incoming;
        nameless.piece.key = None;
        nameless.piece.source = incoming.piece.source.filter(|number| !self.is_known(*number));
        self.settle(&nameless, TenantCounter::Rejected, &outcome);
    }

    fn is_known(&self, number: SourceNumber<'_>) -> bool {
        number.seq <= self.last_number(number.source)
            || self.waiting(number).is_some()
            || self.is_passed(number)
    }

    /// Where the piece of this number waits, as an outcome. The number of a rejected piece that halts the document is
    /// used up.
    fn waiting(&self, number: SourceNumber<'_>) -> Option<PieceOutcome> {
        if number.seq <= self.last_number(number.source) {
            return None;
        }
        let mut pieces = self.state.pending.pieces.iter();
        let waiting = pieces.find(|waiting| waiting.number() == Some(number))?;
        Some(match waiting.state {
            PendingState::Held => PieceOutcome::Held(self.missing_before(number)),
            _ => PieceOutcome::Queued,
        })
    }
}
