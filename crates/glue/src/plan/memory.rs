//! The memory of a partition's owner: documents, the least recently used first out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use consort_cluster::worker::Sheet;
use consort_kernel::{Key, Shard, Timestamp};

use crate::fold::DocumentState;
use crate::stored::DocumentBody;

/// A parsed document takes about so many times the memory of its serialised form.
const TREE_WEIGHT: usize = 4;

/// The memory of a document beside its tree and pending pieces, about.
const DOCUMENT_WEIGHT: usize = 1 << 10;

/// The bytes of a head and of a deadline, about: a sheet counts them until they are written.
const HEAD_BYTES: usize = 512;

/// The bytes of one source in a head, at most.
const SOURCE_BYTES: usize = 256;

/// The memory for parsed documents of a node. Each partition that the node owns has an equal share.
#[derive(Debug)]
pub struct CacheShare {
    total: usize,
    partitions: AtomicUsize,
}

impl CacheShare {
    /// So many bytes for all partitions together.
    pub fn new(total: usize) -> Self {
        CacheShare { total, partitions: AtomicUsize::new(0) }
    }

    /// Tells how many partitions the node owns now.
    pub fn share_among(&self, partitions: usize) {
        self.partitions.store(partitions, Ordering::Relaxed);
    }

    /// The bytes of one partition.
    pub fn bytes(&self) -> usize {
        self.total / self.partitions.load(Ordering::Relaxed).max(1)
    }
}

/// A document in memory.
#[derive(Debug)]
pub(super) struct CachedDocument {
    /// The shard of the partition.
    pub(super) shard: Shard,
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) state: DocumentState,
    pub(super) stored: StoredParts,
    weight: usize,
    used: u64,
    /// Bytes that the sheet reserves for this document in the present step.
    reserved: usize,
    is_touched: bool,
}

/// The cells of a document that the store has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoredParts {
    pub(super) head: bool,
    pub(super) body: bool,
    pub(super) pending: bool,
    pub(super) deadline: Option<Timestamp>,
}

/// The documents in memory, by the keys of their heads.
#[derive(Debug, Default)]
pub(super) struct GlueMemory {
    documents: HashMap<Key, CachedDocument>,
    /// Documents that were touched since the last step.
    touched: Vec<Key>,
    weight: usize,
    turn: u64,
}

impl CachedDocument {
    pub(super) fn new(
        shard: Shard,
        (tenant, id): (&str, &str),
        state: DocumentState,
        stored: StoredParts,
    ) -> Self {
        CachedDocument {
            shard,
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            state,
            stored,
            weight: 0,
            used: 0,
            reserved: 0,
            is_touched: false,
        }
    }

    /// The bytes that writing the document takes.
    fn to_write(&self) -> usize {
        let head = HEAD_BYTES + SOURCE_BYTES * self.state.head.sources.len();
        let body = self.state.tree.as_ref().map_or(0, |tree| tree.size());
        head + body + DocumentBody::MAX_ENVELOPE + self.state.pending.weight()
    }

    fn weight_now(&self) -> usize {
        let tree = self.state.tree.as_ref().map_or(0, |tree| tree.size());
        DOCUMENT_WEIGHT + TREE_WEIGHT * tree + self.state.pending.weight()
    }
}

impl GlueMemory {
    pub(super) fn holds(&self, key: &Key) -> bool {
        self.documents.contains_key(key)
    }

    pub(super) fn document_mut(&mut self, key: &Key) -> Option<&mut CachedDocument> {
        self.documents.get_mut(key)
    }

    /// The document under this key, loaded if it is not here.
    pub(super) fn document_or(
        &mut self,
        key: Key,
        load: impl FnOnce() -> CachedDocument,
    ) -> &mut CachedDocument {
        self.turn += 1;
        let document = self.documents.entry(key).or_insert_with(load);
        document.used = self.turn;
        document
    }

    pub(super) fn insert(&mut self, key: Key, document: CachedDocument) {
        self.documents.insert(key, document);
    }

    /// Remembers that a document has to be written, and makes room for it in the sheet.
    pub(super) fn touch(&mut self, key: &Key, shard: Shard, sheet: &mut Sheet) {
        let Some(document) = self.documents.get_mut(key) else { return };
        if !document.is_touched {
            document.is_touched = true;
            self.touched.push(key.clone());
        }
        let needed = if document.state.changed { document.to_write() } else { 0 };
        if needed > document.reserved {
            sheet.reserve(shard, needed - document.reserved);
            document.reserved = needed;
        }
    }

    /// The documents that the step touched, in the order of their first touch.
    pub(super) fn take_touched(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.touched)
    }

    /// Weighs a document again that was written.
    pub(super) fn weigh(&mut self, key: &Key) {
        let Some(document) = self.documents.get_mut(key) else { return };
        document.is_touched = false;
        document.reserved = 0;
        let weight = document.weight_now();
        self.weight = self.weight - document.weight + weight;
        document.weight = weight;
    }

    /// Lets go of the documents that were used longest ago, until the rest weighs at most three quarters of `most`:
    /// the next slices have room as well.
    pub(super) fn evict(&mut self, most: usize) {
        if self.weight <= most {
            return;
        }
        let mut by_use: Vec<(u64, Key)> =
            self.documents.iter().map(|(key, document)| (document.used, key.clone())).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if self.weight <= most / 4 * 3 {
                break;
            }
            if let Some(document) = self.documents.remove(&key) {
                self.weight -= document.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::DocumentFormat;
    use crate::fold::DocumentTree;

    fn key(n: u64) -> Key {
        Key::from(["doc"]).with(n)
    }

    fn memory(documents: u64, size: usize) -> GlueMemory {
        let mut memory = GlueMemory::default();
        let text = format!("\"{}\"", "x".repeat(size - 2));
        for n in 0..documents {
            let tree = DocumentTree::parse(DocumentFormat::Json, text.as_bytes()).ok();
            let state = DocumentState { tree, ..DocumentState::default() };
            let load = || CachedDocument::new(Shard(0), ("a", "i"), state, StoredParts::default());
            memory.document_or(key(n), load);
            memory.weigh(&key(n));
        }
        memory
    }

    #[test]
    fn the_least_recently_used_documents_go_first() {
        let one = DOCUMENT_WEIGHT + TREE_WEIGHT * 1_000;
        let mut memory = memory(8, 1_000);
        assert_eq!(memory.weight, 8 * one);
        memory.document_or(key(0), || panic!("it is here"));
        memory.evict(8 * one);
        assert_eq!(memory.documents.len(), 8, "there is room for all");
        memory.evict(4 * one);
        assert!(memory.holds(&key(0)) && memory.holds(&key(7)) && !memory.holds(&key(1)));
        assert_eq!((memory.documents.len(), memory.weight), (3, 3 * one));
    }

    #[test]
    fn each_partition_has_an_equal_share() {
        let share = CacheShare::new(64 << 20);
        assert_eq!(share.bytes(), 64 << 20);
        share.share_among(4);
        assert_eq!(share.bytes(), 16 << 20);
    }
}
