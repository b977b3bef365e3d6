//! What readers see, of cells and of entries: the tables as they stood when the last batch was written.
//!
//! A snapshot that a reader takes by itself may be of the middle of a batch: fjall makes a batch visible when
//! it is applied, but a flush or a compaction that ends meanwhile raises the same mark, and then a reader sees
//! the rows that are applied already and not the others. Between two batches nothing is on its way.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::tables::Tables;

/// The snapshot that all readers share; clones are of the same one.
#[derive(Clone)]
pub(super) struct Published(Arc<RwLock<fjall::Snapshot>>);

impl Published {
    /// The tables as they are, before there is a writer.
    pub(super) fn new(tables: &Tables) -> Self {
        Published(Arc::new(RwLock::new(tables.db.snapshot())))
    }

    /// Called by the writer when a batch is written, before anybody is told.
    pub(super) fn publish(&self, tables: &Tables) {
        let snapshot = tables.db.snapshot();
        *self.0.write() = snapshot;
    }

    pub(super) fn snapshot(&self) -> fjall::Snapshot {
        self.0.read().clone()
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").finish_non_exhaustive()
    }
}
