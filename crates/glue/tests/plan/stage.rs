//! A partition without a store: frames go in, cells, feeds and counters come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use consort_cluster::worker::{Control, Rehearsal, RehearsedStep, RejectCause};
use consort_glue::stored::word::PART;
use consort_glue::stored::{
    Condition, DocumentBody, DocumentHead, GlueRow, GlueWord, OutcomeEntry, PendingPieces,
    RejectEntry, SourceNumber, WordAction,
};
use consort_glue::{
    CacheShare, Collection, CollectionCells, GluePlan, PieceForm, PieceRecord, TenantCounter,
};
use consort_kernel::{
    Change, Digest, Frame, FrameKind, Key, LogEntry, Operation, Partition, Producer, Shard,
    Timestamp,
};

/// The number of shards; the partition is 5, so its cells are in shard 1.
pub(crate) const SHARDS: u16 = 4;
pub(crate) const PARTITION: u32 = 5;
pub(crate) const SHARD: Shard = Shard(1);

/// A piece that owns its parts.
#[derive(Clone, Debug)]
pub(crate) struct OwnedPiece {
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) form: PieceForm,
    pub(crate) key: Option<String>,
    pub(crate) source: Option<(String, u64)>,
    pub(crate) condition: Option<Condition>,
    pub(crate) content: Vec<u8>,
}

impl OwnedPiece {
    pub(crate) fn new(id: &str, form: PieceForm, content: impl Into<Vec<u8>>) -> Self {
        OwnedPiece {
            tenant: "a".into(),
            id: id.into(),
            form,
            key: None,
            source: None,
            condition: None,
            content: content.into(),
        }
    }

    pub(crate) fn number(self, source: &str, seq: u64) -> Self {
        OwnedPiece { source: Some((source.into(), seq)), ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let source = self.source.as_ref();
        PieceRecord {
            tenant: &self.tenant,
            id: &self.id,
            form: self.form,
            key: self.key.as_deref(),
            source: source.map(|(source, seq)| SourceNumber { source, seq: *seq }),
            condition: self.condition,
            wanted: true,
            content: &self.content,
        }
        .encode()
    }
}

pub(crate) fn plan(collection: Collection, cache: usize) -> GluePlan {
    GluePlan::new(collection, SHARDS, Arc::new(CacheShare::new(cache))).unwrap()
}

pub(crate) fn partition() -> Partition {
    Partition::new("glue.c".parse().unwrap(), PARTITION)
}

/// The results of a partition.
pub(crate) struct Stage<'a> {
    pub(crate) rehearsal: Rehearsal<'a>,
    pub(crate) cells: CollectionCells,
    pub(crate) rows: Vec<GlueRow>,
    pub(crate) rejects: Vec<RejectEntry>,
    pub(crate) outcomes: Vec<OutcomeEntry>,
    pub(crate) counters: BTreeMap<Key, i64>,
    pub(crate) time: u64,
    offset: u64,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(plan: &'a GluePlan, partition: &'a Partition) -> Self {
        Stage {
            rehearsal: Rehearsal::new(plan, partition, SHARDS),
            cells: CollectionCells::new(&plan.collection().name).unwrap(),
            rows: Vec::new(),
            rejects: Vec::new(),
            outcomes: Vec::new(),
            counters: BTreeMap::new(),
            time: 1_000_000,
            offset: 0,
        }
    }

    pub(crate) fn pieces(&mut self, pieces: &[OwnedPiece]) -> LogEntry {
        let records: Vec<Vec<u8>> = pieces.iter().map(OwnedPiece::encode).collect();
        self.entry(FrameKind::Events, records)
    }

    pub(crate) fn word(&mut self, tenant: &str, id: &str, action: WordAction) -> LogEntry {
        let mut word = GlueWord::new(tenant, id, action);
        word.wanted = true;
        let control = Control::Word { part: PART.into(), text: word.encode() };
        self.entry(FrameKind::Control, vec![control.encode().to_vec()])
    }

    pub(crate) fn entry(&mut self, kind: FrameKind, records: Vec<Vec<u8>>) -> LogEntry {
        self.offset += 1;
        let frame = Frame {
            kind,
            producer: Producer(9),
            sequence: self.offset,
            time: Timestamp(self.time),
            records: records.into(),
        };
        let digest = Digest::of(&self.offset.to_be_bytes());
        LogEntry { offset: self.offset, digest, frame }
    }

    /// Applies a frame, and gives its steps.
    pub(crate) fn apply(&mut self, entry: &LogEntry) -> Vec<RehearsedStep> {
        let steps = self.rehearsal.apply(entry);
        steps.iter().for_each(|step| self.take(step));
        steps
    }

    pub(crate) fn send(&mut self, pieces: &[OwnedPiece]) -> Vec<RehearsedStep> {
        let entry = self.pieces(pieces);
        self.apply(&entry)
    }

    pub(crate) fn reject(&mut self, entry: &LogEntry, cause: &RejectCause) {
        let steps = self.rehearsal.reject(entry, cause);
        steps.iter().for_each(|step| self.take(step));
    }

    fn take(&mut self, step: &RehearsedStep) {
        for (shard, operations) in &step.operations {
            assert_eq!(*shard, SHARD, "the partition picks the shard");
            for operation in operations {
                match operation {
                    Operation::Append(note) => match note.feed.as_str() {
                        "glue.c" => {
                            let change = Change::decode(&note.entry).unwrap();
                            self.rows.push(GlueRow::from_change(&change).unwrap());
                        }
                        "glue.c.rejects" => {
                            self.rejects.push(RejectEntry::decode(&note.entry).unwrap());
                        }
                        "glue.c.outcomes" => {
                            self.outcomes.push(OutcomeEntry::decode(&note.entry).unwrap());
                        }
                        other => panic!("an unknown feed: {other}"),
                    },
                    Operation::Add { key, by, .. } => {
                        *self.counters.entry(key.clone()).or_default() += by;
                    }
                    Operation::Put { .. } | Operation::Delete(_) => {}
                    other => panic!("an unexpected operation: {other:?}"),
                }
            }
        }
    }

    pub(crate) fn head(&self, tenant: &str, id: &str) -> Option<DocumentHead> {
        let cell = self.rehearsal.cell(SHARD, &self.cells.head(tenant, id))?;
        Some(DocumentHead::decode(cell).unwrap())
    }

    pub(crate) fn body(&self, tenant: &str, id: &str) -> Option<DocumentBody> {
        let cell = self.rehearsal.cell(SHARD, &self.cells.body(tenant, id))?;
        Some(DocumentBody::decode(cell).unwrap())
    }

    pub(crate) fn document(&self, id: &str) -> Option<String> {
        self.body("a", id).map(|body| String::from_utf8(body.document.to_vec()).unwrap())
    }

    pub(crate) fn pending(&self, tenant: &str, id: &str) -> Option<PendingPieces> {
        let cell = self.rehearsal.cell(SHARD, &self.cells.pending(tenant, id))?;
        Some(PendingPieces::decode(cell).unwrap())
    }

    pub(crate) fn count(&self, tenant: &str, counter: TenantCounter) -> i64 {
        self.counters.get(&self.cells.count(tenant, counter)).copied().unwrap_or(0)
    }

    /// The due cells, by their keys.
    pub(crate) fn dues(&self) -> BTreeMap<Key, Bytes> {
        let cells = self.rehearsal.cells();
        let dues = cells.filter(|(_, key, _)| key.starts_with(self.cells.dues()));
        dues.map(|(_, key, value)| (key.clone(), value.clone())).collect()
    }

    /// Checks the cells against each other.
    pub(crate) fn check(&self) {
        let mut due = BTreeSet::new();
        let mut parts = BTreeSet::new();
        for (_, key, value) in self.rehearsal.cells() {
            let Some((tenant, id)) = self.cells.head_subject(key) else { continue };
            let head = DocumentHead::decode(value).unwrap();
            if let Some(deadline) = head.deadline {
                due.insert(self.cells.due(deadline, &tenant, &id));
            }
            let body = self.body(&tenant, &id);
            let live = head.existence == consort_glue::stored::Existence::Live;
            assert_eq!(body.as_ref().map(|body| body.tag), head.tag().filter(|_| live));
            assert_eq!(body.map_or(0, |body| body.document.len() as u64), head.size);
            parts.insert(self.cells.body(&tenant, &id));
            parts.insert(self.cells.pending(&tenant, &id));
        }
        assert_eq!(self.dues().into_keys().collect::<BTreeSet<_>>(), due, "one deadline a head");
        for (_, key, _) in self.rehearsal.cells() {
            let text = format!("{key:?}");
            let is_part = text.contains("\"body\"") || text.contains("\"pending\"");
            assert!(!is_part || parts.contains(key), "{key:?} has no head");
        }
    }
}
