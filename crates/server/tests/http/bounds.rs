//! Slow, greedy and numerous clients: each meets its bound, and the server goes on serving the
//! others.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{SHORT, limited, options, start, within};
use consort_server::axum::http::HeaderMap;
use consort_server::axum::routing::get;
use consort_server::{BindError, LongBodies, Options, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

#[tokio::test]
async fn a_client_that_says_nothing_is_let_go() {
    let server = start(limited(|limits| limits.first_byte = SHORT)).await;
    let mut client = server.connect().await;
    assert!(client.closed_silently().await);
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"consort_http_timeouts_total{reason="first_byte"} 1"#), "{metrics}");
}

#[tokio::test]
async fn headers_that_come_too_slowly_are_answered_408_however_steadily_they_drip() {
    let server = start(limited(|limits| limits.header = SHORT)).await;
    let (mut reader, mut writer) = server.connect().await.0.into_split();
    let drip = tokio::spawn(async move {
        writer.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        while writer.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut said = Vec::new();
    // Once the answer is there, a reset is as good an end as any.
    let _ = within(reader.read_to_end(&mut said)).await;
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(said.contains("urn:consort:problem:header-timeout"), "{said}");
    within(drip).await.unwrap();
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"consort_http_timeouts_total{reason="header"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered_408_and_the_connection_ends() {
    let server = start(limited(|limits| limits.body = SHORT)).await;
    let mut client = server.connect().await;
    client.send("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 408);
    assert_eq!(answer.header("connection"), Some("close"));
    let (kind, detail) = answer.problem();
    assert_eq!(kind, "body-timeout");
    assert!(detail.contains("100ms"), "{detail}");
    assert!(client.closed_silently().await);
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"consort_http_timeouts_total{reason="body"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_413_whether_or_not_its_length_is_declared() {
    let server = start(limited(|limits| limits.max_body = 1000)).await;
    let declared = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1001\r\n\r\n{}",
        "x".repeat(1001)
    );
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n",
        "x".repeat(1001)
    );
    for request in [declared, chunked] {
        let answer = server.ask(&request).await;
        assert_eq!(answer.status, 413);
        let (kind, detail) = answer.problem();
        assert_eq!(kind, "body-too-large");
        assert!(detail.contains("1000 bytes"), "{detail}");
    }
    let fits = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{}",
        "x".repeat(1000)
    );
    let answer = server.ask(&fits).await;
    assert_eq!((answer.status, answer.body.len()), (200, 1000));
}

#[tokio::test]
async fn only_routes_that_declare_it_take_bodies_of_any_length() {
    let lines = |headers: &HeaderMap| headers.get("content-type").is_some_and(|it| it == "lines");
    let long_bodies = LongBodies::default().with("/echo", lines);
    let limited = limited(|limits| limits.max_body = 1000);
    let server = start(Options { long_bodies, ..limited }).await;
    for (path, content_type, status) in
        [("/echo", "lines", 200), ("/echo", "text", 413), ("/ignore", "lines", 413)]
    {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n\
             content-length: 1001\r\n\r\n{}",
            "x".repeat(1001)
        );
        assert_eq!(server.ask(&request).await.status, status, "{path} {content_type}");
    }
}

#[tokio::test]
async fn the_answer_413_reaches_a_client_that_sends_its_whole_body_first() {
    let server = start(limited(|limits| limits.max_body = 1000)).await;
    for _ in 0..20 {
        let body = "x".repeat(300_000);
        let request = format!(
            "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(server.ask(&request).await.status, 413);
    }
}

#[tokio::test]
async fn headers_that_are_too_large_or_too_many_are_answered_431() {
    let server = start(options()).await;
    let large =
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(40 * 1024));
    let many =
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(200));
    for request in [large, many] {
        assert_eq!(server.ask(&request).await.status, 431);
    }
    assert_eq!(server.ask("NONSENSE\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn a_connection_too_many_is_told_503_and_served_once_there_is_room() {
    let server = start(limited(|limits| limits.max_connections = 2)).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for client in [&mut first, &mut second] {
        client.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(server.handle.open_connections(), 2);
    let refused = server.ask("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.problem().0, "too-many-connections");

    drop(first);
    let handle = server.handle.clone();
    within(async {
        while handle.open_connections() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut third = server.connect().await;
    third.send("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let metrics = third.answer().await.body;
    assert!(
        metrics.contains(r#"consort_http_connections_refused_total{reason="limit"} 1"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_connection_is_kept_for_many_requests_and_let_go_when_it_rests_too_long() {
    let server = start(limited(|limits| limits.keep_alive_idle = SHORT)).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi").await;
        assert_eq!(client.answer().await.body, "hi");
    }
    assert!(client.closed_silently().await);
    let metrics = server.metrics().await;
    assert!(metrics.contains(r#"consort_http_timeouts_total{reason="keep_alive"} 1"#), "{metrics}");
}

#[tokio::test]
async fn requests_sent_in_one_go_are_answered_in_order() {
    let server = start(options()).await;
    let mut client = server.connect().await;
    let post = |body: &str| {
        format!("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n{body}")
    };
    client.send(&[post("a"), post("b"), post("c")].concat()).await;
    for expected in ["a", "b", "c"] {
        assert_eq!(client.answer().await.body, expected);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_let_go() {
    let server = start(limited(|limits| limits.write_stall = SHORT)).await;
    let mut deaf = server.connect().await;
    deaf.send("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    within(async {
        while !server.metrics().await.contains(r#"consort_http_timeouts_total{reason="write"} 1"#) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_finishes_the_request_in_flight_and_closes_resting_connections() {
    let (began, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut options = options();
    let (tell, wait) = (Arc::clone(&began), Arc::clone(&release));
    options.routes = options.routes.route(
        "/work",
        get(move || async move {
            tell.add_permits(1);
            wait.acquire().await.unwrap().forget();
            "done"
        }),
    );
    let server = start(options).await;
    let address = server.handle.address();
    let (mut silent, mut resting, mut busy) =
        (server.connect().await, server.connect().await, server.connect().await);
    resting.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(resting.answer().await.status, 200);
    busy.send("GET /work HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    within(began.acquire()).await.unwrap().forget();

    let ended = server.tell_to_stop();
    assert!(resting.closed_silently().await);
    assert!(silent.closed_silently().await);
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "the stopped server still accepts"
    );
    assert!(!ended.is_finished());
    release.add_permits(1);
    let answer = busy.answer().await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    assert_eq!(answer.header("connection"), Some("close"));
    drop(busy);
    assert_eq!(within(ended).await.unwrap().unfinished, 0);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let began = Arc::new(Semaphore::new(0));
    let mut options = limited(|limits| limits.stop_within = SHORT);
    let tell = Arc::clone(&began);
    options.routes = options.routes.route(
        "/hang",
        get(move || async move {
            tell.add_permits(1);
            std::future::pending::<()>().await;
        }),
    );
    let server = start(options).await;
    let mut client = server.connect().await;
    client.send("GET /hang HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    within(began.acquire()).await.unwrap().forget();
    assert_eq!(server.stop().await.unfinished, 1);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let server = start(options()).await;
    let mut second = options();
    second.listen = server.handle.address();
    let error = Server::bind(second).await.unwrap_err();
    assert!(matches!(error, BindError::InUse(address) if address == server.handle.address()));
    let text = error.to_string();
    assert!(
        text.contains(&server.handle.address().to_string()) && text.contains("--listen"),
        "{text}"
    );
}
