//! The cells that decide on snapshots, as of one moment, with the bytes that a commit expects.

use std::collections::HashSet;

use bytes::Bytes;
use consort_kernel::Expect;

use super::chunks::ChunkName;
use super::manifest::Manifest;
use super::sweep_list::SweepList;
use crate::cells::DbCells;
use crate::head::DbHead;
use crate::store::{DatabaseStore, DbStoreError};

/// Head, manifests and the list of chunks to sweep. Together they fit one page of the store, so they are of one
/// moment.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotSight {
    pub(crate) head: Option<DbHead>,
    pub(crate) manifests: [Option<Manifest>; 2],
    pub(crate) list: SweepList,
    stored_head: Option<Bytes>,
    stored_manifests: [Option<Bytes>; 2],
    stored_list: Option<Bytes>,
}

impl SnapshotSight {
    pub(crate) async fn read(store: &DatabaseStore) -> Result<Self, DbStoreError> {
        let cells = store.cells();
        let [first, second] = cells.manifests();
        let mut found =
            store.bytes(&[cells.head(), first, second, cells.sweep()]).await?.into_iter();
        let mut next = || found.next().flatten();
        let (stored_head, stored_manifests, stored_list) = (next(), [next(), next()], next());
        let manifest = |stored: &Option<Bytes>| stored.as_deref().map(Manifest::decode).transpose();
        let list = stored_list.as_deref().map(SweepList::decode).transpose()?;
        Ok(SnapshotSight {
            head: stored_head.as_deref().map(DbHead::decode).transpose()?,
            manifests: [manifest(&stored_manifests[0])?, manifest(&stored_manifests[1])?],
            list: list.unwrap_or_default(),
            stored_head,
            stored_manifests,
            stored_list,
        })
    }

    /// The newest snapshot of an era.
    pub(crate) fn newest(&self, era: u64) -> Option<&Manifest> {
        let of_era = self.manifests.iter().flatten().filter(|manifest| manifest.era == era);
        of_era.max_by_key(|manifest| manifest.index)
    }

    /// The chunks that the manifests name.
    pub(crate) fn named(&self) -> HashSet<ChunkName> {
        self.manifests.iter().flatten().flat_map(|manifest| &manifest.chunks).copied().collect()
    }

    /// Whether both manifests are the same as in another look.
    pub(crate) fn has_manifests_of(&self, other: &SnapshotSight) -> bool {
        self.stored_manifests == other.stored_manifests
    }

    pub(crate) fn expect_head(&self, cells: &DbCells) -> Expect {
        Expect::Bytes(cells.head(), self.stored_head.clone())
    }

    pub(crate) fn expect_manifests(&self, cells: &DbCells) -> [Expect; 2] {
        let [first, second] = cells.manifests();
        let [stored_first, stored_second] = self.stored_manifests.clone();
        [Expect::Bytes(first, stored_first), Expect::Bytes(second, stored_second)]
    }

    pub(crate) fn expect_list(&self, cells: &DbCells) -> Expect {
        Expect::Bytes(cells.sweep(), self.stored_list.clone())
    }
}
