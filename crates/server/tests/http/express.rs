//! The short way of plain posts: it answers as the router does, whatever is posted, and what is not plain it
//! leaves alone.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use consort_cluster::{Appender, Collector, FramesInFlight, TokioRuntime};
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Name, Partition, ReadError,
    SeededEntropy, SystemClock, memory,
};
use consort_server::streams::{self, Streams};
use consort_server::views::Paths;
use consort_server::{Express, IngressOptions, Ingresses, Limits, Metrics, Options, Tokens};
use consort_views::{Definitions, Field, Route, Schema, Stream, Unknown};

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;

use crate::client::{Answer, Running, SHORT, limited, options, start};
use crate::half_close::reset;

const TOKEN: &str = "a-token-of-this-test";

/// By which ways the events of a stream come in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Router,
    Both,
    /// The router knows nothing of the stream.
    Short,
}

async fn server(ways: Ways, options: Options) -> Running {
    let (log, _) = memory::open(1, Arc::new(SystemClock::default()));
    server_on(Arc::new(log), ways, options).await
}

async fn server_on(log: Arc<dyn Log>, ways: Ways, options: Options) -> Running {
    let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let intake = runtime.clone();
    let second = Duration::from_secs(1);
    let store = Arc::new(store);
    let appender = Appender::new(log, store.clone(), runtime.clone(), entropy.clone(), second);
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), Duration::ZERO, FramesInFlight::Joined);
    let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
    let fields = [("lift", "int 1..60"), ("season", "text 1..8"), ("time", "int 0..1439")];
    let schema = Schema::new(fields.map(field).into(), Unknown::Reject);
    let stream = Stream {
        route: Some("POST /lifts/{lift}/seasons/{season}".parse().unwrap()),
        ..Stream::plain(Name::new("rides").unwrap(), schema)
    };
    let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
    let texts = |names: [&'static str; 2]| names.map(|name| field((name, "text"))).into();
    let other = |name: &str, route: &str, fields: [&'static str; 2]| Stream {
        route: Some(route.parse().unwrap()),
        ..Stream::plain(Name::new(name).unwrap(), Schema::new(texts(fields), Unknown::Ignore))
    };
    // A path that fits what others have, and one that is more literal than that of the rides.
    let streams = vec![
        Arc::new(stream),
        Arc::new(other("any", "POST /{first}/{second}", ["first", "second"])),
        Arc::new(other("top", "POST /lifts/{lift}/seasons/top", ["lift", "name"])),
    ];
    let mut metrics = Metrics::new("0");
    let ingresses = Ingresses::new(IngressOptions {
        collector,
        store,
        runtime,
        entropy,
        metrics: &mut metrics,
    });
    let streams = Streams::new(streams::Options {
        definitions: &Definitions { streams, views: Vec::new() },
        gates: BTreeMap::new(),
        ingresses: &ingresses,
        intake,
    });
    let mut paths = Paths::default();
    let routes = match ways {
        Ways::Short => Router::new(),
        Ways::Router | Ways::Both => {
            let routes = streams.routes(&mut paths);
            // As a view has it.
            let best: Route = "GET /lifts/{lift}/seasons/best".parse().unwrap();
            routes.route(paths.of(&best), get(|| async { "best" }))
        }
    };
    let express = match ways {
        Ways::Router => Express::default(),
        Ways::Both | Ways::Short => streams.express(&mut paths),
    };
    let long_bodies = streams.long_bodies();
    start(Options { express, long_bodies, routes, metrics, ..options }).await
}

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

/// What an answer says, without what differs from one event to the next.
fn said(answer: &Answer) -> (u16, Option<&str>, bool, Option<&str>, &str) {
    let position = answer.header("consort-position").is_some();
    let (kind, closes) = (answer.header("content-type"), answer.header("connection"));
    let body = answer.body.split("\"position\"").next().unwrap_or_default();
    (answer.status, kind, position, closes, body)
}

#[tokio::test]
async fn the_short_way_answers_as_the_router_does() {
    let (router, both) =
        (server(Ways::Router, options()).await, server(Ways::Both, options()).await);
    let (path, json) = ("/lifts/7/seasons/2026", "content-type: application/json\r\n");
    let large = format!("{{\"time\":1{}}}", " ".repeat(20_000));
    let cases = [
        (post(path, json, r#"{"time":5}"#), 201),
        (post(path, "", r#"{"time":5}"#), 201),
        (post(path, "idempotency-key: k\r\n", r#"{"time":5}"#), 201),
        (post(path, "idempotency-key: \u{e9}\r\n", r#"{"time":5}"#), 400),
        (post(path, json, r#"[{"time":5},{"time":6}]"#), 201),
        (post(path, json, r#"[{"time":5},{"time":9999}]"#), 201),
        (post(path, "idempotency-key: k\r\n", r#"[{"time":5}]"#), 400),
        (post(path, json, r#"{"time":9999}"#), 400),
        (post(path, json, r#"{"time":5,"lift":7}"#), 400),
        (post(path, json, r#"{"tiem":5}"#), 400),
        (post(path, json, "{"), 400),
        (post(path, json, ""), 400),
        (post(path, json, &large), 201),
        (post(path, "content-type: text/html\r\n", r#"{"time":5}"#), 415),
        (post(path, "content-type: application/x-ndjson\r\n", r#"{"time":5}"#), 415),
        (post("/lifts/61/seasons/2026", json, r#"{"time":5}"#), 400),
        (post("/lifts/x/seasons/2026", json, r#"{"time":5}"#), 400),
        (post("/lifts/7/seasons/20%32%36", json, r#"{"time":5}"#), 201),
        (post("/lifts/7/seasons/%ff", json, r#"{"time":5}"#), 400),
        (post("/lifts/7/seasons/2026?x=y", json, r#"{"time":5}"#), 201),
        (post("/lifts/7/seasons/2026/", json, r#"{"time":5}"#), 404),
        (post("/lifts", json, r#"{"time":5}"#), 404),
        (post("/streams/rides", json, r#"{"lift":7,"season":"x","time":5}"#), 201),
        (post("/streams/rides", json, "{}"), 400),
        (post("/lifts/rides", json, "{}"), 201),
        (post("/lifts/7/seasons/top", json, r#"{"name":"x"}"#), 201),
        (post("/lifts/7/seasons/top", json, r#"{"time":5}"#), 400),
        (post("/lifts/7/seasons/best", json, r#"{"time":5}"#), 405),
        (format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"), 405),
        (
            format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
                 a\r\n{{\"time\":5}}\r\n0\r\n\r\n"
            ),
            201,
        ),
    ];
    for (request, status) in cases {
        let (long, short) = (router.ask(&request).await, both.ask(&request).await);
        assert_eq!(said(&short), said(&long), "{request}");
        assert_eq!(short.status, status, "{request}\n{short:?}");
    }
    let counted = |metrics: &str| {
        let of_posts = |line: &&str| line.contains("/lifts/") && !line.contains("_seconds");
        let mut lines: Vec<String> = metrics.lines().filter(of_posts).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (long, short) = (counted(&router.metrics().await), counted(&both.metrics().await));
    assert_eq!(short, long, "each request counts once, by its route and status");
    assert!(!short.is_empty());
}

#[tokio::test]
async fn plain_posts_take_the_short_way_and_others_do_not() {
    let server = server(Ways::Short, options()).await;
    let path = "/lifts/7/seasons/2026";
    let plain = server.ask(&post(path, "", r#"{"time":5}"#)).await;
    assert_eq!((plain.status, plain.body.as_str()), (201, r#"{"accepted":1}"#));
    let invalid = server.ask(&post(path, "", r#"{"time":-1}"#)).await;
    assert_eq!((invalid.status, invalid.problem().0.as_str()), (400, "invalid-event"));
    for (path, headers) in [
        ("/lifts/0/seasons/2026", ""),
        ("/lifts/%37/seasons/2026", ""),
        (path, "content-type: a/b\r\n"),
    ] {
        let answer = server.ask(&post(path, headers, r#"{"time":5}"#)).await;
        assert_eq!(answer.status, 404, "{path} {headers}");
    }
}

#[tokio::test]
async fn a_connection_goes_on_whatever_it_brings_next() {
    let server = server(Ways::Both, options()).await;
    let plain = || post("/lifts/7/seasons/2026", "", r#"{"time":5}"#);
    let mut client = server.connect().await;
    // Three at once, one of them with a line break behind it, and a part of the fourth.
    let (begin, end) = (plain()[..30].to_owned(), plain()[30..].to_owned());
    client.send(&(plain() + "\r\n" + &plain() + &plain() + &begin)).await;
    for _ in 0..3 {
        assert_eq!(client.answer().await.status, 201);
    }
    client.send(&end).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("connection"), None);
    let date = answer.header("date").expect("a date");
    assert!(date.ends_with("gmt") && date.len() == 29, "{date}");
    // From here on the connection is hyper's, with all that has come of it.
    let invalid = post("/lifts/7/seasons/2026", "", r#"{"time":-1}"#);
    let ask = "GET /lifts/7/seasons/best HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.send(&(invalid + ask + &plain())).await;
    assert_eq!(client.answer().await.status, 400);
    assert_eq!(client.answer().await.body, "best");
    assert_eq!(client.answer().await.status, 201);
    let last = "POST /lifts/7/seasons/2026 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-length: 10\r\n\r\n{\"time\":5}";
    client.send(last).await;
    assert_eq!(client.answer().await.status, 201);
    assert!(client.closed_silently().await);
    assert_eq!(accepted(&server).await, 6);
}

/// How many events the stream of rides has taken.
async fn accepted(server: &Running) -> u64 {
    let metrics = server.metrics().await;
    let begin = "consort_stream_accepted_total{stream=\"rides\"} ";
    let found = metrics.lines().find_map(|line| line.strip_prefix(begin));
    found.unwrap_or_else(|| panic!("{metrics}")).parse().expect("a number")
}

/// A log that takes nothing.
#[derive(Debug)]
struct Stuck;

#[async_trait]
impl Log for Stuck {
    async fn append(&self, _: &Partition, _: &Frame) -> Result<(), AppendError> {
        pending().await
    }

    async fn read(
        &self,
        _: &Partition,
        _: &Cursor,
        _: Most,
        _: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        pending().await
    }

    async fn first(&self, _: &Partition) -> Result<u64, Fault> {
        pending().await
    }

    async fn trim(&self, _: &Partition, _: u64) -> Result<(), Fault> {
        pending().await
    }

    async fn ping(&self) -> Result<(), Fault> {
        pending().await
    }
}

#[tokio::test]
async fn a_client_that_resets_the_connection_while_its_post_waits_takes_no_room() {
    let server = server_on(Arc::new(Stuck), Ways::Both, options()).await;
    let mut client = server.connect().await;
    client.send(&post("/lifts/7/seasons/2026", "", r#"{"time":5}"#)).await;
    // This one ends its sending side first, by which it has not left.
    let mut ending = server.connect().await;
    ending.send(&post("/lifts/7/seasons/2026", "", r#"{"time":5}"#)).await;
    ending.0.shutdown().await.unwrap();
    // What it sends beyond that is no sign of its leaving.
    let mut other = server.connect().await;
    other.send(&post("/lifts/7/seasons/2026", "", r#"{"time":5}"#).repeat(2)).await;
    let open = |metrics: &str| {
        let begin = "consort_http_connections_open ";
        let found = metrics.lines().find_map(|line| line.strip_prefix(begin));
        found.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    assert_eq!(open(&server.metrics().await), 4);
    for (leaving, stay) in [(client, 3), (ending, 2)] {
        reset(leaving.0);
        // Sooner than a post is given up.
        let left = async {
            while open(&server.metrics().await) != stay {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), left).await.expect("it is noticed");
    }
    drop(other);
}

#[tokio::test]
async fn hosts_and_pages_are_checked_by_either_way_alike() {
    let (router, both) =
        (server(Ways::Router, options()).await, server(Ways::Both, options()).await);
    let request = |headers: &str| {
        format!(
            "POST /lifts/7/seasons/2026 HTTP/1.1\r\n{headers}content-length: 10\r\n\r\n{{\"time\":5}}"
        )
    };
    let address = both.handle.address();
    for (headers, status) in [
        (format!("host: {address}\r\n"), 201),
        ("host: localhost:7400\r\n".into(), 201),
        ("host: [::1]\r\n".into(), 201),
        ("host: evil.example\r\n".into(), 421),
        ("".into(), 400),
        ("host: localhost\r\nhost: localhost\r\n".into(), 400),
        ("host: localhost x\r\n".into(), 400),
        ("host:\r\n".into(), 400),
        ("host: localhost\r\norigin: http://localhost\r\n".into(), 201),
        ("host: localhost\r\norigin: http://localhost:81\r\n".into(), 403),
        ("host: localhost\r\norigin: null\r\n".into(), 403),
        ("host: localhost\r\nsec-fetch-site: same-origin\r\n".into(), 201),
        ("host: localhost\r\nsec-fetch-site: cross-site\r\n".into(), 403),
        ("host: localhost\r\nsec-fetch-site: same-site\r\n".into(), 403),
    ] {
        let request = request(&headers);
        for server in [&router, &both] {
            assert_eq!(server.ask(&request).await.status, status, "{headers}");
            // The same behind a request that made the connection hyper's.
            let mut client = server.connect().await;
            client.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert_eq!(client.answer().await.status, 200);
            client.send(&request).await;
            assert_eq!(client.answer().await.status, status, "{headers}");
        }
    }
    assert_eq!(accepted(&both).await, 10);
}

#[tokio::test]
async fn clients_that_end_their_sending_side_get_their_answers_by_either_way() {
    for ways in [Ways::Router, Ways::Both] {
        let server = server(ways, options()).await;
        let request = post("/lifts/7/seasons/2026", "", r#"{"time":5}"#);
        let one = || async {
            let mut client = server.connect().await;
            client.send(&request).await;
            client.0.shutdown().await.unwrap();
            client.answer().await.status
        };
        let answers = join_all((0..50).map(|_| one())).await;
        assert_eq!(answers, [201; 50]);
        assert_eq!(accepted(&server).await, 50);
    }
}

#[tokio::test]
async fn a_stop_closes_connections_at_rest_and_finishes_what_has_begun() {
    let server = server(Ways::Both, options()).await;
    let plain = post("/lifts/7/seasons/2026", "", r#"{"time":5}"#);
    let (mut at_rest, mut begun) = (server.connect().await, server.connect().await);
    let mut first = server.connect().await;
    first.send(&plain[..30]).await;
    at_rest.send(&plain).await;
    assert_eq!(at_rest.answer().await.status, 201);
    begun.send(&plain).await;
    assert_eq!(begun.answer().await.status, 201);
    let part = plain.len() - 4;
    begun.send(&plain[..part]).await;
    // The server has read that part when it has answered what came after it.
    assert_eq!(server.ask(&plain).await.status, 201);
    let stopped = server.tell_to_stop();
    assert!(at_rest.closed_silently().await);
    begun.send(&plain[part..]).await;
    let last = begun.answer().await;
    assert_eq!((last.status, last.header("connection")), (201, Some("close")));
    assert!(begun.closed_silently().await);
    first.send(&plain[30..]).await;
    let last = first.answer().await;
    assert_eq!((last.status, last.header("connection")), (201, Some("close")));
    assert_eq!(stopped.await.unwrap().unfinished, 0);
}

#[tokio::test]
async fn the_short_way_asks_for_the_token_too() {
    let tokens = Tokens::new(vec![TOKEN.into()]).unwrap();
    let server = server(Ways::Both, Options { tokens, ..options() }).await;
    let path = "/lifts/7/seasons/2026";
    let with =
        |token: &str| post(path, &format!("authorization: Bearer {token}\r\n"), r#"{"time":5}"#);
    assert_eq!(server.ask(&post(path, "", r#"{"time":5}"#)).await.status, 401);
    assert_eq!(server.ask(&with("another-token-here")).await.status, 401);
    assert_eq!(server.ask(&with(TOKEN)).await.status, 201);
}

#[tokio::test]
async fn a_body_that_does_not_come_by_the_short_way_is_answered_408() {
    let server = server(Ways::Short, limited(|limits: &mut Limits| limits.body = SHORT)).await;
    let mut client = server.connect().await;
    client
        .send("POST /lifts/7/seasons/2026 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 408);
    assert_eq!(answer.problem().0, "body-timeout");
    assert!(client.closed_silently().await);
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"consort_http_timeouts_total{reason="body"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_body_that_comes_in_two_parts_is_one_event() {
    let server = server(Ways::Short, options()).await;
    let mut client = server.connect().await;
    client
        .send("POST /lifts/7/seasons/2026 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{\"ti")
        .await;
    // The server has the first part, and waits for the other, when it has answered somebody else.
    assert_eq!(server.ask(&post("/lifts/7/seasons/2026", "", r#"{"time":5}"#)).await.status, 201);
    client.send("me\":5}").await;
    assert_eq!(client.answer().await.status, 201);
}

#[tokio::test]
async fn a_body_that_is_larger_than_allowed_does_not_come_by_the_short_way() {
    let server = server(Ways::Both, limited(|limits: &mut Limits| limits.max_body = 9)).await;
    let answer = server.ask(&post("/lifts/7/seasons/2026", "", r#"{"time":5}"#)).await;
    assert_eq!((answer.status, answer.problem().0.as_str()), (413, "body-too-large"));
}
