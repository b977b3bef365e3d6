//! The release of waiting pieces, in steps that a commit holds (H30).

use super::{Fold, IncomingPiece, PieceOrigin};
use crate::bounds::{MAX_RELEASED_BYTES, MAX_RELEASED_PIECES};
use crate::stored::PendingState;

impl Fold<'_> {
    /// Whether this record may release one more piece.
    pub(super) fn may_release(&self) -> bool {
        self.released < MAX_RELEASED_PIECES && self.effects.weight < MAX_RELEASED_BYTES
    }

    /// Judges the first queued piece. False if there is none.
    pub(super) fn release_next(&mut self) -> bool {
        let pieces = &mut self.state.pending.pieces;
        let first = pieces.iter().position(|waiting| waiting.state == PendingState::Queued);
        let Some(waiting) = first.and_then(|at| pieces.remove(at)) else { return false };
        self.state.changed = true;
        self.released += 1;
        let incoming = IncomingPiece {
            piece: waiting.piece_record(),
            place: waiting.place,
            time: waiting.time,
            waiter: None,
            origin: PieceOrigin::Queued,
        };
        self.judge(&incoming);
        true
    }
}
