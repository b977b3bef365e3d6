//! The gateway before instances on real sockets.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};

use super::{Gateway, health, router};
use crate::http::ServiceUrl;
use crate::testing::{self, TestServer, assert_problem, hangs_up, nowhere};

/// An instance that answers with its name and the request.
async fn echo(name: &'static str) -> TestServer {
    let answer = move |request: Request| async move {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let origin = head.headers.get("origin").map(|origin| origin.to_str().unwrap().to_owned());
        let echo = json!({
            "instance": name,
            "method": head.method.as_str(),
            "path": head.uri.to_string(),
            "host": head.headers["host"].to_str().unwrap(),
            "origin": origin,
            "body": String::from_utf8_lossy(&body),
        });
        (StatusCode::IM_A_TEAPOT, [("x-answer", "unchanged")], axum::Json(echo))
    };
    TestServer::start(Router::new().fallback(answer)).await
}

/// A gateway before these instances of rides.
async fn gateway(rides: &[ServiceUrl]) -> (TestServer, Arc<Gateway>) {
    let gateway = Arc::new(Gateway::new(Vec::new(), rides.to_vec()));
    (TestServer::start(router(gateway.clone())).await, gateway)
}

async fn instance(gateway: &TestServer, method: &str) -> Value {
    let answer = gateway.call(method, "/api/v1/rides", "").await;
    assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT, "{answer:?}");
    testing::json(&answer)["instance"].clone()
}

#[tokio::test]
async fn requests_and_answers_pass_unchanged() {
    let (users, rides) = (echo("users").await, echo("rides").await);
    let both = Gateway::new(vec![users.url.clone()], vec![rides.url.clone()]);
    let gateway = TestServer::start(router(Arc::new(both))).await;
    for (method, path, service) in [
        ("PUT", "/api/v1/users", "users"),
        ("DELETE", "/api/v1/users/a%2Fb%20%C3%A4", "users"),
        ("GET", "/api/v1/rides?source=1&destination=%32", "rides"),
        ("PATCH", "/nothing//here?", "rides"),
        ("BREW", "/api/v1/_count", "rides"),
    ] {
        let answer = gateway.call(method, path, "{\"a\": 1}").await;
        assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.headers()["x-answer"], "unchanged");
        let expected = json!({
            "instance": service, "method": method, "path": path, "origin": null,
            "host": gateway.address.to_string(), "body": "{\"a\": 1}",
        });
        assert_eq!(testing::json(&answer), expected);
    }
}

#[tokio::test]
async fn instances_are_used_in_turn() {
    let (a, b) = (echo("a").await, echo("b").await);
    let (gateway, _) = gateway(&[a.url.clone(), b.url.clone()]).await;
    let mut used = Vec::new();
    for _ in 0..4 {
        used.push(instance(&gateway, "POST").await);
    }
    assert_eq!(used, ["a", "b", "a", "b"]);
}

#[tokio::test]
async fn a_request_that_did_not_reach_its_instance_goes_to_another() {
    let b = echo("b").await;
    let (gateway, _) = gateway(&[nowhere().await, b.url.clone(), nowhere().await]).await;
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(instance(&gateway, method).await, "b");
    }
}

#[tokio::test]
async fn a_get_that_broke_is_repeated_once_and_nothing_else_is() {
    let (broken, _open) = hangs_up().await;
    let b = echo("b").await;
    for (method, answered) in [("GET", true), ("POST", false), ("DELETE", false), ("PUT", false)] {
        let (gateway, _) = gateway(&[broken.clone(), b.url.clone()]).await;
        match answered {
            true => assert_eq!(instance(&gateway, method).await, "b"),
            false => assert_problem(&gateway.call(method, "/api/v1/rides", "").await, 503),
        }
    }
    let (gateway, _) = gateway(&[broken.clone(), broken, b.url.clone()]).await;
    assert_problem(&gateway.call("GET", "/api/v1/rides", "").await, 503);
}

#[tokio::test]
async fn without_a_healthy_instance_the_answer_is_503() {
    let (gateway, _) = gateway(&[nowhere().await, nowhere().await]).await;
    for path in ["/api/v1/rides", "/api/v1/users"] {
        let answer = gateway.call("GET", path, "").await;
        assert_problem(&answer, 503);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    assert_problem(&gateway.call("GET", "/healthz", "").await, 503);
}

#[tokio::test]
async fn a_request_that_waits_for_an_instance_is_told_when_it_is_taken_out() {
    let asked = Arc::new(Notify::new());
    let heard = asked.clone();
    let silent = move || async move {
        heard.notify_one();
        std::future::pending::<Response>().await
    };
    let silent = TestServer::start(Router::new().fallback(any(silent))).await;
    let b = echo("b").await;
    let (gateway, state) = gateway(&[silent.url.clone(), b.url.clone()]).await;
    let get = async { assert_eq!(instance(&gateway, "GET").await, "b") };
    let taken_out = async {
        asked.notified().await;
        state.rides.all()[0].note(false);
        state.rides.all()[0].note(false);
    };
    tokio::join!(get, taken_out);
    // It gets no requests any more.
    for _ in 0..2 {
        assert_eq!(instance(&gateway, "POST").await, "b");
    }
}

#[tokio::test]
async fn instances_are_checked_and_come_back() {
    let status = Arc::new(Mutex::new(StatusCode::OK));
    let answer = status.clone();
    let routes = Router::new().fallback(any(move || {
        let answer = answer.clone();
        async move { answer.lock().await.into_response() }
    }));
    let instance = TestServer::start(routes).await;
    let urls = vec![instance.url.clone()];
    let state = Arc::new(Gateway::new(urls.clone(), urls));
    let _checks = health::check_all(&state);
    let gateway = TestServer::start(router(state.clone())).await;
    for (now, healthy) in [(StatusCode::SERVICE_UNAVAILABLE, false), (StatusCode::OK, true)] {
        *status.lock().await = now;
        let becomes = async {
            while (gateway.call("GET", "/healthz", "").await.status() == StatusCode::OK) != healthy
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), becomes).await.unwrap();
    }
}

#[tokio::test]
async fn the_health_check_is_the_gateways_own() {
    let (a, b) = (echo("a").await, echo("b").await);
    let both = Gateway::new(vec![a.url.clone()], vec![b.url.clone()]);
    let gateway = TestServer::start(router(Arc::new(both))).await;
    assert_eq!(gateway.call("GET", "/healthz", "").await.status(), StatusCode::OK);
    let refused = gateway.call("POST", "/healthz", "").await;
    assert_problem(&refused, 405);
    assert_eq!(refused.headers()["allow"], "GET");
}

#[test]
fn paths_that_begin_with_those_of_users_go_there_and_all_others_to_rides() {
    let gateway = Gateway::new(Vec::new(), Vec::new());
    for (path, service) in [
        ("/api/v1/users", "users"),
        ("/api/v1/users/ann", "users"),
        ("/api/v1/usersX", "users"),
        ("/api/v1/rides", "rides"),
        ("/api/v1/_count", "rides"),
        ("/api/v1/user", "rides"),
        ("/api/v1/%75sers", "rides"),
        ("/", "rides"),
        ("*", "rides"),
    ] {
        assert_eq!(gateway.service(path).name(), service, "{path}");
    }
}
