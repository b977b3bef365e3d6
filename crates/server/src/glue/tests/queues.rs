//! Pieces of queues count against the quota of their tenant, and a full quota pauses that queue alone.

use consort_cluster::queue_consumer::{AdmittedRecords, QueueAdmission as _};
use consort_cluster::{NotStored, SubmitError};
use futures::FutureExt as _;

use super::*;

const QUOTA: QuotaLimits = QuotaLimits { pieces: 16, bytes: 1 << 20 };

fn small_bed() -> Bed {
    bed_with(u64::MAX, AppendError::Engine(Fault::Fatal("never".into())), QUOTA)
}

impl Bed {
    fn queue_of(&self, tenant: &str) -> PieceAdmission {
        let tenant: TenantName = tenant.parse().unwrap();
        self.glue.admission("content", &tenant).expect("a collection")
    }
}

async fn admit(
    queue: &PieceAdmission,
    pieces: u64,
    bytes: u64,
) -> Option<Box<dyn AdmittedRecords>> {
    // Virtual time passes at once where the queue waits.
    tokio::time::timeout(Duration::from_secs(30), queue.admit(0, pieces, bytes)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_pauses_the_queue_of_its_tenant_alone() {
    let bed = small_bed();
    let (one, other) = (bed.queue_of("a"), bed.queue_of("b"));
    assert_eq!(one.records_most(0), 8, "half of the share");
    let first = admit(&one, 8, 100).await.expect("the first half");
    let _second = admit(&one, 8, 100).await.expect("the second half");
    assert!(admit(&one, 1, 1).await.is_none(), "16 pieces are unapplied");
    let _other = admit(&other, 8, 100).await.expect("another tenant has a quota of its own");

    // Pieces that are not stored for certain make room.
    first.settle(Err(&SubmitError::NotStored(NotStored::Late)));
    assert!(admit(&one, 8, 100).now_or_never().flatten().is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_and_queues_of_a_tenant_share_its_quota_in_pieces_and_bytes() {
    let bed = small_bed();
    let queue = bed.queue_of("default");
    let _counted =
        admit(&queue, 1, QUOTA.bytes).await.expect("the first piece, whatever it weighs");
    assert!(admit(&queue, 1, 1).await.is_none(), "the bytes are used up");
    let request = Request::put("/glue/content/d")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from("{}"))
        .unwrap();
    let response = bed.routes.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}
