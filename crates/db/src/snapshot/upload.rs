//! Puts the chunks of a snapshot into the store, before a manifest names them.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use consort_kernel::{Commit, Fault, Operation};

use super::chunks::ChunkName;
use super::files::on_file_thread;
use super::make::{MakeError, read_chunk};
use super::manifest::Manifest;
use super::sight::SnapshotSight;
use super::sweep_list::encode_names;
use crate::settle::Settlement;
use crate::store::{DatabaseStore, DbStoreError};

/// Chunks of one commit: at most 4 MiB, so that the commits of a leader do not wait long behind it.
const COMMIT_CHUNKS: usize = 16;
/// How long one commit of a snapshot is repeated.
pub(super) const SETTLE_WITHIN: Duration = Duration::from_secs(30);
/// How often a commit is tried again because the list of chunks to sweep changed: it changes a few times an hour.
pub(super) const TRIES: usize = 20;

/// Why a snapshot was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The store failed: a later call may succeed.
    #[error(transparent)]
    Store(#[from] DbStoreError),
    /// The copy could not be read.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// Another snapshot or era came first, or the work took so long that its chunks are being swept. Nothing was
    /// published; begin again.
    #[error("another snapshot or a new era came first")]
    Overtaken,
    /// The store did not say whether the snapshot was published.
    #[error("the store did not say whether the snapshot was published: {0}")]
    Unknown(Fault),
}

/// A snapshot whose chunks are in the store, and safe from the sweep as long as its batch is open.
#[derive(Debug)]
pub(crate) struct UploadedSnapshot {
    pub(super) manifest: Manifest,
    /// The batch of the chunks that only this snapshot needs.
    pub(super) batch: u64,
    /// The cells as they were last seen. Chunks that these manifests name are relied on.
    pub(super) seen: SnapshotSight,
}

/// Puts the chunks of `copy` that no manifest names yet.
pub(crate) async fn upload(
    store: &DatabaseStore,
    copy: &Path,
    manifest: Manifest,
) -> Result<UploadedSnapshot, PublishError> {
    let mut uploaded = list_batch(store, manifest).await?;
    let new = uploaded.new_chunks();
    let mut file = open(copy.to_owned()).await?;
    for part in new.chunks(COMMIT_CHUNKS) {
        let part = part.to_vec();
        let cells = store.cells().clone();
        let read = move || {
            let put = |(number, name): (u64, ChunkName)| {
                let value = read_chunk(&mut file, number, name)?;
                Ok(Operation::Put { key: cells.chunk(name), value })
            };
            let puts = part.into_iter().map(put).collect::<Result<Vec<_>, MakeError>>()?;
            Ok::<_, MakeError>((file, puts))
        };
        let puts;
        (file, puts) = on_file_thread(read).await?;
        uploaded.put(store, puts).await?;
    }
    Ok(uploaded)
}

async fn open(copy: PathBuf) -> Result<File, MakeError> {
    on_file_thread(move || Ok(File::open(copy)?)).await
}

/// Lists the chunks that are going to be put, so that the sweep finds them should this process end.
async fn list_batch(
    store: &DatabaseStore,
    manifest: Manifest,
) -> Result<UploadedSnapshot, PublishError> {
    let cells = store.cells();
    for _ in 0..TRIES {
        let seen = SnapshotSight::read(store).await?;
        let now = store.now().await.map_err(DbStoreError::Engine)?;
        let (batch, list) = seen.list.with_batch(now);
        let uploaded = UploadedSnapshot { manifest: manifest.clone(), batch, seen };
        let new = uploaded.new_chunks();
        let names = encode_names(new.iter().map(|(_, name)| name));
        let commit = Commit::of([
            Operation::Put { key: cells.sweep(), value: list.encode() },
            Operation::Put { key: cells.sweep_batch(batch), value: names },
        ]);
        let commit = commit.expecting(uploaded.seen.expect_list(cells));
        match store.settle(&commit, SETTLE_WITHIN).await {
            Settlement::Applied => return uploaded.refreshed(store).await,
            // A batch of an attempt that was applied after all is swept when its time has come.
            Settlement::Stale { .. } => {}
            Settlement::Failed(error) => return Err(error.into()),
            Settlement::Unknown(fault) => return Err(DbStoreError::Engine(fault).into()),
        }
    }
    Err(PublishError::Overtaken)
}

impl UploadedSnapshot {

    /// The chunks that no manifest names, each once, with the number of its first place in the file.
    fn new_chunks(&self) -> Vec<(u64, ChunkName)> {
        let mut known: HashSet<ChunkName> = self.seen.named();
        let numbered = (0..).zip(self.manifest.chunks.iter().copied());
        numbered.filter(|(_, name)| known.insert(*name)).collect()
    }

    async fn put(
        &mut self,
        store: &DatabaseStore,
        puts: Vec<Operation>,
    ) -> Result<(), PublishError> {
        for _ in 0..TRIES {
            // Without this expectation, a maker that was paused could put chunks that nothing lists any more.
            let expect = self.seen.expect_list(store.cells());
            let commit = Commit::of(puts.iter().cloned()).expecting(expect);
            match store.settle(&commit, SETTLE_WITHIN).await {
                Settlement::Applied => return Ok(()),
                Settlement::Stale { .. } => self.refresh(store).await?,
                Settlement::Failed(error) => return Err(error.into()),
                Settlement::Unknown(fault) => return Err(DbStoreError::Engine(fault).into()),
            }
        }
        Err(PublishError::Overtaken)
    }

    async fn refreshed(mut self, store: &DatabaseStore) -> Result<Self, PublishError> {
        self.refresh(store).await?;
        Ok(self)
    }

    /// Looks at the cells again. The manifests must be those whose chunks are relied on.
    pub(super) async fn refresh(&mut self, store: &DatabaseStore) -> Result<(), PublishError> {
        let seen = SnapshotSight::read(store).await?;
        if !seen.has_manifests_of(&self.seen) || !seen.list.is_open(self.batch) {
            return Err(PublishError::Overtaken);
        }
        self.seen = seen;
        Ok(())
    }
}
