//! The reference: what collections must be, from the log alone. It keeps everything it has ever seen, in plain
//! values; it shares the formats of records with the plan, and none of its decisions.

mod document;

use std::collections::BTreeMap;

use consort_cluster::worker::Control;
use consort_glue::stored::word::PART;
use consort_glue::stored::{Condition, GlueWord, WordAction};
use consort_glue::{Collection, PieceForm, PiecePlace, PieceRecord, TenantCounter};
use consort_kernel::{FrameKind, LogEntry};
use serde_json::Value;

use super::FoldRule;
use crate::fold::fresh;
pub(super) use document::Document;

/// A piece with all that decides about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) place: PiecePlace,
    pub(super) time: u64,
    pub(super) form: PieceForm,
    pub(super) key: Option<String>,
    pub(super) number: Option<(String, u64)>,
    pub(super) condition: Option<Condition>,
    pub(super) content: Vec<u8>,
    /// The name by which a request waits for it: producer, sequence, record.
    pub(super) waiter: Option<(u64, u64, u32)>,
}

/// How a piece ended, without texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Applied(PiecePlace, u64),
    Unchanged,
    Rejected(String),
    Held,
    Queued,
    Repeat,
    Discarded,
}

/// One row of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) document: (String, String),
    pub(super) life: PiecePlace,
    pub(super) version: u64,
    pub(super) was: u64,
    pub(super) form: String,
    pub(super) number: Option<(String, u64)>,
    /// The piece as JSON, since a row may spell it in another way.
    pub(super) piece: Option<Value>,
}

/// One entry of the reject list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reject {
    pub(super) document: (String, String),
    pub(super) place: PiecePlace,
    pub(super) version: u64,
    pub(super) reason: String,
    pub(super) number: Option<(String, u64)>,
    pub(super) missing_to: Option<u64>,
}

/// One outcome that a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) waiter: (u64, u64, u32),
    pub(super) repeat: bool,
    pub(super) end: End,
}

/// What one partition comes to.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) documents: BTreeMap<(String, String), Document>,
    pub(super) rows: Vec<Row>,
    pub(super) rejects: Vec<Reject>,
    pub(super) told: Vec<Told>,
    pub(super) counts: BTreeMap<(String, &'static str), i64>,
    /// Keys by document and text; only with a broken rule the document counts for nothing.
    pub(super) keys: BTreeMap<(String, String, String), Vec<Known>>,
}

/// The piece that an idempotency key stands for.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) piece: Piece,
    pub(super) end: End,
}

impl Books {
    pub(super) fn count(&mut self, tenant: &str, counter: TenantCounter, by: i64) {
        *self.counts.entry((tenant.to_owned(), counter.as_str())).or_default() += by;
    }
}

/// The rules of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference<'a> {
    pub(super) collection: &'a Collection,
    pub(super) broken: Option<FoldRule>,
}

impl Reference<'_> {
    pub(super) fn keeps(&self, rule: FoldRule) -> bool {
        self.broken != Some(rule)
    }

    /// What a partition comes to with these entries of its log.
    pub(super) fn fold(&self, partition: u32, entries: &[LogEntry]) -> Books {
        let mut books = Books::default();
        for entry in fresh(entries) {
            for (index, bytes) in entry.frame.records.iter().enumerate() {
                let record = index as u32;
                let place = PiecePlace { partition, era: 0, offset: entry.offset, record };
                let waiter = (entry.frame.producer.0, entry.frame.sequence, record);
                let time = entry.frame.time.0;
                match entry.frame.kind {
                    FrameKind::Events => self.piece(&mut books, bytes, place, time, waiter),
                    FrameKind::Control => self.word(&mut books, bytes, place, waiter),
                }
            }
        }
        books
    }

    fn piece(
        &self,
        books: &mut Books,
        bytes: &[u8],
        place: PiecePlace,
        time: u64,
        waiter: (u64, u64, u32),
    ) {
        let Ok(record) = PieceRecord::decode(bytes) else { return };
        let piece = Piece {
            place,
            time,
            form: record.form,
            key: record.key.map(str::to_owned),
            number: record.source.map(|number| (number.source.to_owned(), number.seq)),
            condition: record.condition,
            content: record.content.to_vec(),
            waiter: record.wanted.then_some(waiter),
        };
        let name = (record.tenant.to_owned(), record.id.to_owned());
        self.with(books, name, |document| document.take(piece));
    }

    fn word(&self, books: &mut Books, bytes: &[u8], place: PiecePlace, waiter: (u64, u64, u32)) {
        let Ok(Control::Word { part, text }) = Control::decode(bytes) else { return };
        let Some(word) = GlueWord::decode(&text).ok().filter(|_| part == PART) else { return };
        let name = (word.tenant.clone(), word.id.clone());
        let waiter = word.wanted.then_some(waiter);
        self.with(books, name, |mut document| match word.action {
            WordAction::Gap { source, number } => document.gap_is_over(&source, number, place),
            WordAction::Release | WordAction::Forget { .. } => {}
            WordAction::Retry { place: halting, replacement } => {
                let replacement = replacement.map(|one| (one.form, one.content.to_vec()));
                let end = document.retry(halting, replacement);
                document.tell_word(waiter, end);
            }
            WordAction::Discard { place: halting } => {
                let end = document.discard(halting, place);
                document.tell_word(waiter, end);
            }
        });
    }

    fn with(
        &self,
        books: &mut Books,
        name: (String, String),
        work: impl FnOnce(document::Work<'_>),
    ) {
        let mut state = books.documents.remove(&name).unwrap_or_default();
        work(document::Work { rules: *self, name: &name, state: &mut state, books });
        books.documents.insert(name, state);
    }
}
