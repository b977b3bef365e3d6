//! Requests whose length is in doubt are refused before a handler sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use axum::routing::post;
use consort_server::axum;

use crate::client::{options, start};

#[tokio::test]
async fn no_transfer_coding_but_one_chunked_reaches_a_handler() {
    let handled = Arc::new(AtomicUsize::new(0));
    let mut options = options();
    let count = Arc::clone(&handled);
    options.routes = options.routes.route(
        "/count",
        post(move |body: Bytes| async move {
            count.fetch_add(1, Ordering::SeqCst);
            body
        }),
    );
    let server = start(options).await;
    let chunks = "2\r\nhi\r\n0\r\n\r\n";
    for (headers, statuses) in [
        ("transfer-encoding: gzip, chunked\r\n", &[501][..]),
        ("transfer-encoding: chunked, chunked\r\n", &[501]),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", &[501]),
        ("transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n", &[501]),
        ("transfer-encoding: ,chunked\r\n", &[501]),
        ("transfer-encoding: chunked;q=1\r\n", &[400]),
        ("transfer-encoding: chunked, gzip\r\n", &[400]),
        ("transfer-encoding: gzip\r\n", &[400]),
        ("transfer-encoding: identity\r\n", &[400]),
        ("transfer-encoding: xchunked\r\n", &[400]),
        ("transfer-encoding: \"chunked\"\r\n", &[400]),
        ("transfer-encoding:\r\n", &[400]),
        ("transfer-encoding: chunked\r\ncontent-length: 2\r\n", &[400]),
        ("content-length: 12\r\ntransfer-encoding: chunked\r\n", &[400]),
        ("content-length: 2\r\ncontent-length: 3\r\n", &[400]),
        ("content-length: 2, 2\r\n", &[400]),
        ("content-length: +2\r\n", &[400]),
        ("content-length: 0x2\r\n", &[400]),
        ("content-length : 2\r\n", &[400]),
        ("transfer-encoding : chunked\r\n", &[400]),
        ("x: y\r\n content-length: 2\r\n", &[400]),
        ("transfer-encoding:\r\n chunked\r\n", &[400]),
    ] {
        for path in ["/count", "/nowhere", "/healthz"] {
            let request =
                format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n{chunks}");
            // As the first request of a connection, and as a later one.
            let first = server.ask(&request).await;
            assert!(statuses.contains(&first.status), "{request}\n{first:?}");
            assert_eq!(first.header("connection"), Some("close"), "{request}\n{first:?}");
            let both = headers.contains("chunked\r\n") && headers.contains("content-length:");
            if both {
                assert_eq!(first.problem().0, "two-lengths", "{request}");
                continue;
            }
            let mut client = server.connect().await;
            client.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            assert_eq!(client.answer().await.status, 200);
            client.send(&request).await;
            let later = client.answer().await;
            assert!(statuses.contains(&later.status), "{request}\n{later:?}");
        }
    }
    assert_eq!(handled.load(Ordering::SeqCst), 0);
    for coding in ["chunked", "Chunked", " chunked "] {
        let request = format!(
            "POST /count HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding:{coding}\r\n\r\n{chunks}"
        );
        let answer = server.ask(&request).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "hi"), "{request}");
    }
}

#[tokio::test]
async fn a_request_with_two_lengths_hides_no_other_behind_it() {
    let server = start(options()).await;
    let mut client = server.connect().await;
    client.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
    // By its length the second request would be in the body of the first.
    let hidden = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let length = 5 + hidden.len();
    client
        .send(&format!(
            "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\
             transfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ))
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(client.closed_silently().await);
}
