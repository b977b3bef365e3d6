//! Publishes a snapshot whose chunks are in the store: its manifest comes last, in one commit that expects both
//! manifests before it (H13).
//!
//! The commit of a snapshot of the present era does not expect the head, which every write changes. A new era
//! replaces both manifests together with the head, so manifests that are still the same prove that the era is.

use std::collections::HashSet;
use std::time::Duration;

use consort_kernel::{Cell, Commit, Expect, Kind, Operation};
use tokio::time::Instant;

use super::chunks::ChunkName;
use super::manifest::cell_to_replace;
use super::sight::SnapshotSight;
use super::sweep_list::encode_names;
use super::upload::{PublishError, SETTLE_WITHIN, TRIES, UploadedSnapshot};
use crate::head::{DbHead, HeadError};
use crate::settle::Settlement;
use crate::store::{DatabaseStore, DbStoreError, encode_files};
use crate::write::schema_file::AppliedFile;

/// How long a new era is tried to be put while writes change the head between two tries.
const SWITCH_WITHIN: Duration = Duration::from_secs(60);

/// Why a new era was not begun.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The snapshot was not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The head does not allow the step.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The database has no head yet.
    #[error("the database does not exist yet: start a node that serves it")]
    NoHead,
    /// Writes changed the head before each try.
    #[error("writes came first for {SWITCH_WITHIN:?}: try again")]
    Busy,
}

impl UploadedSnapshot {
    /// Publishes a snapshot of the present era: it replaces the older one.
    pub(crate) async fn publish(mut self, store: &DatabaseStore) -> Result<(), PublishError> {
        for _ in 0..TRIES {
            if self.is_overtaken() {
                return Err(PublishError::Overtaken);
            }
            let commit = self.snapshot_commit(store).await?;
            match store.settle(&commit, SETTLE_WITHIN).await {
                Settlement::Applied => return Ok(()),
                Settlement::Stale { may_be_applied, .. } => {
                    let seen = SnapshotSight::read(store).await?;
                    // It replaced a manifest, so only this commit or one for the same contents put it there.
                    if may_be_applied
                        && seen.manifests.iter().flatten().any(|m| *m == self.manifest)
                    {
                        return Ok(());
                    }
                    self.refresh(store).await?;
                }
                Settlement::Failed(error) => return Err(error.into()),
                Settlement::Unknown(fault) => return Err(PublishError::Unknown(fault)),
            }
        }
        Err(PublishError::Overtaken)
    }

    /// Whether its era has ended, or a snapshot is as new.
    fn is_overtaken(&self) -> bool {
        let era = self.manifest.era;
        let is_present = self.seen.head.as_ref().is_some_and(|head| head.era == era);
        let newest = self.seen.newest(era);
        !is_present || newest.is_some_and(|newest| newest.index >= self.manifest.index)
    }

    /// Publishes the snapshot with which an era begins, together with the head of that era, which `next` makes
    /// from the present head, and the schema files in it. Returns the head that was put.
    pub(crate) async fn switch_era(
        mut self,
        store: &DatabaseStore,
        schema_files: &[AppliedFile],
        next: impl Fn(&DbHead) -> Result<DbHead, HeadError>,
    ) -> Result<DbHead, SwitchError> {
        let give_up_at = Instant::now() + SWITCH_WITHIN;
        let mut is_open = false;
        while is_open || Instant::now() < give_up_at {
            let head = self.seen.head.clone().ok_or(SwitchError::NoHead)?;
            if head.era + 1 != self.manifest.era {
                return Err(PublishError::Overtaken.into());
            }
            let put = next(&head)?;
            let commit = self.era_commit(store, &put, schema_files).await?;
            match store.settle(&commit, SETTLE_WITHIN).await {
                Settlement::Applied => return Ok(put),
                Settlement::Failed(error) => return Err(PublishError::Store(error).into()),
                Settlement::Unknown(fault) => return Err(PublishError::Unknown(fault).into()),
                Settlement::Stale { may_be_applied, .. } => {
                    is_open |= may_be_applied;
                    if self.has_switched(store, &put, is_open).await? {
                        return Ok(put);
                    }
                    is_open = false;
                    self.refresh(store).await?;
                }
            }
        }
        Err(SwitchError::Busy)
    }

    /// Whether the era of `put` has begun: its origin was drawn at random for this snapshot. A commit that found
    /// another head in the same era was not applied, and never will be, since heads do not come back.
    async fn has_switched(
        &self,
        store: &DatabaseStore,
        put: &DbHead,
        is_open: bool,
    ) -> Result<bool, SwitchError> {
        let head = store.head().await.map_err(PublishError::Store)?.ok_or(SwitchError::NoHead)?;
        if head.era > put.era && is_open {
            let what = "another era began before the outcome of this one was known";
            return Err(PublishError::Unknown(consort_kernel::Fault::Retryable(what.into())).into());
        }
        Ok(head.era == put.era && head.era_origin == put.era_origin)
    }

    async fn snapshot_commit(&self, store: &DatabaseStore) -> Result<Commit, PublishError> {
        let cells = store.cells();
        let place =
            cell_to_replace([self.seen.manifests[0].as_ref(), self.seen.manifests[1].as_ref()]);
        let put =
            Operation::Put { key: cells.manifests()[place].clone(), value: self.manifest.encode() };
        let operations = [vec![put], self.list_changes(store, &[place]).await?].concat();
        Ok(self.expecting(store, Commit::of(operations), []))
    }

    async fn era_commit(
        &self,
        store: &DatabaseStore,
        head: &DbHead,
        schema_files: &[AppliedFile],
    ) -> Result<Commit, PublishError> {
        let cells = store.cells();
        let [first, second] = cells.manifests();
        let puts = vec![
            Operation::Put { key: cells.head(), value: head.encode() },
            Operation::Put { key: cells.schema(), value: encode_files(schema_files) },
            Operation::Put { key: first, value: self.manifest.encode() },
            Operation::Delete(Cell::new(Kind::Bytes, second)),
        ];
        let operations = [puts, self.list_changes(store, &[0, 1]).await?].concat();
        // Writes go on until it is applied, and each of them changes the head that it expects.
        let commit = Commit::of(operations).urgent();
        Ok(self.expecting(store, commit, [self.seen.expect_head(cells)]))
    }

    fn expecting(
        &self,
        store: &DatabaseStore,
        commit: Commit,
        more: impl IntoIterator<Item = Expect>,
    ) -> Commit {
        let cells = store.cells();
        let expects = self.seen.expect_manifests(cells).into_iter().chain(more);
        expects.chain([self.seen.expect_list(cells)]).fold(commit, Commit::expecting)
    }

    /// Takes the batch of this snapshot off the list, since its manifest names the chunks now, and lists the
    /// chunks that only the replaced manifests name.
    async fn list_changes(
        &self,
        store: &DatabaseStore,
        replaced: &[usize],
    ) -> Result<Vec<Operation>, PublishError> {
        let cells = store.cells();
        let now = store.now().await.map_err(DbStoreError::Engine)?;
        let manifests = self.seen.manifests.iter().enumerate();
        let kept = manifests.clone().filter(|(n, _)| !replaced.contains(n)).map(|(_, kept)| kept);
        let kept = kept.flatten().chain([&self.manifest]).flat_map(|manifest| &manifest.chunks);
        let mut kept: HashSet<ChunkName> = kept.copied().collect();
        let mut list = self.seen.list.without(self.batch);
        let mut operations =
            vec![Operation::Delete(Cell::new(Kind::Bytes, cells.sweep_batch(self.batch)))];
        // One batch for each manifest: its names fit a cell, as the manifest does.
        for manifest in manifests.filter(|(n, _)| replaced.contains(n)).flat_map(|(_, m)| m) {
            let dropped: Vec<ChunkName> =
                manifest.chunks.iter().copied().filter(|name| kept.insert(*name)).collect();
            if !dropped.is_empty() {
                let batch;
                (batch, list) = list.with_batch(now);
                let (key, value) = (cells.sweep_batch(batch), encode_names(&dropped));
                operations.push(Operation::Put { key, value });
            }
        }
        operations.push(Operation::Put { key: cells.sweep(), value: list.encode() });
        Ok(operations)
    }
}
