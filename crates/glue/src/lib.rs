//! Documents from ordered pieces.
//!
//! Sources send the parts of a document as *pieces*: whole documents, patches and deletes. The pieces of one document
//! are applied in the order of the log, each piece once and whole, on whichever node owns its partition.
//!
//! [`json`] and [`xml`] are the formats: pure functions that read a document, check a piece and apply it within
//! bounds. They know no store, no clock and no HTTP.

//! [`stored`] holds the formats of the log, the cells and the feeds, [`CollectionCells`] the keys of the cells, and
//! [`Collection`] the settings that all nodes agree on. [`fold`] decides what a piece does to its document, and
//! [`GluePlan`] folds the log of a collection into cells and feeds.

pub mod bounds;
mod cells;
mod collection;
pub mod fold;
mod form;
pub mod json;
mod names;
pub mod part;
pub mod plan;
mod reason;
#[cfg(feature = "reference")]
pub mod reference;
pub mod stored;
pub mod xml;

pub use cells::{CollectionCells, TenantCounter, partition_key};
pub use collection::{
    Absent, Collection, CollectionError, DocumentFormat, FeedContent, OnGap, OnReject,
};
pub use fold::{DocumentTree, check_piece};
pub use form::PieceForm;
pub use names::{
    GlueNameError, MAX_SEQ, check_collection_name, check_document_id, check_idempotency_key,
    check_seq, check_source, check_tenant,
};
pub use plan::{CacheShare, GluePlan};
pub use reason::{Reason, Rejection};
pub use stored::{DocumentTag, PiecePlace, PieceRecord};
