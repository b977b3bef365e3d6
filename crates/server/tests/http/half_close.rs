//! Clients that end their sending side after a request get their answers; clients that reset the connection
//! are let go.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use consort_server::axum;
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;

use crate::client::{Client, Running, options, start, within};

/// As many as the nodes of a busy load balancer, all at once.
const CLIENTS: usize = 50;

/// Everything that the server answers to a client which sends this and then ends its sending side.
async fn half_closed(server: &Running, request: &str) -> String {
    let Client(mut stream) = server.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// A server with a route that answers when a permit is there, and the permits.
async fn waiting() -> (Running, Arc<Semaphore>, Arc<Semaphore>) {
    let (began, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut options = options();
    let (tell, wait) = (Arc::clone(&began), Arc::clone(&release));
    options.routes = options.routes.route(
        "/wait",
        get(move || async move {
            tell.add_permits(1);
            wait.acquire().await.unwrap().forget();
            "done"
        }),
    );
    (start(options).await, began, release)
}

#[tokio::test]
async fn a_client_that_ends_its_sending_side_gets_the_answer() {
    let (server, began, release) = waiting().await;
    let post = "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\nhi";
    let chunked = "POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
                   2\r\nhi\r\n0\r\n\r\n";
    for (request, ending) in
        [(post, "hi"), (chunked, "hi"), (&post.repeat(2), "hi"), (&get_of("/healthz"), "\"ok\"}")]
    {
        for answer in join_all((0..CLIENTS).map(|_| half_closed(&server, request))).await {
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{request}\n{answer}");
            assert!(answer.ends_with(ending), "{request}\n{answer}");
            assert_eq!(answer.matches("200 OK").count(), request.matches("HTTP/1.1").count());
        }
    }
    // The end of input comes while the handler waits.
    let waiting = get_of("/wait");
    let all = join_all((0..CLIENTS).map(|_| half_closed(&server, &waiting)));
    let let_go = async {
        within(began.acquire_many(CLIENTS as u32)).await.unwrap().forget();
        release.add_permits(CLIENTS);
    };
    let (answers, ()) = tokio::join!(all, let_go);
    assert!(answers.iter().all(|answer| answer.ends_with("\r\n\r\ndone")), "{answers:?}");
    within(none_open(&server)).await;
}

#[tokio::test]
async fn a_body_that_ends_before_its_length_is_no_request() {
    let server = start(options()).await;
    let short = "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nhi";
    let answer = half_closed(&server, short).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn a_client_that_resets_the_connection_is_let_go_while_its_request_waits() {
    for ends_first in [false, true] {
        let (server, began, _release) = waiting().await;
        let Client(mut stream) = server.connect().await;
        stream.write_all(get_of("/wait").as_bytes()).await.unwrap();
        if ends_first {
            stream.shutdown().await.unwrap();
        }
        within(began.acquire()).await.unwrap().forget();
        assert_eq!(server.handle.open_connections(), 1);
        reset(stream);
        within(none_open(&server)).await;
    }
}

fn get_of(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// Closes so that the server is told at once.
pub(crate) fn reset(stream: tokio::net::TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

async fn none_open(server: &Running) {
    while server.handle.open_connections() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
