//! Documents from ordered pieces.
//!
//! Sources send the parts of a document as *pieces*: whole documents, patches and deletes. The pieces of one document
//! are applied in the order of the log, each piece once and whole, on whichever node owns its partition.
//!
//! [`json`] and [`xml`] are the formats: pure functions that read a document, check a piece and apply it within
//! bounds. They know no store, no clock and no HTTP.

pub mod bounds;
mod form;
pub mod json;
mod reason;
pub mod xml;

pub use form::PieceForm;
pub use reason::{Reason, Rejection};
