//! The plan of a collection: its log folded into documents, rows, rejects, outcomes and counters.
//!
//! It folds by slices. All cells of a partition are in one shard, and change in commits of the partition's owner
//! alone. Documents live in the owner's memory from the first piece of a slice on; they are written at the end of a
//! step, and evicted between slices.

mod memory;
mod read;
mod rejecting;
mod write;

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::{
    Control, ExpiredRange, Folding, Memory, Plan, Record, RejectCause, Sheet,
};
use consort_kernel::{Key, NameError, Partition, Shard, Timestamp};

use crate::collection::Collection;
use crate::fold::{Fold, FoldRule, FoldRules, IncomingPiece, PieceOrigin, WordPlace};
use crate::stored::{GlueWord, KeyOutcome, OutcomeKey, word};
use crate::{CollectionCells, PiecePlace, PieceRecord};

pub use memory::CacheShare;
use memory::{CachedDocument, GlueMemory};

/// Frames of several producers are only nearly in the order of their times. Idempotency keys are kept so much longer
/// than they can count.
const KEY_SLACK: Duration = Duration::from_secs(600);

/// The plan of one collection.
#[derive(Debug)]
pub struct GluePlan {
    collection: Collection,
    cells: CollectionCells,
    shards: u16,
    cache: Arc<CacheShare>,
    rules: FoldRules,
}

impl GluePlan {
    /// The plan of a collection in a store of so many shards.
    ///
    /// # Errors
    /// If the collection's name is none.
    pub fn new(
        collection: Collection,
        shards: u16,
        cache: Arc<CacheShare>,
    ) -> Result<Self, NameError> {
        let cells = CollectionCells::new(&collection.name)?;
        Ok(GluePlan { collection, cells, shards, cache, rules: FoldRules::default() })
    }

    /// The plan by these rules.
    pub fn with_rules(self, rules: FoldRules) -> Self {
        GluePlan { rules, ..self }
    }

    /// The collection.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    fn shard(&self, partition: &Partition) -> Shard {
        CollectionCells::shard(partition.index, self.shards)
    }

    /// Takes a piece that was read.
    fn piece(
        &self,
        record: &Record<'_>,
        piece: PieceRecord<'_>,
        memory: &mut Memory,
        sheet: &mut Sheet,
    ) {
        let shard = self.shard(record.partition);
        let keys = self.key_outcomes(record, &piece, sheet);
        let incoming = incoming(record, piece);
        let memory = memory.recall::<GlueMemory>();
        let document = self.document(memory, shard, piece.tenant, piece.id, sheet);
        let fold = self.fold((piece.tenant, piece.id), document);
        let effects = fold.piece(&incoming, &keys);
        self.write_effects(shard, (piece.tenant, piece.id), effects, sheet);
        memory.touch(&self.cells.head(piece.tenant, piece.id), shard, sheet);
    }

    /// The outcomes of the piece's idempotency key, in the buckets that may count.
    fn key_outcomes(
        &self,
        record: &Record<'_>,
        piece: &PieceRecord<'_>,
        sheet: &Sheet,
    ) -> Vec<KeyOutcome> {
        let shard = self.shard(record.partition);
        let cells = self.key_cells(record, piece).into_iter();
        let values = cells.filter_map(|key| sheet.read_owned(shard, &key));
        values.map(|value| read::stored(KeyOutcome::decode(&value))).collect()
    }

    /// The cells of the piece's idempotency key: the bucket of its own time, the one before and the one after.
    fn key_cells(&self, record: &Record<'_>, piece: &PieceRecord<'_>) -> Vec<Key> {
        let Some(key) = piece.key else { return Vec::new() };
        let bucket = self.collection.id_bucket(record.time);
        let mut buckets = vec![bucket.saturating_sub(1), bucket, bucket.saturating_add(1)];
        buckets.dedup();
        let cell =
            |bucket| self.key_cell(record.partition.index, bucket, (piece.tenant, piece.id), key);
        buckets.into_iter().map(cell).collect()
    }

    fn key_cell(&self, partition: u32, bucket: u64, (tenant, id): (&str, &str), key: &str) -> Key {
        let id = if self.rules.keep(FoldRule::KeysAreOfOneDocument) { id } else { "" };
        self.cells.id(partition, bucket, tenant, id, key)
    }

    fn fold<'a>(
        &'a self,
        subject: (&'a str, &'a str),
        document: &'a mut CachedDocument,
    ) -> Fold<'a> {
        Fold::new(&self.collection, subject, &mut document.state).with_rules(self.rules)
    }

    /// The cells of a document, unless the memory stands for them.
    fn document_cells(
        &self,
        shard: Shard,
        (tenant, id): (&str, &str),
        memory: &mut Memory,
    ) -> Vec<(Shard, Key)> {
        let head = self.cells.head(tenant, id);
        if memory.recall::<GlueMemory>().holds(&head) {
            return Vec::new();
        }
        let (body, pending) = (self.cells.body(tenant, id), self.cells.pending(tenant, id));
        vec![(shard, head), (shard, body), (shard, pending)]
    }
}

impl Plan for GluePlan {
    fn shards(&self, partition: &Partition, _: u16) -> Option<Vec<Shard>> {
        Some(vec![self.shard(partition)])
    }

    fn folding(&self) -> Folding {
        Folding::Slices
    }

    fn begin_slice(&self, memory: &mut Memory) {
        memory.recall::<GlueMemory>().evict(self.cache.bytes());
    }

    fn reads(&self, record: &Record<'_>, memory: &mut Memory) -> Vec<(Shard, Key)> {
        let Some(piece) = decode(record) else { return Vec::new() };
        let shard = self.shard(record.partition);
        let mut cells = self.document_cells(shard, (piece.tenant, piece.id), memory);
        cells.extend(self.key_cells(record, &piece).into_iter().map(|key| (shard, key)));
        cells
    }

    fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet) {
        if let Some(piece) = decode(record) {
            self.piece(record, piece, memory, sheet);
        }
    }

    fn control_reads(
        &self,
        record: &Record<'_>,
        control: &Control,
        memory: &mut Memory,
    ) -> Vec<(Shard, Key)> {
        let Some(word) = glue_word(record, control) else { return Vec::new() };
        self.document_cells(self.shard(record.partition), (&word.tenant, &word.id), memory)
    }

    fn control(
        &self,
        record: &Record<'_>,
        control: &Control,
        memory: &mut Memory,
        sheet: &mut Sheet,
    ) {
        let Some(word) = glue_word(record, control) else { return };
        let shard = self.shard(record.partition);
        let (tenant, id) = (word.tenant.as_str(), word.id.as_str());
        let memory = memory.recall::<GlueMemory>();
        let document = self.document(memory, shard, tenant, id, sheet);
        let fold = self.fold((tenant, id), document);
        let effects = fold.word(&word.action, word_place(record), waiter(record, word.wanted));
        self.write_effects(shard, (tenant, id), effects, sheet);
        memory.touch(&self.cells.head(tenant, id), shard, sheet);
    }

    fn finish_step(&self, memory: &mut Memory, sheet: &mut Sheet) {
        let memory = memory.recall::<GlueMemory>();
        for key in memory.take_touched() {
            if let Some(document) = memory.document_mut(&key) {
                self.write_document(document, sheet);
            }
            memory.weigh(&key);
        }
    }

    fn reject(
        &self,
        record: &Record<'_>,
        cause: &RejectCause,
        memory: &mut Memory,
        sheet: &mut Sheet,
    ) {
        self.reject_record(record, cause, memory, sheet);
    }

    fn expired(&self, partition: &Partition, log_time: Timestamp) -> Option<ExpiredRange> {
        let reach = u64::try_from((self.collection.ids_for * 2 + KEY_SLACK).as_millis());
        let oldest = log_time.0.saturating_sub(reach.unwrap_or(u64::MAX));
        let prefix = self.cells.ids(partition.index);
        let before = prefix.with(self.collection.id_bucket(Timestamp(oldest)));
        Some(ExpiredRange { shard: self.shard(partition), prefix, before })
    }
}

/// The piece of a record. A record that is none was not written by any node: it is logged and left out.
fn decode<'a>(record: &Record<'a>) -> Option<PieceRecord<'a>> {
    let piece = PieceRecord::decode(record.bytes);
    if let Err(error) = &piece {
        tracing::error!(
            partition = %record.partition, offset = record.position.offset, %error,
            "a record of a collection is no piece and is left out"
        );
    }
    piece.ok()
}

/// The word of a control record, if it is one of glue.
fn glue_word(record: &Record<'_>, control: &Control) -> Option<GlueWord> {
    let Control::Word { part, text } = control else { return None };
    if part != word::PART {
        return None;
    }
    let word = GlueWord::decode(text);
    if let Err(error) = &word {
        tracing::error!(
            partition = %record.partition, offset = record.position.offset, %error,
            "a control record of glue cannot be read and is left out"
        );
    }
    word.ok()
}

fn incoming<'a>(record: &Record<'_>, piece: PieceRecord<'a>) -> IncomingPiece<'a> {
    IncomingPiece {
        piece,
        place: place(record),
        time: record.time,
        waiter: waiter(record, piece.wanted),
        origin: PieceOrigin::Log,
    }
}

fn word_place(record: &Record<'_>) -> WordPlace {
    WordPlace { place: place(record), time: record.time }
}

fn waiter(record: &Record<'_>, wanted: bool) -> Option<OutcomeKey> {
    wanted.then_some(OutcomeKey {
        partition: record.partition.index,
        producer: record.producer.0,
        sequence: record.sequence,
        record: record.position.record,
    })
}

fn place(record: &Record<'_>) -> PiecePlace {
    PiecePlace {
        partition: record.partition.index,
        era: record.position.era,
        offset: record.position.offset,
        record: record.position.record,
    }
}
