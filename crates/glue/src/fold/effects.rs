//! What a record does besides changing the state of its document.

use bytes::Bytes;
use consort_kernel::Timestamp;

use crate::stored::{DocumentTag, KeyOutcome, OutcomeEntry, RejectEntry, RejectedContent};
use crate::{PieceForm, PiecePlace};

/// The most bytes of a row, a version or a list entry beside its contents: id, tenant, source, detail, and JSON.
const ENVELOPE: usize = 2 << 10;

/// A version that a piece made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVersion {
    /// Life and version.
    pub tag: DocumentTag,
    /// The version before.
    pub was: u64,
    /// The form of the piece.
    pub form: PieceForm,
    /// The piece; empty for a delete.
    pub content: Bytes,
    /// The piece's place.
    pub place: PiecePlace,
    /// When the piece's frame was appended.
    pub time: Timestamp,
    /// The sender's name and its number for the piece.
    pub source: Option<(String, u64)>,
    /// The document, if its row or the history stores it.
    pub document: Option<Bytes>,
}

/// What a record does besides changing the state of its document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// New versions, in order.
    pub versions: Vec<NewVersion>,
    /// New entries of the reject list.
    pub rejects: Vec<RejectEntry>,
    /// Outcomes of pieces that requests wait for.
    pub outcomes: Vec<OutcomeEntry>,
    /// Idempotency keys, with the first piece that came with each.
    pub keys: Vec<(String, KeyOutcome)>,
    /// Changes of the tenant's counters, in the order of [`TenantCounter::ALL`](crate::TenantCounter::ALL).
    pub counts: [i64; 7],
    /// The document was forgotten at this version: its history goes as well.
    pub forgotten_at: Option<u64>,
    /// The bytes that versions and rejects take in a commit, at most.
    pub weight: usize,
}

impl Effects {
    /// Adds a version. An XML text takes up to twice its bytes in a row of JSON.
    pub(super) fn push_version(&mut self, version: NewVersion, is_xml: bool) {
        let in_row = if is_xml { 2 } else { 1 };
        let document = version.document.as_ref().map_or(0, Bytes::len);
        self.weight += in_row * (version.content.len() + document) + ENVELOPE;
        // The history keeps one of the two.
        self.weight += version.content.len().max(document);
        self.versions.push(version);
    }

    pub(super) fn push_reject(&mut self, entry: RejectEntry) {
        let content = match &entry.content {
            RejectedContent::Inline(content) => content.len(),
            RejectedContent::None | RejectedContent::InLog(_) => 0,
        };
        self.weight += content + ENVELOPE;
        self.rejects.push(entry);
    }

    /// Counts the short entries that are not weighed one by one.
    pub(super) fn weigh_last(&mut self) {
        self.weight += (self.outcomes.len() + self.keys.len()) * ENVELOPE / 2;
    }
}
