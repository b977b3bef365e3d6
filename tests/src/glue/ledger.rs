//! The ledger: the pieces that the editors sent, and how each was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::pieces::{Collection, Piece};

/// A document.
pub type DocumentId = (Collection, String);

/// A piece by its sender's name and number.
pub type PieceId = (DocumentId, String, u64);

/// The answer to a piece.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    /// It is in the log.
    Accepted,
    /// It made this version.
    Applied(u64),
    /// It was rejected for this reason.
    Rejected(String),
}

/// All editors write into it; all clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct PieceLedger(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries {
    sent: Mutex<BTreeMap<PieceId, (Piece, Option<Answered>)>>,
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
    broken: AtomicUsize,
    repeats: AtomicUsize,
}

impl PieceLedger {
    /// The piece is about to be sent for the first time.
    pub fn send(&self, id: PieceId, piece: Piece) {
        self.0.sent.lock().insert(id, (piece, None));
    }

    /// The piece was answered.
    pub fn answer(&self, id: &PieceId, answered: Answered) {
        let mut sent = self.0.sent.lock();
        let (_, answer) = sent.get_mut(id).expect("only sent pieces are answered");
        if answer.is_none() {
            self.0.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        // The more precise answer stays: a repeat may say more than the first answer did.
        match (&*answer, &answered) {
            (Some(before), after) if *after == Answered::Accepted || before == after => {}
            (None | Some(Answered::Accepted), _) => *answer = Some(answered),
            (Some(before), after) => panic!("{id:?} was answered {before:?}, then {after:?}"),
        }
    }

    /// A request was refused, and will be sent again.
    pub fn refuse(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection broke or an answer did not come.
    pub fn breaks(&self) {
        self.0.broken.fetch_add(1, Ordering::Relaxed);
    }

    /// A piece that was answered is sent once more.
    pub fn repeat(&self) {
        self.0.repeats.fetch_add(1, Ordering::Relaxed);
    }

    /// Every piece that was sent, with its answer.
    pub fn sent(&self) -> BTreeMap<PieceId, (Piece, Option<Answered>)> {
        self.0.sent.lock().clone()
    }

    /// How many pieces were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.0.acknowledged.load(Ordering::Relaxed)
    }

    /// How often a connection broke or an answer did not come.
    pub fn broken(&self) -> usize {
        self.0.broken.load(Ordering::Relaxed)
    }

    /// All of it, for people.
    pub fn report(&self) -> String {
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        format!(
            "{} pieces acknowledged, {} refusals, {} broken tries, {} sent once more",
            self.acknowledged(),
            read(&self.0.refused),
            self.broken(),
            read(&self.0.repeats),
        )
    }
}
