//! A naive fold of a collection's log, to compare the plan with: in tests, in the simulation, and end to end.
//!
//! It is written without the plan and shares only formats and the JSON and XML cores with it. It keeps everything
//! for ever: each number, each key, each row. It has no bounds on waiting pieces, and releases all of them at once, so
//! it agrees with the plan as long as at most 200 pieces and 256 KiB wait for a document, with rows of at most 2 MiB.
//! Details of rejections are texts for people and are left out.

mod document;

use std::collections::BTreeMap;

use consort_cluster::worker::Control;
use consort_kernel::{FrameKind, LogEntry, Timestamp};

use crate::collection::Collection;
use crate::stored::word::PART;
use crate::stored::{
    GlueRow, GlueWord, OutcomeEntry, OutcomeKey, PieceOutcome, PieceRecord, RejectEntry,
};
use crate::{PiecePlace, TenantCounter};

pub use document::ReferenceDocument;
use document::Subject;

/// The collection as a naive fold of its log has it.
#[derive(Debug)]
pub struct ReferenceFold {
    collection: Collection,
    /// The documents, by tenant and id.
    pub documents: BTreeMap<(String, String), ReferenceDocument>,
    /// All rows, in order, without epochs.
    pub rows: Vec<GlueRow>,
    /// All entries of the reject list, in order, without details.
    pub rejects: Vec<RejectEntry>,
    /// All outcomes that requests wait for, in order, without details.
    pub outcomes: Vec<OutcomeEntry>,
    /// The counters of each tenant that are not zero.
    pub counters: BTreeMap<(String, TenantCounter), i64>,
}

/// A record in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) place: PiecePlace,
    pub(crate) time: Timestamp,
    pub(crate) waiter: Option<OutcomeKey>,
}

impl ReferenceFold {
    /// An empty collection.
    pub fn new(collection: Collection) -> Self {
        ReferenceFold {
            collection,
            documents: BTreeMap::new(),
            rows: Vec::new(),
            rejects: Vec::new(),
            outcomes: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Takes the next frame of a partition. The caller leaves out frames that were stored twice.
    pub fn take(&mut self, partition: u32, era: u64, entry: &LogEntry) {
        let frame = &entry.frame;
        for (index, bytes) in frame.records.iter().enumerate() {
            let record = index as u32;
            let place = PiecePlace { partition, era, offset: entry.offset, record };
            let (producer, sequence) = (frame.producer.0, frame.sequence);
            let key = OutcomeKey { partition, producer, sequence, record };
            match frame.kind {
                FrameKind::Events => {
                    let Ok(piece) = PieceRecord::decode(bytes) else { continue };
                    let waiter = piece.wanted.then_some(key);
                    self.piece(piece, At { place, time: frame.time, waiter });
                }
                FrameKind::Control => {
                    let Ok(Control::Word { part, text }) = Control::decode(bytes) else { continue };
                    let Some(word) = GlueWord::decode(&text).ok().filter(|_| part == PART) else {
                        continue;
                    };
                    let waiter = word.wanted.then_some(key);
                    self.word(&word, At { place, time: frame.time, waiter });
                }
            }
        }
    }

    /// The document of a tenant, serialised; `None` if there is none.
    pub fn document(&self, tenant: &str, id: &str) -> Option<&[u8]> {
        self.documents.get(&(tenant.into(), id.into()))?.bytes.as_deref()
    }

    /// A counter of a tenant.
    pub fn count(&self, tenant: &str, counter: TenantCounter) -> i64 {
        self.counters.get(&(tenant.into(), counter)).copied().unwrap_or(0)
    }

    fn piece(&mut self, piece: PieceRecord<'_>, at: At) {
        self.with(piece.tenant, piece.id, |subject| subject.piece(&piece, at));
    }

    fn word(&mut self, word: &GlueWord, at: At) {
        self.with(&word.tenant, &word.id, |subject| subject.word(&word.action, at));
    }

    fn with(&mut self, tenant: &str, id: &str, act: impl FnOnce(&mut Subject<'_>)) {
        let key = (tenant.to_owned(), id.to_owned());
        let mut document = self.documents.remove(&key).unwrap_or_default();
        let mut subject = Subject { fold: self, document: &mut document, tenant, id };
        act(&mut subject);
        if document != ReferenceDocument::default() {
            self.documents.insert(key, document);
        }
        self.counters.retain(|_, count| *count != 0);
    }
}

/// An outcome without its detail.
pub fn without_detail(outcome: PieceOutcome) -> PieceOutcome {
    match outcome {
        PieceOutcome::Rejected { reason, place, version, current, .. } => {
            PieceOutcome::Rejected { reason, detail: String::new(), place, version, current }
        }
        other => other,
    }
}
