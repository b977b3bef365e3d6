//! Reads a document from its cells.

use consort_cluster::worker::Sheet;
use consort_kernel::Shard;

use super::GluePlan;
use super::memory::{CachedDocument, GlueMemory, StoredParts};
use crate::fold::{DocumentState, DocumentTree};
use crate::stored::{DocumentBody, DocumentHead, Existence, PendingPieces, StoredFormatError};

impl GluePlan {
    /// The document in memory, read from its cells if it is not there.
    pub(super) fn document<'m>(
        &self,
        memory: &'m mut GlueMemory,
        shard: Shard,
        tenant: &str,
        id: &str,
        sheet: &Sheet,
    ) -> &'m mut CachedDocument {
        let key = self.cells.head(tenant, id);
        memory.document_or(key, || self.load(shard, tenant, id, sheet))
    }

    /// Reads a document from its cells.
    ///
    /// # Panics
    /// If a cell cannot be read: the record is then rejected alone, and the document stays as it is.
    pub(super) fn load(
        &self,
        shard: Shard,
        tenant: &str,
        id: &str,
        sheet: &Sheet,
    ) -> CachedDocument {
        let head = sheet.read_owned(shard, &self.cells.head(tenant, id));
        let pending = sheet.read_owned(shard, &self.cells.pending(tenant, id));
        let body = sheet.read_owned(shard, &self.cells.body(tenant, id));
        let parts = (head.is_some(), body.is_some(), pending.is_some());
        let head = head.map(|head| stored(DocumentHead::decode(&head))).unwrap_or_default();
        let pending = pending.map(|cell| stored(PendingPieces::decode(&cell))).unwrap_or_default();
        let body = body.map(|cell| stored(DocumentBody::decode(&cell)));
        let tree = body.filter(|_| head.existence == Existence::Live).map(|body| {
            assert!(
                Some(body.tag) == head.tag(),
                "body {} and head {:?} of {tenant}/{id} are of different versions",
                body.tag,
                head.tag()
            );
            match DocumentTree::parse(self.collection.format, &body.document) {
                Ok(tree) => tree,
                Err(error) => panic!("the document {tenant}/{id} cannot be read again: {error}"),
            }
        });
        assert!(
            tree.is_some() == (head.existence == Existence::Live),
            "the body of {tenant}/{id} is missing"
        );
        let stored =
            StoredParts { head: parts.0, body: parts.1, pending: parts.2, deadline: head.deadline };
        let state = DocumentState { head, pending, tree, changed: false };
        CachedDocument::new(shard, (tenant, id), state, stored)
    }
}

/// A cell's content.
///
/// # Panics
/// If it cannot be read.
pub(super) fn stored<T>(decoded: Result<T, StoredFormatError>) -> T {
    match decoded {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
