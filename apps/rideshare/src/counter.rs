//! How many requests a service has had, all of its instances together.
//!
//! Each instance counts for itself. `_count` on any of them asks all of them, with a header that makes them answer for
//! themselves alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use clap::Args;
use hyper::Method;
use tokio::task::JoinSet;

use crate::database::ANSWER_WITHIN;
use crate::http::{HttpClient, Problem, ServiceUrl, only};
use crate::service::{CLEAR_PATH, HEALTH_PATH, done};

const COUNT_PATH: &str = "/api/v1/_count";

/// With this header an instance answers for itself alone.
const SCOPE: &str = "rideshare-count-scope";

/// All instances of a service.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct InstanceArgs {
    /// All instances of this service, this one too: `_count` adds their counters
    #[arg(long, env = "RIDESHARE_INSTANCES", value_name = "URL[,URL]", value_delimiter = ',')]
    instances: Vec<ServiceUrl>,
}

/// Counts the requests to this instance, and knows the others.
#[derive(Clone, Debug)]
pub(crate) struct RequestCounter {
    own: Arc<AtomicU64>,
    instances: Arc<[ServiceUrl]>,
    http: HttpClient,
}

impl RequestCounter {
    /// A counter at 0.
    pub(crate) fn new(args: InstanceArgs) -> RequestCounter {
        let own = Arc::new(AtomicU64::new(0));
        RequestCounter { own, instances: args.instances.into(), http: HttpClient::new() }
    }

    /// Reads and resets the counters.
    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route(COUNT_PATH, only("GET, DELETE", get(read).delete(reset)))
            .with_state(self.clone())
    }

    /// Whether a request is answered for this instance alone.
    fn is_alone(&self, headers: &HeaderMap) -> bool {
        self.instances.is_empty() || headers.contains_key(SCOPE)
    }

    /// Asks every instance, and gives the bodies of their answers.
    async fn ask_all(&self, method: Method) -> Result<Vec<Bytes>, Problem> {
        let mut asking = JoinSet::new();
        for instance in self.instances.iter().cloned() {
            asking.spawn(ask(self.http.clone(), instance, method.clone()));
        }
        let mut bodies = Vec::new();
        while let Some(asked) = asking.join_next().await {
            let failed = |_| Err(Problem::unavailable("an instance could not be asked"));
            bodies.push(asked.unwrap_or_else(failed)?);
        }
        Ok(bodies)
    }
}

/// Counts a request, unless it is about the counter or the tables as a whole, or is a health check.
pub(crate) async fn count(
    State(counter): State<RequestCounter>,
    request: Request,
    next: Next,
) -> Response {
    if ![COUNT_PATH, CLEAR_PATH, HEALTH_PATH].contains(&request.uri().path()) {
        counter.own.fetch_add(1, Ordering::Relaxed);
    }
    next.run(request).await
}

async fn read(
    State(counter): State<RequestCounter>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if counter.is_alone(&headers) {
        return Ok(Json([counter.own.load(Ordering::Relaxed)]).into_response());
    }
    let mut total = 0;
    for body in counter.ask_all(Method::GET).await? {
        let [count]: [u64; 1] = serde_json::from_slice(&body)
            .map_err(|_| Problem::unavailable("an instance gave no count"))?;
        total += count;
    }
    Ok(Json([total]).into_response())
}

async fn reset(
    State(counter): State<RequestCounter>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if counter.is_alone(&headers) {
        counter.own.store(0, Ordering::Relaxed);
    } else {
        counter.ask_all(Method::DELETE).await?;
    }
    Ok(done())
}

async fn ask(http: HttpClient, instance: ServiceUrl, method: Method) -> Result<Bytes, Problem> {
    let failed = |reason: String| Problem::unavailable(format!("{instance}: {reason}"));
    let request = hyper::Request::builder()
        .method(method)
        .uri(instance.join(COUNT_PATH))
        .header(SCOPE, "instance")
        .body(Bytes::new())
        .map_err(|error| failed(error.to_string()))?;
    let answer = http.send(request, ANSWER_WITHIN).await;
    let answer = answer.map_err(|failure| failed(failure.to_string()))?;
    match answer.status().is_success() {
        true => Ok(answer.into_body()),
        false => Err(failed(format!("status {}", answer.status()))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::routing::put;
    use serde_json::{Value, json};

    use super::*;
    use crate::service::counted;
    use crate::testing::{self, TestServer, TestSocket, assert_problem, no_database, nowhere};

    /// So many instances of a service with one path, which know each other and `others`.
    async fn instances(count: usize, others: &[ServiceUrl]) -> Vec<TestServer> {
        let mut sockets = Vec::new();
        for _ in 0..count {
            sockets.push(TestSocket::bind().await);
        }
        let urls = sockets.iter().map(|socket| socket.url.clone()).chain(others.iter().cloned());
        let args = InstanceArgs { instances: urls.collect() };
        let database = no_database().await;
        let serve = |socket: TestSocket| {
            let routes = Router::new().route("/known", only("PUT", put(async || done())));
            let counter = RequestCounter::new(args.clone());
            socket.serve(counted(routes, database.clone(), counter))
        };
        sockets.into_iter().map(serve).collect()
    }

    async fn total(server: &TestServer) -> Value {
        let answer = server.call("GET", COUNT_PATH, "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{answer:?}");
        testing::json(&answer)
    }

    #[tokio::test]
    async fn every_request_counts_whatever_its_status() {
        let servers = instances(1, &[]).await;
        let server = &servers[0];
        let large = "x".repeat(2 << 20);
        for (method, path, body, status) in [
            ("PUT", "/known", "", 200),
            ("HEAD", "/known", "", 405),
            ("BREW", "/known", "", 405),
            ("GET", "/unknown", "", 404),
            ("GET", "/api/v1/_count/", "", 404),
            ("PUT", "/known", &*large, 413),
        ] {
            assert_eq!(server.call(method, path, body).await.status(), status, "{method} {path}");
        }
        assert_eq!(total(server).await, json!([6]));
    }

    #[tokio::test]
    async fn counts_health_checks_and_clear_do_not_count() {
        let servers = instances(1, &[]).await;
        let server = &servers[0];
        for (method, path, status) in [
            ("GET", COUNT_PATH, 200),
            ("POST", COUNT_PATH, 405),
            ("GET", HEALTH_PATH, 503),
            ("GET", CLEAR_PATH, 405),
        ] {
            assert_eq!(server.call(method, path, "").await.status(), status, "{method} {path}");
        }
        assert_eq!(total(server).await, json!([0]));
    }

    #[tokio::test]
    async fn any_instance_adds_and_resets_the_counters_of_all() {
        let servers = instances(3, &[]).await;
        for (server, requests) in servers.iter().zip(1..) {
            for _ in 0..requests {
                server.call("PUT", "/known", "").await;
            }
        }
        for server in &servers {
            assert_eq!(total(server).await, json!([6]));
        }
        let reset = servers[1].call("DELETE", COUNT_PATH, "").await;
        assert_eq!((reset.status(), testing::json(&reset)), (StatusCode::OK, json!({})));
        for server in &servers {
            assert_eq!(total(server).await, json!([0]));
        }
    }

    #[tokio::test]
    async fn without_the_answer_of_every_instance_there_is_no_total() {
        let servers = instances(2, &[nowhere().await]).await;
        assert_problem(&servers[0].call("GET", COUNT_PATH, "").await, 503);
        assert_problem(&servers[0].call("DELETE", COUNT_PATH, "").await, 503);
    }

    #[tokio::test]
    async fn other_methods_are_refused() {
        let servers = instances(1, &[]).await;
        for method in ["HEAD", "POST", "PUT"] {
            let refused = servers[0].call(method, COUNT_PATH, "").await;
            assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(refused.headers()["allow"], "GET, DELETE");
        }
    }
}
