//! The sample upstream: a list that is another one each time it is asked, a count of the calls, and switches by
//! which it misbehaves. `consort sample-upstream --help` lists them.

mod switches;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_server::axum::body::Body;
use consort_server::axum::extract::{Request, State};
use consort_server::axum::http::{HeaderName, HeaderValue, StatusCode, header};
use consort_server::axum::response::{IntoResponse as _, Response};
use consort_server::axum::{Json, Router, body, routing};
use consort_server::{
    BindError, Express, Limits, LongBodies, Metrics, Problem, Server, Tokens, problems,
};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::json;

use switches::Switches;

/// The items of a list.
const ITEMS: usize = 5;

/// Paths that are counted one by one; what comes beyond is only counted in all.
const PATHS_MOST: usize = 10_000;

/// The largest body that is echoed.
const BODY_MOST: usize = 1 << 20;

/// When an answer that is to break off does so.
const BREAKS_AFTER: Duration = Duration::from_millis(50);

/// A herd of cold requests may come as one connection each.
const CONNECTIONS_MOST: usize = 10_000;

/// A bound server that does not answer yet.
#[derive(Debug)]
pub struct SampleUpstream(Server);

#[derive(Debug)]
struct Shared {
    delay: Duration,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    all: u64,
    paths: BTreeMap<String, u64>,
}

impl SampleUpstream {
    /// Binds. Each answer takes `delay`.
    pub async fn bind(listen: SocketAddr, delay: Duration) -> Result<SampleUpstream, BindError> {
        let shared = Arc::new(Shared { delay, calls: Mutex::default() });
        let items = || routing::get(items).post(items);
        let routes = Router::new()
            .route("/items/", items())
            .route("/items/{*path}", items())
            .route("/calls", routing::get(calls).delete(forget))
            .with_state(shared);
        let server = Server::bind(consort_server::Options {
            express: Express::default(),
            long_bodies: LongBodies::default(),
            listen,
            limits: Limits { max_connections: CONNECTIONS_MOST, ..Limits::default() },
            tokens: Tokens::default(),
            web: consort_server::WebPolicy::default(),
            probes: Vec::new(),
            metrics: Metrics::new(env!("CARGO_PKG_VERSION")),
            routes,
        });
        Ok(SampleUpstream(server.await?))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.handle().address()
    }

    /// Answers until `shutdown` resolves.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.0.run(shutdown).await;
    }
}

impl Calls {
    /// Counts a call. Gives its number among all, and among those of its path.
    fn count(&mut self, path: &str) -> (u64, u64) {
        self.all += 1;
        if let Some(number) = self.paths.get_mut(path) {
            *number += 1;
            return (self.all, *number);
        }
        if self.paths.len() < PATHS_MOST {
            self.paths.insert(path.to_owned(), 1);
        }
        (self.all, 1)
    }
}

/// `GET /calls`
async fn calls(State(shared): State<Arc<Shared>>) -> Json<serde_json::Value> {
    let calls = shared.calls.lock();
    Json(json!({ "calls": calls.all, "paths": calls.paths }))
}

/// `DELETE /calls`
async fn forget(State(shared): State<Arc<Shared>>) -> StatusCode {
    *shared.calls.lock() = Calls::default();
    StatusCode::NO_CONTENT
}

/// `GET /items/{path…}`, and the same by POST.
async fn items(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (number, of_path) = shared.calls.lock().count(request.uri().path());
    let switches = Switches::read(request.uri().query().unwrap_or_default())
        .map_err(|reason| Problem::new(problems::SWITCH, reason))?;
    tokio::time::sleep(shared.delay + switches.delay).await;
    if of_path <= switches.fail {
        let detail = format!("call {of_path} of this path fails, as it was told to");
        return Err(Problem::new(problems::TOLD_TO_FAIL, detail));
    }
    let mut response = match &switches {
        Switches { redirect: Some(to), .. } => {
            let mut response = StatusCode::FOUND.into_response();
            insert(&mut response, header::LOCATION, to);
            response
        }
        Switches { echo: true, .. } => echo(request).await,
        Switches { empty: true, .. } => Body::empty().into_response(),
        Switches { broken: true, .. } => broken(),
        Switches { size: Some(size), .. } => of_size(*size),
        Switches { object: true, .. } => Json(json!({ "call": number })).into_response(),
        _ => list(number),
    };
    if let Some(status) = switches.status {
        *response.status_mut() = status;
    }
    for (name, value) in [
        (header::CACHE_CONTROL, &switches.cache),
        (HeaderName::from_static("cache-tag"), &switches.tag),
        (header::SET_COOKIE, &switches.cookie),
        (header::CONTENT_TYPE, &switches.r#type),
    ] {
        if let Some(value) = value {
            insert(&mut response, name, value);
        }
    }
    Ok(response)
}

fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Which list it is, the number of the call says; the rest of an item is drawn at random.
fn list(number: u64) -> Response {
    let item = |position: usize| json!({ "call": number, "position": position, "worth": rand::random::<u32>() });
    Json((0..ITEMS).map(item).collect::<Vec<_>>()).into_response()
}

async fn echo(request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = body::to_bytes(body, BODY_MOST).await.unwrap_or_default();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<&str, String> =
        head.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
    let shown = json!({
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "query": head.uri.query(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    Json(shown).into_response()
}

/// So many bytes, in pieces and without a declared length.
fn of_size(size: u64) -> Response {
    let piece = Bytes::from_static(&[b'x'; 8192]);
    let pieces = futures::stream::unfold(size, move |left| {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let next = (length > 0)
            .then(|| (Ok::<_, std::io::Error>(piece.slice(..length)), left - length as u64));
        async { next }
    });
    let mut response = Body::from_stream(pieces).into_response();
    insert(&mut response, header::CONTENT_TYPE, "text/plain");
    response
}

/// The beginning of a list, and no end.
fn broken() -> Response {
    let begun = futures::stream::iter([Ok(Bytes::from_static(b"[{\"call\":"))]);
    // Were it to break at once, not even the head would be on its way.
    let broken = futures::stream::once(async {
        tokio::time::sleep(BREAKS_AFTER).await;
        Err(std::io::Error::other("told to break"))
    });
    Body::from_stream(begun.chain(broken)).into_response()
}
