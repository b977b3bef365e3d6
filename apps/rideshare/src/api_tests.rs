//! What all processes refuse before they ask the database, and what they say when it is away.

use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use futures::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::counter::{InstanceArgs, RequestCounter};
use crate::database::ANSWER_WITHIN;
use crate::service::{counted, with_database};
use crate::testing::{TestServer, assert_problem, no_database, nowhere};
use crate::{orchestrator, rides, users};

async fn users() -> TestServer {
    let database = no_database().await;
    let counter = RequestCounter::new(InstanceArgs::default());
    TestServer::start(counted(users::routes(database.clone()), database, counter)).await
}

async fn rides() -> TestServer {
    let (database, gateway) = (no_database().await, nowhere().await);
    let counter = RequestCounter::new(InstanceArgs::default());
    let routes = rides::routes(rides::Rides::new(database.clone(), &gateway, "http://me".into()));
    TestServer::start(counted(routes, database, counter)).await
}

async fn orchestrator() -> TestServer {
    let database = no_database().await;
    let routes: Router = orchestrator::routes(database.clone());
    TestServer::start(with_database(routes, database)).await
}

#[tokio::test]
async fn every_other_method_on_a_known_path_is_405_with_allow() {
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"];
    let (users, rides, orchestrator) = (users().await, rides().await, orchestrator().await);
    for (server, path, allow) in [
        (&users, "/api/v1/users", "GET, PUT"),
        (&users, "/api/v1/users/ann", "DELETE"),
        (&users, "/api/v1/users/%FF", "DELETE"),
        (&users, "/api/v1/_count", "GET, DELETE"),
        (&users, "/api/v1/db/clear", "POST"),
        (&users, "/healthz", "GET"),
        (&rides, "/api/v1/rides", "GET, POST"),
        (&rides, "/api/v1/rides/7", "GET, POST, DELETE"),
        (&rides, "/api/v1/rides/nonsense", "GET, POST, DELETE"),
        (&rides, "/api/v1/rides/count", "GET"),
        (&rides, "/api/v1/_count", "GET, DELETE"),
        (&rides, "/api/v1/db/clear", "POST"),
        (&orchestrator, "/api/v1/db/write", "POST"),
        (&orchestrator, "/api/v1/db/read", "POST"),
        (&orchestrator, "/api/v1/db/clear", "POST"),
        (&orchestrator, "/api/v1/crash/master", "POST"),
        (&orchestrator, "/api/v1/crash/slave", "POST"),
        (&orchestrator, "/api/v1/worker/list", "GET"),
    ] {
        let known: Vec<&str> = allow.split(", ").collect();
        for method in methods.iter().filter(|method| !known.contains(method)) {
            let answer = server.call(method, path, "").await;
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(answer.headers()["allow"], allow, "{method} {path}");
            assert_eq!(answer.headers()["content-type"], "application/problem+json");
        }
    }
}

#[tokio::test]
async fn every_other_path_is_404() {
    let (users, rides, orchestrator) = (users().await, rides().await, orchestrator().await);
    for (server, path) in [
        (&users, "/"),
        (&users, "/api/v1/users/"),
        (&users, "/api/v1/users/a/b"),
        (&users, "/api/v1/rides"),
        (&rides, "/api/v1/users"),
        (&rides, "/api/v1/rides/"),
        (&rides, "/api/v1/rides/7/users"),
        (&rides, "/api/v1/db/read"),
        (&orchestrator, "/api/v1/_count"),
        (&orchestrator, "/api/v1/crash"),
    ] {
        for method in ["GET", "POST", "BREW"] {
            assert_problem(&server.call(method, path, "").await, 404);
        }
    }
}

#[tokio::test]
async fn what_can_never_succeed_is_400_without_the_database() {
    let (users, rides, orchestrator) = (users().await, rides().await, orchestrator().await);
    let past = json!({"created_by": "ann", "timestamp": "01-01-2000:00-00-00",
        "source": 1, "destination": 2})
    .to_string();
    for (server, method, path, body) in [
        (&users, "PUT", "/api/v1/users", ""),
        (&users, "PUT", "/api/v1/users", "{\"username\": \"ann\"}"),
        (&users, "DELETE", "/api/v1/users/%FF", ""),
        (&rides, "POST", "/api/v1/rides", "[]"),
        (&rides, "POST", "/api/v1/rides", &*past),
        (&rides, "GET", "/api/v1/rides", ""),
        (&rides, "GET", "/api/v1/rides?source=1&destination=199", ""),
        (&rides, "GET", "/api/v1/rides/x", ""),
        (&rides, "GET", "/api/v1/rides/-1", ""),
        (&rides, "GET", "/api/v1/rides/1234567890123456789", ""),
        (&rides, "GET", "/api/v1/rides/%FF", ""),
        (&rides, "POST", "/api/v1/rides/1", "{}"),
        (&rides, "POST", "/api/v1/rides/x", "{\"username\": \"ann\"}"),
        (&rides, "DELETE", "/api/v1/rides/1.5", ""),
        (&orchestrator, "POST", "/api/v1/db/write", "{\"table\": \"cars\"}"),
        (&orchestrator, "POST", "/api/v1/db/read", "{}"),
    ] {
        let answer = server.call(method, path, body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{method} {path} {body}");
        assert_problem(&answer, 400);
    }
}

#[tokio::test]
async fn without_a_database_the_answer_is_503_after_two_seconds() {
    let (users, rides, orchestrator) = (users().await, rides().await, orchestrator().await);
    let digits = "0".repeat(40);
    let user = json!({"username": "ann", "password": digits}).to_string();
    let ride = json!({"created_by": "ann", "timestamp": "01-01-2900:00-00-00",
        "source": 1, "destination": 2})
    .to_string();
    let read = json!({"table": "users", "columns": ["username"], "where": "username=ann"});
    let read = read.to_string();
    let asked =
        |server: &'static str, method, path, body: &str| (server, method, path, body.to_owned());
    let calls = [
        asked("users", "PUT", "/api/v1/users", &user),
        asked("users", "GET", "/api/v1/users", ""),
        asked("users", "DELETE", "/api/v1/users/ann", ""),
        asked("users", "POST", "/api/v1/db/clear", ""),
        asked("users", "GET", "/healthz", ""),
        asked("rides", "POST", "/api/v1/rides", &ride),
        asked("rides", "GET", "/api/v1/rides?source=1&destination=2", ""),
        asked("rides", "GET", "/api/v1/rides/1", ""),
        asked("rides", "POST", "/api/v1/rides/1", &user),
        asked("rides", "GET", "/api/v1/rides/count", ""),
        asked("orchestrator", "POST", "/api/v1/db/read", &read),
        asked("orchestrator", "POST", "/api/v1/crash/master", ""),
        asked("orchestrator", "GET", "/api/v1/worker/list", ""),
    ];
    let begun = Instant::now();
    let calls = calls.map(|(name, method, path, body)| {
        let server = match name {
            "users" => &users,
            "rides" => &rides,
            _ => &orchestrator,
        };
        async move { assert_problem(&server.call(method, path, &body).await, 503) }
    });
    // All at once: each of them waits.
    join_all(calls).await;
    assert!(begun.elapsed() >= ANSWER_WITHIN, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < ANSWER_WITHIN * 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn heads_may_have_256_kib_and_bodies_1_mib() {
    let users = users().await;
    for (head, body, status) in [
        (250 << 10, 0, "400"),
        (300 << 10, 0, "431"),
        (2 << 20, 0, "431"),
        (0, 1 << 20, "400"),
        (0, (1 << 20) + 1, "413"),
        (0, 8 << 20, "413"),
    ] {
        let request = format!(
            "PUT /api/v1/users HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx-long: {}\r\n\
             content-length: {body}\r\n\r\n{}",
            "x".repeat(head),
            " ".repeat(body)
        );
        let answer = raw(&users, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {body}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_ends_its_sending_side_gets_its_answer() {
    let users = users().await;
    let mut stream = TcpStream::connect(users.address).await.unwrap();
    stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

/// Sends these bytes and reads all that comes back.
async fn raw(server: &TestServer, request: &[u8]) -> String {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let mut answer = Vec::new();
    // A server that has heard enough may close before all is sent.
    let (read, _) = tokio::join!(reading.read_to_end(&mut answer), writing.write_all(request));
    read.unwrap();
    String::from_utf8(answer).unwrap()
}
