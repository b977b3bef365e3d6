//! Loads the newest snapshot of the present era from the store into a file.

use std::io;
use std::path::{Path, PathBuf};

use consort_kernel::{Cursor, Most, ReadError};

use super::files::{on_file_thread, remove_file};
use super::load::{LoadError, SnapshotFile};
use super::manifest::Manifest;
use crate::head::{DbHead, FIRST_ERA};
use crate::local::FileState;
use crate::store::{DatabaseStore, DbStoreError};

/// Chunks that are fetched at once: so many fit a page of the store, even if they cannot be compressed.
const PAGE_CHUNKS: usize = 31;
/// How often one snapshot is tried before the older one is.
const TRIES: usize = 2;
/// How many loads are begun in all: a snapshot that is replaced during each load must not keep a worker busy
/// for ever.
const LOADS: usize = 8;

/// Why no snapshot was loaded. There is no file then.
#[derive(Debug, thiserror::Error)]
pub enum LoadSnapshotError {
    /// The store failed: a later call may succeed.
    #[error(transparent)]
    Store(#[from] DbStoreError),
    /// The file could not be written.
    #[error("the snapshot could not be written: {0}")]
    File(io::Error),
    /// Each snapshot of the era has failed.
    #[error("no snapshot of era {era} can be loaded: {reason}")]
    Unusable {
        /// The era.
        era: u64,
        /// The failure of the last one that was tried.
        reason: LoadError,
    },
    /// The era has no snapshot, and the entries at its beginning are gone.
    #[error("era {era} has no snapshot, and its first entries are gone")]
    NoBase {
        /// The era.
        era: u64,
    },
    /// The beginning of the feed cannot be read.
    #[error(transparent)]
    Feed(ReadError),
}

/// Loads the newest snapshot of the head's era into a new file at `path`, and verifies it. `None`: the era has no
/// snapshot, because it began empty, and a worker can follow its feed from the beginning. Then there is no file.
///
/// A newer snapshot may replace the one that is being loaded, and its chunks may be swept (H13): a load that
/// misses one begins again with the manifests as they are then.
pub async fn load_newest(
    store: &DatabaseStore,
    head: &DbHead,
    path: &Path,
) -> Result<Option<FileState>, LoadSnapshotError> {
    let era = head.era;
    let mut failed: Vec<Manifest> = Vec::new();
    let mut last = None;
    for _ in 0..LOADS {
        let manifests = newest_first(store, era).await?;
        let failures = |manifest: &Manifest| failed.iter().filter(|one| *one == manifest).count();
        let Some(manifest) = manifests.into_iter().find(|one| failures(one) < TRIES) else { break };
        match load_one(store, &manifest, path).await {
            Ok(state) => return Ok(Some(state)),
            Err(LoadSnapshotError::Unusable { reason, .. }) => {
                let (database, index) = (store.cells().name(), manifest.index);
                tracing::warn!(%database, era, index, %reason, "a snapshot could not be loaded");
                last = Some(reason);
                failed.push(manifest);
            }
            Err(error) => return Err(error),
        }
    }
    match last {
        Some(reason) => Err(LoadSnapshotError::Unusable { era, reason }),
        None => begins_empty(store, era).await.map(|()| None),
    }
}

/// The manifests of an era, the newest first.
pub(crate) async fn newest_first(
    store: &DatabaseStore,
    era: u64,
) -> Result<Vec<Manifest>, DbStoreError> {
    let manifests = store.manifests().await?.into_iter().flatten();
    let mut manifests: Vec<Manifest> = manifests.filter(|manifest| manifest.era == era).collect();
    manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.index));
    Ok(manifests)
}

/// Loads one snapshot. If that fails, there is no file.
pub(crate) async fn load_one(
    store: &DatabaseStore,
    manifest: &Manifest,
    path: &Path,
) -> Result<FileState, LoadSnapshotError> {
    let loaded = load_chunks(store, manifest.clone(), path.to_owned()).await;
    if loaded.is_err() {
        let path = path.to_owned();
        on_file_thread(move || remove_file(&path)).await.map_err(LoadSnapshotError::File)?;
    }
    loaded
}

async fn load_chunks(
    store: &DatabaseStore,
    manifest: Manifest,
    path: PathBuf,
) -> Result<FileState, LoadSnapshotError> {
    let unusable = |reason| match reason {
        LoadError::Io(error) => LoadSnapshotError::File(error),
        reason => LoadSnapshotError::Unusable { era: manifest.era, reason },
    };
    let mut file = on_file_thread(move || SnapshotFile::create(&path)).await.map_err(unusable)?;
    for names in manifest.chunks.chunks(PAGE_CHUNKS) {
        let names = names.to_vec();
        let keys: Vec<_> = names.iter().map(|name| store.cells().chunk(*name)).collect();
        let stored = store.bytes(&keys).await?;
        let add = move || {
            for (name, stored) in names.into_iter().zip(stored) {
                file.push(name, stored.as_deref())?;
            }
            Ok(file)
        };
        file = on_file_thread(add).await.map_err(unusable)?;
    }
    let expected = manifest.clone();
    on_file_thread(move || file.finish(&expected)).await.map_err(unusable)
}

/// Only the first era begins without a snapshot: a restore puts one beside the head of its era.
async fn begins_empty(store: &DatabaseStore, era: u64) -> Result<(), LoadSnapshotError> {
    if era != FIRST_ERA {
        return Err(LoadSnapshotError::NoBase { era });
    }
    let first = store.entries(era, &Cursor::START, Most::entries(1), std::time::Duration::ZERO);
    match first.await {
        Ok(_) => Ok(()),
        Err(ReadError::Trimmed { .. }) => Err(LoadSnapshotError::NoBase { era }),
        Err(ReadError::Engine(fault)) => Err(DbStoreError::Engine(fault).into()),
        Err(error) => Err(LoadSnapshotError::Feed(error)),
    }
}
