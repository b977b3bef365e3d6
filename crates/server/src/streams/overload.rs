//! What clients that write many lines hear of an overloaded stream, in paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use consort_cluster::{Appender, Collector, FramesInFlight, TokioRuntime};
use consort_kernel::memory::MemoryLog;
use consort_kernel::{Cursor, Log as _, Most, Name, Partition, SeededEntropy, SystemClock, memory};
use consort_line::Dialect;
use consort_views::{Definitions, Schema, Stream, Unknown};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::{Options, Streams};
use crate::cluster::{Cluster, Resolvers};
use crate::gate::{Gate, GateKind};
use crate::ingress::{IngressOptions, Ingresses, POST_WITHIN};
use crate::metrics::Metrics;
use crate::views::Paths;

/// More than a lagging stream is let have at once, and less than one step of a post.
const LINES: usize = 3_000;
/// How often a node tells its gates how far the stream is behind.
const TOLD_EVERY: Duration = Duration::from_millis(250);

struct Bed {
    log: Arc<MemoryLog>,
    ingresses: Ingresses,
    door: Router,
    gate: Gate,
}

fn bed() -> Bed {
    let (log, store) = memory::open(1, Arc::new(SystemClock::default()));
    let (log, store) = (Arc::new(log), Arc::new(store));
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let intake = runtime.clone();
    let second = Duration::from_secs(1);
    let appender =
        Appender::new(log.clone(), store.clone(), runtime.clone(), entropy.clone(), second);
    let schema = Schema::of_lines(Vec::new(), Unknown::Ignore, Dialect::Strict);
    let stream = Stream::plain(Name::new("events").unwrap(), schema);
    let linger = Duration::from_millis(1);
    let definitions = Definitions { streams: vec![Arc::new(stream)], views: Vec::new() };
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), linger, FramesInFlight::Unbounded);
    let metrics = &mut Metrics::new("0");
    let ingresses = Ingresses::new(IngressOptions { collector, store, runtime, entropy, metrics });
    let streams = Streams::new(Options {
        definitions: &definitions,
        gates: BTreeMap::from([("events".into(), GateKind::Adaptive)]),
        ingresses: &ingresses,
        intake,
    });
    let gate = streams.entrances()["events"].ingress.gate().clone();
    Bed { log, ingresses, door: streams.routes(&mut Paths::default()), gate }
}

impl Bed {
    async fn write(&self, to: &str) -> Response {
        let body = "cpu,host=a value=1\n".repeat(LINES);
        let request = Request::post(to).body(Body::from(body)).unwrap();
        self.door.clone().oneshot(request).await.unwrap()
    }

    async fn stored(&self) -> usize {
        let at = Partition::new("events".parse().unwrap(), 0);
        let all = self.log.read(&at, &Cursor::START, Most::default(), Duration::ZERO).await;
        all.unwrap().iter().map(|entry| entry.frame.records.len()).sum()
    }

    /// Tells the gate the lag at each moment, until the answer is ended.
    fn lagging(&self, lag: impl Fn(Duration) -> Duration + Send + 'static) -> JoinHandle<()> {
        let (gate, began) = (self.gate.clone(), Instant::now());
        tokio::spawn(async move {
            loop {
                gate.lag(lag(began.elapsed()));
                sleep(TOLD_EVERY).await;
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn writers_of_lines_hear_of_overload_in_the_words_of_their_database() {
    let bed = bed();
    // Nothing is applied.
    let lagging = bed.lagging(|elapsed| elapsed + Duration::from_secs(10));
    sleep(2 * TOLD_EVERY).await;
    assert_eq!(bed.write("/write?db=events").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(bed.stored().await, LINES);
    for (to, words) in [("/write?db=events", "error"), ("/api/v2/write?bucket=events", "message")] {
        let came = Instant::now();
        let refused = bed.write(to).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{to}");
        assert!(came.elapsed() <= POST_WITHIN, "held for {:?}", came.elapsed());
        let after = refused.headers()[header::RETRY_AFTER].to_str().unwrap();
        assert!(after.parse::<u64>().is_ok_and(|seconds| seconds > 0), "{after}");
        let body = to_bytes(refused.into_body(), 10_000).await.unwrap();
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert!(told[words].as_str().is_some_and(|text| text.contains("behind")), "{told}");
        assert_eq!(bed.stored().await, LINES, "nothing of what is refused is stored");
    }
    lagging.abort();
    let well = bed.lagging(|_| Duration::ZERO);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.write("/write?db=events").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(bed.stored().await, 2 * LINES);
    well.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_works_on_is_taken_for_one_that_is_behind() {
    let (bed, mut metrics) = (bed(), Metrics::new("0"));
    // A node that has not joined: it knows of no worker, its own or another's.
    let cluster = Cluster::new(Resolvers::default(), &mut metrics);
    bed.ingresses.follow_lag(cluster);
    sleep(Duration::from_secs(4)).await;
    for _ in 0..10 {
        let soon = bed.write("/write?db=events").await;
        assert_eq!(soon.status(), StatusCode::NO_CONTENT, "an owner may have died");
    }
    sleep(Duration::from_secs(10)).await;
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(bed.write("/write?db=events").await.status());
    }
    let refused = answers.iter().filter(|status| **status == StatusCode::SERVICE_UNAVAILABLE);
    // A hundred lines a second are let in whatever the lag, and refusing takes its time.
    assert!(refused.count() >= 5, "{answers:?}");
}
