//! Bodies that cost much more to take than to send: other requests are answered meanwhile, and each bound is met
//! with an answer that says so. Unless a test says otherwise, everything runs on one thread, the intake of bodies
//! too: if a step of it did not end, nothing else would move.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use consort_cluster::{ApartRuntime, Appender, Collector, FramesInFlight, Runtime, TokioRuntime};
use consort_kernel::{Name, SeededEntropy, SystemClock, Turns, memory};
use consort_line::Dialect;
use consort_server::streams::{self, Streams};
use consort_server::views::Paths;
use consort_server::{IngressOptions, Ingresses, Metrics, Options};
use consort_views::{Definitions, Field, Schema, Stream, Unknown};
use flate2::Compression;
use flate2::write::GzEncoder;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::AsyncWriteExt as _;

use crate::client::{Answer, Running, limited, options, read_answer, start, within};

/// How many requests are answered while a hostile body is taken, at least. It is taken in thousands of steps.
const MEANWHILE: usize = 50;

/// A node's door with a stream of lines and one of JSON events, whose long bodies are taken on `intake`.
async fn server(intake: Arc<dyn Runtime>, options: Options) -> Running {
    let (log, store) = memory::open(1, Arc::new(SystemClock::default()));
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let (log, second) = (Arc::new(log), Duration::from_secs(1));
    let store = Arc::new(store);
    let appender = Appender::new(log, store.clone(), runtime.clone(), entropy.clone(), second);
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), Duration::ZERO, FramesInFlight::Joined);
    let lines = Schema::of_lines(Vec::new(), Unknown::Ignore, Dialect::Strict);
    let field = Field { name: "lift".into(), ty: "int 1..60".parse().unwrap() };
    let rides = Stream {
        route: Some("POST /lifts/{lift}".parse().unwrap()),
        ..Stream::plain(Name::new("rides").unwrap(), Schema::new(vec![field], Unknown::Ignore))
    };
    let lines = Stream::plain(Name::new("lines").unwrap(), lines);
    let streams = vec![Arc::new(lines), Arc::new(rides)];
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
    let routes = streams.routes(&mut paths);
    let express = streams.express(&mut paths);
    let long_bodies = streams.long_bodies();
    start(Options { express, long_bodies, routes, metrics, ..options }).await
}

async fn on_one_thread() -> Running {
    server(TokioRuntime::current(), options()).await
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const GZIP: &str = "content-encoding: gzip\r\n";

/// The answer to a request, which may come before all of the body is sent.
async fn send(server: &Running, request: Vec<u8>) -> Answer {
    let client = server.connect().await;
    let (reader, mut writer) = client.0.into_split();
    let sending = tokio::spawn(async move {
        // A server that has answered need not take the rest.
        let _ = writer.write_all(&request).await;
        writer
    });
    let answer = read_answer(reader).await;
    sending.abort();
    answer
}

/// The answer to a hostile request, and how many others were answered before it.
async fn attacked(server: &Running, request: Vec<u8>) -> (Answer, usize) {
    let mut attack = std::pin::pin!(send(server, request));
    let others = std::cell::Cell::new(0);
    let ask = async {
        loop {
            let health = server.ask("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert_eq!(health.status, 200);
            let ride = server
                .ask("POST /lifts/7 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}");
            assert_eq!(ride.await.status, 201);
            others.set(others.get() + 2);
        }
    };
    tokio::select! {
        answer = &mut attack => (answer, others.get()),
        () = ask => unreachable!("it asks on"),
    }
}

#[tokio::test]
async fn health_and_posts_are_answered_while_a_gzip_of_line_breaks_is_taken() {
    let server = on_one_thread().await;
    let bomb = gzip(&vec![b'\n'; 1 << 20]);
    let (answer, meanwhile) = attacked(&server, post("/write?db=lines", GZIP, &bomb)).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert!(meanwhile >= MEANWHILE, "{meanwhile}");
}

#[tokio::test]
async fn health_and_posts_are_answered_while_a_gzip_of_empty_or_tiny_members_is_taken() {
    let server = on_one_thread().await;
    for member in [&b""[..], b"\n"] {
        let bomb = gzip(member).repeat(20_000);
        let (answer, meanwhile) = attacked(&server, post("/write?db=lines", GZIP, &bomb)).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
        assert!(meanwhile >= MEANWHILE, "{meanwhile}");
    }
}

#[tokio::test]
async fn health_and_posts_are_answered_while_lines_that_are_refused_are_taken() {
    let server = on_one_thread().await;
    let body = "x\n".repeat(100_000);
    let (answer, meanwhile) = attacked(&server, post("/streams/lines", "", body.as_bytes())).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("\"rejected\":100000"), "{}", answer.body);
    assert!(meanwhile >= MEANWHILE, "{meanwhile}");
}

#[tokio::test]
async fn health_and_posts_are_answered_while_a_list_of_zeros_is_taken() {
    let server = on_one_thread().await;
    let list = format!("[0{}]", ",0".repeat(999_999));
    let (answer, meanwhile) = attacked(&server, post("/streams/rides", "", list.as_bytes())).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("\"rejected\":1000000"), "{}", answer.body);
    let first =
        r#"{"event":1,"reason":"not a JSON object: invalid type: integer `0`, expected an object"#;
    assert!(answer.body.contains(first), "{}", answer.body);
    assert_eq!(answer.body.matches("\"reason\"").count(), 100);
    assert!(meanwhile >= MEANWHILE, "{meanwhile}");
}

#[tokio::test]
async fn a_long_body_is_taken_on_the_threads_for_it_and_a_short_one_is_not() {
    let threads = ApartRuntime::start("intake", 1, Turns::Later, &TokioRuntime::current()).unwrap();
    let server = server(threads.clone(), options()).await;
    // The only thread for long bodies is held.
    let (let_go, held) = mpsc::channel::<()>();
    drop(threads.start(
        "holds",
        Box::pin(async move {
            let _ = held.recv();
        }),
    ));
    let short = format!("[{{}}{}]", ",{}".repeat(999));
    let long = format!("[{{}}{}]", ",{}".repeat(99_999));
    let lines = "m f=1\n".repeat(100);
    let gzipped = gzip(lines.as_bytes());
    for (path, body) in [("/lifts/7", &short), ("/streams/lines", &lines)] {
        assert_eq!(send(&server, post(path, "", body.as_bytes())).await.status, 201, "{path}");
    }
    let requests = [
        (post("/lifts/7", "", long.as_bytes()), 201),
        (post("/write?db=lines", GZIP, &gzipped), 204),
        (post("/write?db=lines", "", lines.repeat(200).as_bytes()), 204),
    ];
    let server = &server;
    let mut waiting: FuturesUnordered<_> = requests
        .into_iter()
        .map(|(request, status)| async move { (send(server, request).await.status, status) })
        .collect();
    for _ in 0..MEANWHILE {
        tokio::select! {
            biased;
            Some(answer) = waiting.next() => panic!("one was not taken apart: {answer:?}"),
            health = server.ask("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n") => {
                assert_eq!(health.status, 200);
            }
        }
    }
    let_go.send(()).unwrap();
    while let Some((status, expected)) = waiting.next().await {
        assert_eq!(status, expected);
    }
}

#[tokio::test]
async fn a_compressed_body_that_becomes_too_large_is_answered_413_with_the_lines_that_were_taken() {
    let server = on_one_thread().await;
    let zeros = gzip(&vec![0; 8 << 20]).repeat(33);
    let body = [gzip("m f=1\n".repeat(10).as_bytes()), zeros].concat();
    let answer = send(&server, post("/write?db=lines", GZIP, &body)).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    for words in ["10 of the lines were stored; then", "compressed body has more than 268435456"] {
        assert!(answer.body.contains(words), "{}", answer.body);
    }
    let answer = send(&server, post("/streams/lines", GZIP, &body)).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert!(answer.body.contains("\"accepted\":10"), "{}", answer.body);
    assert_eq!(answer.header("retry-after"), None);
}

#[tokio::test]
async fn bodies_that_find_no_room_in_the_nodes_memory_are_answered_503_at_once() {
    let server = start(limited(|limits| (limits.max_body, limits.max_bodies) = (1000, 1500))).await;
    let request = |length: usize| post("/echo", "", &vec![b'x'; length]);
    let mut slow = server.connect().await;
    slow.send(&String::from_utf8(request(1000)).unwrap()[..900]).await;
    // Until the server has read what there is of the first body.
    let refused = within(async {
        loop {
            let answer = send(&server, request(900)).await;
            if answer.status != 200 {
                break answer;
            }
        }
    });
    let refused = refused.await;
    assert_eq!(refused.status, 503);
    let (kind, detail) = refused.problem();
    assert_eq!(kind, "bodies-memory");
    assert!(detail.contains("1500 bytes"), "{detail}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(send(&server, request(500)).await.status, 200, "there is room for a small one");
    slow.send(&"x".repeat(1000)).await;
    assert_eq!(slow.answer().await.status, 200);
    assert_eq!(send(&server, request(900)).await.status, 200, "its room was given back");
}

#[tokio::test]
async fn lines_that_find_no_room_in_the_nodes_memory_are_answered_503() {
    let limits = limited(|limits| (limits.max_body, limits.max_bodies) = (1000, 10_000));
    let server = server(TokioRuntime::current(), limits).await;
    let lines = |count| "m f=1\n".repeat(count).into_bytes();
    assert_eq!(send(&server, post("/write?db=lines", "", &lines(1_000))).await.status, 204);
    let answer = send(&server, post("/streams/lines", "", &lines(20_000))).await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("hold 10000 bytes of bodies"), "{}", answer.body);
    assert!(answer.header("retry-after").is_some());
    assert_eq!(send(&server, post("/write?db=lines", "", &lines(1_000))).await.status, 204);
}
