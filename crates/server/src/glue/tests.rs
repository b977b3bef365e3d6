//! Bulk requests over a log that fails: which lines are stored, which are not, and of which it is not known. And which
//! refusals and waits count as demand.

mod answers;
mod demand;
mod queues;
mod store;

use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use consort_cluster::{Collector, FramesInFlight, TokioRuntime};
use consort_feeds::{FeedSpec, Payload, Retention};
use consort_glue::{CacheShare, DocumentFormat, GluePlan, PieceRecord};
use consort_kernel::memory::{self, MemoryLog};
use consort_kernel::{
    AppendError, Change, Cursor, Fault, Frame, LogEntry, Most, Partition, ReadError, SeededEntropy,
    SystemClock,
};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use self::store::WatchedStore;
use super::quota::{LEAST_PIECES, QuotaLimits};
use super::*;
use crate::cluster::Resolvers;
use crate::ingress::IngressOptions;

/// A log that fails one frame for good.
#[derive(Debug)]
struct FailingLog {
    log: MemoryLog,
    failing: u64,
    error: AppendError,
    appended: Mutex<u64>,
}

#[async_trait]
impl Log for FailingLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        let number = {
            let mut appended = self.appended.lock();
            *appended += 1;
            *appended - 1
        };
        match number == self.failing {
            true => Err(self.error.clone()),
            false => self.log.append(at, frame).await,
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.log.read(at, after, most, wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.log.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.log.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.log.ping().await
    }
}

#[derive(Debug)]
struct PlainPayload;

impl Payload for PlainPayload {
    fn name(&self) -> &'static str {
        "glue"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

struct Bed {
    log: Arc<FailingLog>,
    store: Arc<WatchedStore>,
    glue: Glue,
    routes: Router,
}

/// More than two frames hold, whatever goes into each.
const LINES: u64 = 10_000;

fn bed(failing: u64, error: AppendError) -> Bed {
    let unbounded = QuotaLimits { pieces: 1_000_000, bytes: 1 << 40 };
    bed_with(failing, error, unbounded)
}

/// Nothing is applied here, so whatever is admitted counts on.
fn bed_with(failing: u64, error: AppendError, limits: QuotaLimits) -> Bed {
    open(failing, error, limits, GateKind::Adaptive)
}

fn open(failing: u64, error: AppendError, limits: QuotaLimits, gate: GateKind) -> Bed {
    let (log, store) = memory::open(2, Arc::new(SystemClock::default()));
    let log = Arc::new(FailingLog { log, failing, error, appended: Mutex::default() });
    let watched = Arc::new(WatchedStore::new(store));
    let store: Arc<dyn Store> = watched.clone();
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let give_up = Duration::from_secs(8);
    let appender = Arc::new(Appender::new(
        log.clone(),
        store.clone(),
        runtime.clone(),
        entropy.clone(),
        give_up,
    ));
    let collector = Collector::new(
        appender.clone(),
        runtime.clone(),
        Duration::ZERO,
        FramesInFlight::Unbounded,
    );
    let metrics = &mut Metrics::new("0");
    let ingresses = Ingresses::new(IngressOptions {
        collector,
        store: store.clone(),
        runtime: runtime.clone(),
        entropy,
        metrics,
    });
    let cluster = Cluster::new(Resolvers::default(), metrics);
    let definition = Collection {
        tenant_pieces: limits.pieces,
        tenant_bytes: limits.bytes,
        ..Collection::new("content", DocumentFormat::Json, 1)
    };
    let plan = GluePlan::new(definition.clone(), 2, Arc::new(CacheShare::new(0))).unwrap();
    let feed = FeedSpec {
        path: "glue/content".to_owned(),
        feed: "glue.content".parse().unwrap(),
        payload: Arc::new(PlainPayload),
        retention: Retention::default(),
        sinks: Vec::new(),
    };
    let collection = CollectionOptions {
        definition: Arc::new(definition),
        gate,
        feed: Subscription::new(store.clone(), Arc::new(feed)),
        plan: PlanOf::new(Arc::new(plan)),
        queues: Vec::new(),
    };
    let glue = Glue::new(Options {
        collections: vec![collection],
        tenants: Vec::new(),
        ingresses: &ingresses,
        store,
        log: log.clone(),
        runtime: runtime.clone(),
        intake: runtime,
        appender,
        cluster,
        pipeline: "all".parse().unwrap(),
        metrics,
    });
    let glue = glue.unwrap();
    Bed { log, store: watched, routes: glue.routes(), glue }
}

impl Bed {
    /// Posts numbered pieces of 1 KiB, so that a batch of 256 KiB holds about 250 of them.
    async fn post(&self) -> (StatusCode, Value) {
        self.post_lines(LINES).await
    }

    async fn post_lines(&self, lines: u64) -> (StatusCode, Value) {
        let text = "x".repeat(1_000);
        let line = |n: u64| {
            let piece = json!({"id": "d", "form": "merge-patch", "piece": {"n": n, "t": text}});
            format!("{piece}\n")
        };
        let body: String = (1..=lines).map(line).collect();
        let request = Request::post("/glue/content")
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(Body::from(body))
            .unwrap();
        self.send(request).await
    }

    /// One piece in a request of its own.
    async fn patch(&self) -> StatusCode {
        let request = Request::patch("/glue/content/d")
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(r#"{"n":1}"#))
            .unwrap();
        self.send(request).await.0
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, Value) {
        let response = self.glue.routes().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn collection(&self) -> &OpenCollection {
        self.glue.collection("content").unwrap()
    }

    /// What counts as demand so far: refused and delayed.
    fn demand(&self) -> (u64, u64) {
        let demand = self.collection().ingress.demand();
        (demand.refused(), demand.delayed())
    }

    /// Stores a piece that is never applied, and waits until the quota has shrunk to the least for it.
    async fn shrink_quota(&self) {
        assert_eq!(self.patch().await, StatusCode::ACCEPTED);
        while self.collection().quotas.share(0).pieces > LEAST_PIECES {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Pieces of the tenant that are on their way into the log.
    fn count(&self, pieces: u64) -> quotas::CountedPieces {
        self.collection().quotas.admit(0, &TenantName::default(), pieces, 0).unwrap()
    }

    /// The numbers of the pieces in the log, in its order.
    async fn stored(&self) -> Vec<u64> {
        let (mut numbers, mut cursor) = (Vec::new(), Cursor::START);
        let at = Partition::new("glue.content".parse().unwrap(), 0);
        loop {
            let page = self.log.read(&at, &cursor, Most::default(), Duration::ZERO).await.unwrap();
            let Some(last) = page.last() else { return numbers };
            cursor = last.cursor();
            for record in page.iter().flat_map(|entry| entry.frame.records.iter()) {
                let piece = PieceRecord::decode(record).unwrap();
                let content: Value = serde_json::from_slice(piece.content).unwrap();
                numbers.push(content["n"].as_u64().unwrap());
            }
        }
    }
}

/// The lines in a list of ranges.
fn lines(ranges: &Value) -> Vec<u64> {
    let ranges = ranges.as_array().map(Vec::as_slice).unwrap_or_default();
    let range = |range: &Value| range[0].as_u64().unwrap()..=range[1].as_u64().unwrap();
    ranges.iter().flat_map(range).collect()
}

#[tokio::test]
async fn behind_a_failed_frame_no_line_is_stored_and_the_answer_names_them() {
    let fatal = Fault::Fatal("on purpose".into());
    let bed = bed(1, AppendError::Engine(fatal));
    let (status, said) = bed.post().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    assert_eq!(said["type"], "urn:consort:problem:not-stored");
    let stored = bed.stored().await;
    assert!(!stored.is_empty() && stored.len() < LINES as usize);
    assert_eq!(said["accepted"], stored.len());
    let behind: Vec<u64> = (stored.len() as u64 + 1..=LINES).collect();
    assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>(), "a beginning of the request");
    assert_eq!(lines(&said["not_stored"]), behind);
    assert_eq!(said["not_stored"].as_array().unwrap().len(), 1, "one range: {said}");
    assert_eq!(said.get("unknown"), None);
}

#[tokio::test]
async fn lines_of_a_frame_of_unknown_outcome_are_named_apart() {
    let fatal = Fault::Fatal("on purpose".into());
    let bed = bed(1, AppendError::Unknown(fatal));
    let (status, said) = bed.post().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    assert_eq!(said["type"], "urn:consort:problem:outcome-unknown");
    let stored = bed.stored().await;
    assert_eq!(said["accepted"], stored.len());
    let (unknown, not_stored) = (lines(&said["unknown"]), lines(&said["not_stored"]));
    assert!(!unknown.is_empty() && !not_stored.is_empty(), "{said}");
    assert_eq!([stored, unknown, not_stored].concat(), (1..=LINES).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_request_whose_frames_all_arrive_is_accepted_whole() {
    let bed = bed(u64::MAX, AppendError::Engine(Fault::Fatal("never".into())));
    let (status, said) = bed.post().await;
    assert_eq!((status, &said["accepted"]), (StatusCode::ACCEPTED, &json!(LINES)), "{said}");
    assert_eq!(bed.stored().await, (1..=LINES).collect::<Vec<_>>());
}
