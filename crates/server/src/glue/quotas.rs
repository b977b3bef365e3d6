//! Keeps the quotas of a collection up to date: one task for each partition, while pieces of this node wait there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{ClusterStatus, Place, Runtime, SubmitError};
use consort_glue::reading::CollectionReader;
use consort_kernel::Name;
use futures::FutureExt as _;
use parking_lot::Mutex;

use super::quota::{AdmissionId, PartitionQuota, QuotaFull, QuotaLimits};
use crate::cluster::Cluster;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::TenantName;

/// The shortest time between two looks at how far a partition is applied. Shorter would read two cells for each of its
/// commits; longer would hold a tenant at its quota up.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The longest time: admissions of unknown outcome are let go by it, and the number of nodes is looked at.
const LOOK_AT_LEAST: Duration = Duration::from_millis(500);

/// When a tenant that is at its quota should come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) struct QuotasOptions {
    pub(super) limits: QuotaLimits,
    pub(super) reader: CollectionReader,
    pub(super) pipeline: Name,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) cluster: Cluster,
}

/// The quotas of one collection; all clones are of the same ones.
#[derive(Clone)]
pub(super) struct Quotas(Arc<Shared>);

struct Shared {
    options: QuotasOptions,
    partitions: Mutex<BTreeMap<u32, Followed>>,
}

struct Followed {
    quota: PartitionQuota,
    /// Whether a task keeps it up to date.
    is_followed: bool,
}

/// Pieces that count against their tenant's quota. Dropped before the log has answered, they count as if their append
/// had ended unknown.
pub(super) struct CountedPieces {
    quotas: Quotas,
    partition: u32,
    id: Option<AdmissionId>,
}

/// Pieces that are in the log, and count until they are applied.
pub(super) struct StoredPieces {
    quotas: Quotas,
    partition: u32,
    id: AdmissionId,
}

impl Quotas {
    pub(super) fn new(options: QuotasOptions) -> Quotas {
        Quotas(Arc::new(Shared { options, partitions: Mutex::default() }))
    }

    /// Admits pieces of a tenant to a partition.
    pub(super) fn admit(
        &self,
        partition: u32,
        tenant: &TenantName,
        pieces: u64,
        bytes: u64,
    ) -> Result<CountedPieces, QuotaFull> {
        let mut partitions = self.0.partitions.lock();
        let followed = partitions.entry(partition).or_insert_with(|| Followed {
            quota: PartitionQuota::new(self.0.options.limits),
            is_followed: false,
        });
        let id = followed.quota.admit(tenant, pieces, bytes)?;
        if !std::mem::replace(&mut followed.is_followed, true) {
            self.follow(partition);
        }
        Ok(CountedPieces { quotas: self.clone(), partition, id: Some(id) })
    }

    /// What a tenant may have unapplied in a partition through this node just now.
    pub(super) fn share(&self, partition: u32) -> QuotaLimits {
        let partitions = self.0.partitions.lock();
        partitions.get(&partition).map_or(self.0.options.limits, |known| known.quota.share())
    }

    fn now(&self) -> Duration {
        self.0.options.runtime.elapsed()
    }

    fn with<T>(&self, partition: u32, change: impl FnOnce(&mut PartitionQuota) -> T) -> Option<T> {
        self.0.partitions.lock().get_mut(&partition).map(|followed| change(&mut followed.quota))
    }

    /// Starts the task of a partition. It ends when nothing is counted there any more.
    fn follow(&self, partition: u32) {
        let QuotasOptions { reader, runtime, .. } = &self.0.options;
        let name = format!("quotas of {}/{partition}", reader.cells().stream());
        let quotas = self.clone();
        drop(runtime.start(&name, async move { quotas.keep(partition).await }.boxed()));
    }

    async fn keep(self, partition: u32) {
        let QuotasOptions { reader, pipeline, runtime, cluster, .. } = &self.0.options;
        loop {
            // Watched before it is read: a change in between wakes.
            let moved = reader.moved(pipeline, partition, &**runtime, LOOK_AT_LEAST);
            let applied = reader.applied(pipeline, partition).await;
            let live =
                |status: &ClusterStatus| status.nodes.iter().filter(|node| node.live).count();
            let nodes = cluster.recent().await.map_or(1, |status| live(&status) as u64);
            let now = self.now();
            self.with(partition, |quota| {
                quota.set_nodes(nodes);
                quota.expire(now);
                // While the store does not answer, everything counts on.
                if let Ok(applied) = &applied {
                    quota.applied(applied.era(), now, |place| applied.has_passed(place));
                }
            });
            if self.end(partition) {
                return;
            }
            let (moved, pause) = (moved, runtime.sleep(LOOK_EVERY));
            tokio::join!(moved, pause);
        }
    }

    /// Whether nothing is counted in a partition, so that its task ends.
    fn end(&self, partition: u32) -> bool {
        let mut partitions = self.0.partitions.lock();
        let Some(followed) = partitions.get_mut(&partition) else { return true };
        followed.is_followed = !followed.quota.is_empty();
        !followed.is_followed
    }
}

impl CountedPieces {
    /// What the log said of the pieces.
    pub(super) fn settle(mut self, result: Result<&Place, &SubmitError>) {
        let Some(id) = self.id.take() else { return };
        let now = self.quotas.now();
        self.quotas.with(self.partition, |quota| match result {
            Ok(place) => quota.stored(id, place.clone(), now),
            Err(SubmitError::Unknown(_)) => quota.unknown(id, now),
            Err(SubmitError::Refused(_) | SubmitError::NotStored(_)) => quota.failed(id),
        });
    }

    /// The pieces are in the log, and their sender may hear of their outcome before anyone looks at the partition.
    pub(super) fn stored(mut self, place: &Place) -> Option<StoredPieces> {
        let (id, now) = (self.id.take()?, self.quotas.now());
        self.quotas.with(self.partition, |quota| quota.stored(id, place.clone(), now));
        Some(StoredPieces { quotas: self.quotas.clone(), partition: self.partition, id })
    }

    /// The pieces were not sent.
    pub(super) fn not_sent(mut self) {
        let Some(id) = self.id.take() else { return };
        self.quotas.with(self.partition, |quota| quota.failed(id));
    }
}

impl StoredPieces {
    /// Their outcome has come, so they count no more: a client that waits for each of its pieces is never at its quota.
    pub(super) fn settled(self) {
        let now = self.quotas.now();
        self.quotas.with(self.partition, |quota| quota.settled(self.id, now));
    }
}

impl Drop for CountedPieces {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let now = self.quotas.now();
        self.quotas.with(self.partition, |quota| quota.unknown(id, now));
    }
}

impl QuotaFull {
    pub(super) fn problem(self) -> Problem {
        let detail = format!("{self}; send again when some are applied");
        Problem::new(problems::QUOTA, detail).retry_after(RETRY_AFTER)
    }
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas").field("limits", &self.0.options.limits).finish_non_exhaustive()
    }
}
