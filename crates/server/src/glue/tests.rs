//! Bulk requests over a log that fails: which lines are stored, which are not, and of which it is not known. And which
//! refusals and waits count as demand.

use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use consort_cluster::{Collector, Lag, Lanes, TokioRuntime};
use consort_feeds::{FeedSpec, Payload, Retention};
use consort_glue::{CacheShare, DocumentFormat, GluePlan, PieceRecord};
use consort_kernel::memory::{self, MemoryLog};
use consort_kernel::{
    AppendError, Change, Cursor, Fault, Frame, Inlet, LogEntry, Message, Most, Partition,
    ReadError, SeededEntropy, SystemClock, Tag,
};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::quota::LEAST_PIECES;
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
    glue: Glue,
}

/// More than two frames hold, whatever goes into each.
const LINES: u64 = 10_000;

fn bed(failing: u64, error: AppendError) -> Bed {
    open(failing, error, 1_000_000, GateKind::Off)
}

/// A log that stores everything, a quota of so many pieces, and a gate.
fn bed_with(tenant_pieces: u64, gate: GateKind) -> Bed {
    open(u64::MAX, AppendError::Engine(Fault::Fatal("never".into())), tenant_pieces, gate)
}

fn open(failing: u64, error: AppendError, tenant_pieces: u64, gate: GateKind) -> Bed {
    let (log, store) = memory::open(2, Arc::new(SystemClock::default()));
    let log = Arc::new(FailingLog { log, failing, error, appended: Mutex::default() });
    let store: Arc<dyn Store> = Arc::new(store);
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let give_up = Duration::from_secs(8);
    let appender = Arc::new(Appender::new(
        log.clone(),
        store.clone(),
        runtime.clone(),
        entropy.clone(),
        give_up,
    ));
    let collector =
        Collector::new(appender.clone(), runtime.clone(), Duration::ZERO, Lanes::Unbounded);
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
        // Nothing is applied here.
        tenant_pieces,
        tenant_bytes: 1 << 40,
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
    Bed { log, glue: glue.unwrap() }
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

#[tokio::test(start_paused = true)]
async fn refusals_by_a_quota_that_the_drain_has_shrunk_count_as_demand() {
    let bed = bed_with(1_000, GateKind::Off);
    bed.shrink_quota().await;
    let _held = bed.count(LEAST_PIECES - 1);
    assert_eq!(bed.patch().await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(bed.demand(), (1, 0));
    let (status, said) = bed.post_lines(5).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
    assert_eq!(bed.demand(), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn refusals_by_a_quota_at_its_setting_are_no_demand() {
    let bed = bed_with(LEAST_PIECES, GateKind::Off);
    bed.shrink_quota().await;
    let _held = bed.count(LEAST_PIECES - 1);
    assert_eq!(bed.patch().await, StatusCode::TOO_MANY_REQUESTS);
    let (status, said) = bed.post_lines(5).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
    assert_eq!(bed.demand(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn pieces_that_wait_for_a_shrunk_quota_count_as_delayed() {
    let bed = bed_with(1_000, GateKind::Off);
    bed.shrink_quota().await;
    let held = bed.count(LEAST_PIECES - 1);
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.not_sent();
    };
    let ((status, said), ()) = tokio::join!(bed.post_lines(3), release);
    assert_eq!(status, StatusCode::ACCEPTED, "{said}");
    assert_eq!(bed.demand(), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_bulk_request_that_wait_for_the_gate_count_as_delayed() {
    let bed = bed_with(1_000_000, GateKind::Adaptive);
    let gate = bed.collection().ingress.gate();
    // The workers apply nothing.
    let mut lag = Duration::from_secs(3);
    let mut tell = async || {
        gate.lag(lag);
        lag += Duration::from_millis(100);
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    for _ in 0..20 {
        tell().await;
    }
    // Another request has taken the room of more than a second.
    let soon = tokio::time::Instant::now() + Duration::from_secs(1);
    gate.enter(150, soon).await.unwrap().done_in_bulk(150);
    let posted = bed.post_lines(10);
    tokio::pin!(posted);
    let (status, said) = loop {
        tokio::select! {
            biased;
            answer = &mut posted => break answer,
            () = tell() => {}
        }
    };
    assert_eq!(status, StatusCode::ACCEPTED, "{said}");
    assert_eq!(bed.demand(), (0, 10));
}

/// A queue that always has two messages.
#[derive(Debug)]
struct FullQueue;

#[async_trait]
impl Inlet for FullQueue {
    async fn take(&self, _: usize, _: Duration) -> Result<Vec<Message>, Fault> {
        let message = |number| Message {
            body: "{}".into(),
            id: None,
            tag: Tag::new(1, number),
            redelivered: false,
        };
        Ok((0..2).map(message).collect())
    }

    async fn settle(&self, _: &[Tag]) -> Result<(), Fault> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_for_the_workers_in_their_queue_count_as_delayed() {
    let bed = bed_with(1_000, GateKind::Off);
    let queue = bed.glue.paced("content", Arc::new(FullQueue));
    let take = async |behind: u64| {
        let lag = Lag { behind: Duration::from_millis(behind), ..Lag::default() };
        bed.collection().ingress.set_lag(lag);
        queue.take(10, Duration::from_secs(1)).await.unwrap().len()
    };
    assert_eq!((take(900).await, bed.demand()), (2, (0, 0)));
    assert_eq!((take(1_100).await, bed.demand()), (0, (0, 0)));
    assert_eq!((take(900).await, bed.demand()), (2, (0, 2)));
    assert_eq!((take(900).await, bed.demand()), (2, (0, 2)), "these did not wait");
}
