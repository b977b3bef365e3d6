//! What glue stores: records, cells, feed entries and control words, each with a version byte.
//!
//! Formats are plain values. They know no store, and no bytes make their readers panic.

pub mod body;
pub mod etag;
pub mod head;
pub mod key_outcome;
pub mod outcome;
pub(crate) mod pack;
pub mod pending;
pub mod place;
pub mod record;
pub mod reject;
pub mod ring;
pub mod row;
pub mod word;

pub use body::DocumentBody;
pub use etag::DocumentTag;
pub use head::{DocumentFlow, DocumentHead, Existence, HaltCause, Halting, SourceNumbers};
pub use key_outcome::KeyOutcome;
pub use outcome::{OutcomeEntry, OutcomeKey, PieceOutcome};
pub use pack::StoredFormatError;
pub use pending::{PendingPiece, PendingPieces, PendingState};
pub use place::PiecePlace;
pub use record::{Condition, PieceRecord, SourceNumber};
pub use reject::{RejectEntry, RejectedContent};
pub use ring::{RingContent, RingVersion};
pub use row::{GlueRow, RowForm};
pub use word::{GlueWord, WordAction};
