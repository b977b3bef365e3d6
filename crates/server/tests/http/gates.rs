//! What a client hears of a stream's gate. The time is the test's own, so that a rush of half a minute takes
//! a moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use consort_cluster::{Appender, Collector, FramesInFlight, TokioRuntime};
use consort_kernel::{Name, SeededEntropy, SystemClock, memory};
use consort_server::streams::{Options, Streams};
use consort_server::views::Paths;
use consort_server::{GateKind, IngressOptions, Ingresses, Metrics};
use consort_views::{Definitions, Schema, Stream};
use futures::FutureExt as _;
use futures::future::join_all;
use tower::ServiceExt as _;

/// The door of the streams `breaker` and `off`, with the gates of these names.
fn door() -> Router {
    let (log, store) = memory::open(1, Arc::new(SystemClock::default()));
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let intake = runtime.clone();
    let second = Duration::from_secs(1);
    let store = Arc::new(store);
    let appender =
        Appender::new(Arc::new(log), store.clone(), runtime.clone(), entropy.clone(), second);
    let linger = Duration::from_millis(1);
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), linger, FramesInFlight::Unbounded);
    let metrics = &mut Metrics::new("0");
    let ingresses = Ingresses::new(IngressOptions { collector, store, runtime, entropy, metrics });
    let stream = |name| Arc::new(Stream::plain(Name::new(name).unwrap(), Schema::default()));
    let streams = vec![stream("breaker"), stream("off")];
    let streams = Streams::new(Options {
        definitions: &Definitions { streams, views: Vec::new() },
        gates: BTreeMap::from([
            ("breaker".into(), GateKind::Breaker),
            ("off".into(), GateKind::Off),
        ]),
        ingresses: &ingresses,
        intake,
    });
    streams.routes(&mut Paths::default())
}

async fn post(door: &Router, stream: &str) -> Response {
    let request = Request::post(format!("/streams/{stream}")).body(Body::from("{}")).unwrap();
    door.clone().oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_post_that_the_breaker_would_hold_for_too_long_is_told_when_to_come_again() {
    let door = door();
    let mut refused = Vec::new();
    // 1,400 posts a second, whose clients do not wait for the answer. After 28 s waits of up to 16 s
    // are drawn, and no post is held for more than 10 s.
    for step in 0..64 {
        for _ in 0..700 {
            if let Some(response) = post(&door, "breaker").now_or_never() {
                assert!(step >= 52, "{} in step {step}", response.status());
                refused.push(response);
            }
        }
        tokio::time::advance(Duration::from_millis(500)).await;
    }
    assert!(!refused.is_empty(), "nobody was refused");
    for response in refused {
        assert_eq!(response.status(), 503);
        let header = |name| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "application/problem+json");
        let seconds: u64 = header("retry-after").parse().unwrap();
        assert!((1..=13).contains(&seconds), "{seconds}");
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["type"], "urn:consort:problem:overloaded");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("try again in {seconds} s")), "{detail}");
    }
    // When the rush is over, so are the refusals.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(post(&door, "breaker").await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_off_lets_everybody_in() {
    let door = door();
    let answers = join_all((0..6_000).map(|_| post(&door, "off"))).await;
    let accepted = answers.iter().filter(|answer| answer.status() == 201).count();
    assert_eq!(accepted, answers.len());
}
