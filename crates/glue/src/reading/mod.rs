//! Reading a collection: documents, listings, old versions, differences, rejected pieces, counters, and how far its
//! partitions are applied.
//!
//! Everything here reads the store and changes nothing. Any node reads any document; no owner is asked.

mod counts;
mod document;
mod listing;
mod progress;
mod rejects;
mod tenants;
mod verify;
mod version;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use consort_kernel::{
    Cell, Key, Kind, Log, NameError, Partition, QueryError, ReadError, Shard, Store, Value,
    partition_of,
};

use crate::stored::StoredFormatError;
use crate::{Collection, CollectionCells, partition_key};

pub use counts::TenantCounts;
pub use document::{CurrentDocument, DocumentText};
pub use listing::{DocumentPage, ListRequest, ListedDocument};
pub use progress::{AppliedUpTo, ReachError};
pub use rejects::{BadRejectCursor, ListedReject, RejectCursor, RejectPage, RejectRequest};
pub use tenants::TenantSelection;
pub use verify::{DocumentFinding, FindingKind, VerifiedCollection};
pub use version::{VersionAnswer, VersionPage};

/// The most items of one page.
pub const PAGE_ITEMS: usize = 1_000;

/// Reads one collection; all clones read the same one.
#[derive(Clone)]
pub struct CollectionReader {
    collection: Arc<Collection>,
    cells: Arc<CollectionCells>,
    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
}

/// Why something of a collection could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadingError {
    /// The store failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A feed or the log failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A cell or an entry is not what this release writes.
    #[error(transparent)]
    Format(#[from] StoredFormatError),
    /// A document changed again and again while it was read.
    #[error("the document changed each time it was read; ask again")]
    Restless,
}

impl CollectionReader {
    /// A reader of this collection.
    ///
    /// # Errors
    /// If the collection's name is none.
    pub fn new(
        collection: Arc<Collection>,
        store: Arc<dyn Store>,
        log: Arc<dyn Log>,
    ) -> Result<CollectionReader, NameError> {
        let cells = Arc::new(CollectionCells::new(&collection.name)?);
        Ok(CollectionReader { collection, cells, store, log })
    }

    /// The collection.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// The keys of its cells.
    pub fn cells(&self) -> &CollectionCells {
        &self.cells
    }

    /// The partition of a document.
    pub fn partition(&self, tenant: &str, id: &str) -> u32 {
        partition_of(partition_key(tenant, id).as_bytes(), self.collection.partitions)
    }

    /// The shard of a document.
    pub fn shard(&self, tenant: &str, id: &str) -> Shard {
        self.shard_of_partition(self.partition(tenant, id))
    }

    /// The shard of a partition's documents.
    pub fn shard_of_partition(&self, partition: u32) -> Shard {
        CollectionCells::shard(partition, self.store.shards())
    }

    /// The shards that hold documents.
    fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        let used = self.collection.partitions.min(self.store.shards().into());
        (0..used as u16).map(Shard)
    }

    /// A partition of the collection's log.
    fn log_partition(&self, index: u32) -> Partition {
        Partition::new(self.cells.stream().clone(), index)
    }

    /// What these cells hold, in the order asked. Callers ask for few enough that their contents fit a page.
    async fn bytes(&self, shard: Shard, keys: Vec<Key>) -> Result<Vec<Option<Bytes>>, QueryError> {
        let cells: Vec<Cell> = keys.into_iter().map(|key| Cell::new(Kind::Bytes, key)).collect();
        let mut found = Vec::with_capacity(cells.len());
        // An answer may end early where its cells are large together.
        while found.len() < cells.len() {
            let part = self.store.get(shard, &cells[found.len()..]).await?;
            let before = found.len();
            found.extend(part.into_iter().map(|value| match value {
                Some(Value::Bytes(bytes)) => Some(bytes),
                _ => None,
            }));
            assert!(found.len() > before, "a store answers for one cell at least");
        }
        Ok(found)
    }
}

impl fmt::Debug for CollectionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectionReader")
            .field("collection", &self.collection.name)
            .finish_non_exhaustive()
    }
}
