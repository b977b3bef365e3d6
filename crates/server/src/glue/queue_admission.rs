//! Pieces of a queue count against the quota of its tenant, as those of requests do: a full quota pauses the queue, and
//! its messages wait in the broker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::queue_consumer::{AdmittedRecords, QueueAdmission};
use consort_cluster::{Place, SubmitError};
use tokio::time::Instant;

use super::open::OpenCollection;
use super::quotas::CountedPieces;
use crate::gate::Admission;
use crate::ingress::POST_WITHIN;
use crate::tenants::TenantName;

/// How long a paused queue waits before it asks again. Shorter than a batch takes to be applied, so that the quota does
/// not run empty meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(25);

/// Admits the pieces of one queue: by the quota of its tenant, then by the gate of the collection.
pub struct PieceAdmission {
    collection: Arc<OpenCollection>,
    tenant: TenantName,
}

/// Pieces that count until the log has answered and they are applied.
struct AdmittedPieces {
    counted: CountedPieces,
    admission: Admission,
    pieces: u64,
}

impl PieceAdmission {
    pub(super) fn new(collection: Arc<OpenCollection>, tenant: TenantName) -> PieceAdmission {
        PieceAdmission { collection, tenant }
    }

    async fn count(&self, partition: u32, pieces: u64, bytes: u64) -> CountedPieces {
        let mut is_delayed = false;
        loop {
            match self.collection.quotas.admit(partition, &self.tenant, pieces, bytes) {
                Ok(counted) => return counted,
                Err(full) => {
                    // The messages wait in the broker and are not sent again: demand is noted once.
                    if full.is_overload() && !std::mem::replace(&mut is_delayed, true) {
                        self.collection.ingress.demand().note_delayed(pieces);
                    }
                    self.collection.runtime.sleep(ASK_EVERY).await;
                }
            }
        }
    }

    async fn enter(&self, pieces: u64) -> Admission {
        let ingress = &self.collection.ingress;
        let mut is_delayed = false;
        loop {
            match ingress.gate().enter(pieces, Instant::now() + POST_WITHIN).await {
                Ok(admission) => return admission,
                Err(_) => {
                    // The messages wait in the broker and are not sent again: demand is noted once.
                    if !std::mem::replace(&mut is_delayed, true) {
                        ingress.demand().note_delayed(pieces);
                    }
                    self.collection.runtime.sleep(ASK_EVERY).await;
                }
            }
        }
    }
}

#[async_trait]
impl QueueAdmission for PieceAdmission {
    /// Half of the tenant's share, so that the next submission is under way while one is applied.
    fn records_most(&self, partition: u32) -> usize {
        let share = self.collection.quotas.share(partition).pieces;
        usize::try_from(share / 2).unwrap_or(usize::MAX).max(1)
    }

    async fn admit(&self, partition: u32, records: u64, bytes: u64) -> Box<dyn AdmittedRecords> {
        let counted = self.count(partition, records, bytes).await;
        let admission = self.enter(records).await;
        Box::new(AdmittedPieces { counted, admission, pieces: records })
    }
}

impl AdmittedRecords for AdmittedPieces {
    fn settle(self: Box<Self>, result: Result<&Place, &SubmitError>) {
        let AdmittedPieces { counted, admission, pieces } = *self;
        admission.done_in_bulk(if result.is_ok() { pieces } else { 0 });
        counted.settle(result);
    }
}

impl fmt::Debug for PieceAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceAdmission").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}
