//! The fold of one document: from its state and a piece to its next state and what else the piece does.
//!
//! Everything here is plain values: no store, no clock, no cells. A piece passes these checks in this order: repeat,
//! halt, gap, tombstone, condition, apply (H7).

mod accept;
mod deadline;
mod effects;
mod gap;
mod judge;
mod numbers;
mod release;
mod repeat;
mod rules;
mod state;
mod tree;
mod words;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use consort_kernel::{Digest, Timestamp};

use crate::bounds::{MAX_PENDING_BYTES, MAX_PENDING_PIECES};
use crate::cells::TenantCounter;
use crate::collection::Collection;
use crate::stored::{
    KeyOutcome, OutcomeEntry, OutcomeKey, PendingPiece, PendingState, PieceOutcome, RejectEntry,
};
use crate::{PiecePlace, PieceRecord, Rejection};

pub use accept::WordPlace;
pub use deadline::word;
pub use effects::{Effects, NewVersion};
pub use rules::{FoldRule, FoldRules};
pub use state::DocumentState;
pub use tree::{DocumentTree, check_piece};

/// A piece on its way into its document.
#[derive(Clone, Copy, Debug)]
pub struct IncomingPiece<'a> {
    /// The piece.
    pub piece: PieceRecord<'a>,
    /// Where it stands in the log.
    pub place: PiecePlace,
    /// When its frame was appended.
    pub time: Timestamp,
    /// The request that waits for it, if one does.
    pub waiter: Option<OutcomeKey>,
    /// Where it comes from.
    pub origin: PieceOrigin,
}

/// Where a piece comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOrigin {
    /// It is new.
    Log,
    /// It waited for a missing number.
    Held,
    /// It waited behind a halt or a release, or it halted the document itself.
    Queued,
    /// As [`Queued`](PieceOrigin::Queued), and its content was replaced: the log has another one at its place.
    Replaced {
        /// The digest of the piece that it replaces, which the idempotency key goes on standing for.
        original: Digest,
    },
}

impl PieceOrigin {
    /// The counter that the piece stands in until now.
    fn counter(self) -> Option<TenantCounter> {
        match self {
            PieceOrigin::Log => None,
            PieceOrigin::Held => Some(TenantCounter::Held),
            PieceOrigin::Queued | PieceOrigin::Replaced { .. } => Some(TenantCounter::Queued),
        }
    }
}

/// One record on its way through one document.
#[derive(Debug)]
pub struct Fold<'a> {
    collection: &'a Collection,
    tenant: &'a str,
    id: &'a str,
    state: &'a mut DocumentState,
    effects: Effects,
    /// Waiting pieces that this record has released.
    released: usize,
    /// Whether each piece is tried on a copy of the document, so that a panic of a format library rejects it.
    careful: bool,
    /// Whether earlier records changed the state.
    changed_before: bool,
    rules: FoldRules,
}

impl<'a> Fold<'a> {
    /// Begins with a document's state.
    pub fn new(
        collection: &'a Collection,
        (tenant, id): (&'a str, &'a str),
        state: &'a mut DocumentState,
    ) -> Self {
        let changed_before = std::mem::take(&mut state.changed);
        let effects = Effects::default();
        Fold {
            collection,
            tenant,
            id,
            state,
            effects,
            released: 0,
            careful: false,
            changed_before,
            rules: FoldRules::default(),
        }
    }

    /// The fold by these rules.
    pub(crate) fn with_rules(self, rules: FoldRules) -> Self {
        Fold { rules, ..self }
    }

    /// Tries each piece on a copy of the document. A piece on which the format library panics is rejected as
    /// `defect`, and the document stays as it was.
    pub fn carefully(self) -> Self {
        Fold { careful: true, ..self }
    }

    /// Settles the deadline of the document, and gives the effects.
    fn finish(mut self, time: Timestamp) -> Effects {
        if self.state.changed {
            self.state.head.deadline = deadline::deadline(self.collection, self.state, time);
        }
        self.state.changed |= self.changed_before;
        self.effects.weigh_last();
        self.effects
    }

    fn count(&mut self, counter: TenantCounter, by: i64) {
        self.effects.counts[counter as usize] += by;
    }

    /// The piece leaves the place where it waited, and is counted here.
    fn move_to(&mut self, incoming: &IncomingPiece<'_>, counter: TenantCounter) {
        if let Some(before) = incoming.origin.counter() {
            self.count(before, -1);
        }
        self.count(counter, 1);
    }

    /// Ends the way of a piece, or halts there.
    fn settle(
        &mut self,
        incoming: &IncomingPiece<'_>,
        counter: TenantCounter,
        outcome: &PieceOutcome,
    ) {
        self.state.changed = true;
        self.move_to(incoming, counter);
        let stays_free =
            counter == TenantCounter::Rejected && !self.rules.keep(FoldRule::RejectedUsesNumber);
        if let Some(number) = incoming.piece.source.filter(|_| !stays_free) {
            self.use_number(number, outcome);
        }
        self.remember_key(incoming, outcome);
        self.tell(incoming, outcome.clone(), false);
    }

    /// Rejects a piece: it is listed, and uses up its number.
    fn reject(&mut self, incoming: &IncomingPiece<'_>, rejection: &Rejection) {
        let outcome = self.list(incoming, rejection);
        self.settle(incoming, TenantCounter::Rejected, &outcome);
    }

    /// Puts a piece into the reject list, and gives the outcome.
    fn list(&mut self, incoming: &IncomingPiece<'_>, rejection: &Rejection) -> PieceOutcome {
        let version = self.state.head.version;
        let piece = PieceRecord { tenant: self.tenant, id: self.id, ..incoming.piece };
        let mut entry = RejectEntry::new(&piece, incoming.place, incoming.time, version, rejection);
        if let PieceOrigin::Replaced { .. } = incoming.origin {
            entry.forget_log();
        }
        self.effects.push_reject(entry);
        let mut outcome = PieceOutcome::rejected(rejection, incoming.place, version);
        if let PieceOutcome::Rejected { reason, current, .. } = &mut outcome
            && *reason == crate::Reason::CONDITION_FAILED
        {
            let source = self.state.head.current_source();
            *current = source.map(|(source, seq)| (source.to_owned(), seq));
        }
        outcome
    }

    fn remember_key(&mut self, incoming: &IncomingPiece<'_>, outcome: &PieceOutcome) {
        let Some(key) = incoming.piece.key else { return };
        let digest = match incoming.origin {
            PieceOrigin::Replaced { original } => original,
            _ => incoming.piece.digest(),
        };
        let (place, time) = (incoming.place, incoming.time);
        let first = KeyOutcome { place, time, digest, outcome: outcome.clone() };
        self.effects.keys.push((key.to_owned(), first));
    }

    fn tell(&mut self, incoming: &IncomingPiece<'_>, outcome: PieceOutcome, repeat: bool) {
        let Some(key) = incoming.waiter else { return };
        let place = incoming.place;
        self.effects.outcomes.push(OutcomeEntry { key, place, repeat, outcome });
    }

    /// Whether the pending cell has room for a piece.
    fn has_room(&self, waiting: &PendingPiece) -> bool {
        let pending = &self.state.pending;
        pending.pieces.len() < MAX_PENDING_PIECES
            && pending.weight() + waiting.weight() <= MAX_PENDING_BYTES
    }

    /// Puts a piece into the pending cell, at the end.
    fn wait(
        &mut self,
        incoming: &IncomingPiece<'_>,
        waiting: PendingPiece,
        outcome: &PieceOutcome,
    ) {
        let counter = match waiting.state {
            PendingState::Held => TenantCounter::Held,
            _ => TenantCounter::Queued,
        };
        self.state.changed = true;
        self.state.pending.pieces.push_back(waiting);
        self.move_to(incoming, counter);
        self.remember_key(incoming, outcome);
        self.tell(incoming, outcome.clone(), false);
    }
}

impl IncomingPiece<'_> {
    /// The piece as the pending cell keeps it.
    fn waiting(&self, state: PendingState) -> PendingPiece {
        let record = PieceRecord { tenant: "", id: "", wanted: false, ..self.piece }.encode();
        PendingPiece { state, place: self.place, time: self.time, record: Bytes::from(record) }
    }
}
