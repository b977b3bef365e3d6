//! The state of a document in memory.

use super::tree::DocumentTree;
use crate::stored::{DocumentHead, PendingPieces, PendingState};

/// A document: its head, the pieces that wait for it, and its tree if it is live.
#[derive(Clone, Debug, Default)]
pub struct DocumentState {
    /// The head.
    pub head: DocumentHead,
    /// The pieces that wait.
    pub pending: PendingPieces,
    /// The document, if there is one.
    pub tree: Option<DocumentTree>,
    /// Whether head, pending pieces or tree changed since the flag was taken back.
    pub changed: bool,
}

impl DocumentState {
    /// Whether pieces wait to be released.
    pub(super) fn has_queued(&self) -> bool {
        self.pending.pieces.iter().any(|piece| piece.state == PendingState::Queued)
    }

    /// Whether nothing has to be remembered.
    pub fn is_blank(&self) -> bool {
        self.head == DocumentHead::default() && self.pending.is_empty()
    }
}
