//! Asking an upstream: one request, everything bounded, never sent twice.
//!
//! What it answers is either an *answer*, which is kept and given to all, whatever its status says of the thing
//! that was asked for (200, 204, 404, 410 …), or a *failure* of the asking: no connection, no answer in time, one
//! that is too large, 5xx, a redirect (none is followed), or a status that is about who asks (401, 429 …).

mod connector;

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use bytes::{Bytes, BytesMut};
use consort_once::{Computed, Failure, FailureKind};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::envelope;
use super::freshness::{Freshness, tags};
use super::space::Space;
use connector::{Connector, Unconnected};

/// Requests to one upstream at a time, from one node. What comes beyond waits, within its time-out: a herd of
/// different keys must not become a herd of connections.
const AT_ONCE: usize = 256;

/// Connections that are kept for the next request, and for how long: below the 5 s after which common servers
/// close theirs.
const IDLE_MOST: usize = 32;
const IDLE_FOR: Duration = Duration::from_secs(4);

/// How much of an upstream's words on a failure is repeated.
const SHOWN_MOST: usize = 200;

/// Of a failure's answer no more is read than what is shown of it.
const FAILURE_MOST: usize = 4 * 1024;

/// Statuses below 500 that are about who asks, how or how often, and not about what is asked for.
const NOT_ANSWERS: [StatusCode; 7] = [
    StatusCode::PARTIAL_CONTENT,
    StatusCode::UNAUTHORIZED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];

/// The way to one space's upstream.
#[derive(Debug)]
pub(super) struct Upstream {
    client: Client<Connector, Full<Bytes>>,
    room: Semaphore,
}

/// What to ask for.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Both in canonical form.
    pub(super) path: String,
    pub(super) query: String,
    /// Those of the request's that are passed.
    pub(super) headers: HeaderMap,
    /// The parameters, in canonical form; with them it is a POST.
    pub(super) body: Option<Bytes>,
}

impl Upstream {
    pub(super) fn new(space: &Space) -> Upstream {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_MOST)
            .build(Connector { within: space.connect_timeout });
        Upstream { client, room: Semaphore::new(AT_ONCE) }
    }

    /// Asks, and judges the answer.
    pub(super) async fn ask(
        &self,
        space: &Space,
        question: &Question,
    ) -> Result<Computed, Failure> {
        let place = space.upstream.origin();
        let asking = self.exchange(space, &place, question);
        timeout(space.timeout, asking).await.unwrap_or_else(|_| {
            let reason = format!("{place} did not answer within {:?}", space.timeout);
            Err(Failure::new(FailureKind::TimedOut, reason))
        })
    }

    async fn exchange(
        &self,
        space: &Space,
        place: &str,
        question: &Question,
    ) -> Result<Computed, Failure> {
        let uri = space.upstream.fill(&question.path, &question.query);
        let uri = uri.map_err(|reason| Failure::new(FailureKind::Malformed, reason))?;
        // Nobody closes it.
        let _place = self.room.acquire().await;
        let (asked, request) = request(uri, question);
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| unanswered(place, &error))?;
        let (head, body) = answer.into_parts();
        let head = Response::from_parts(head, ());
        if let Some(refused) = refused(place, &head) {
            return Err(with_words(refused, body).await);
        }
        let body = whole(place, body, space.terms.max_value).await?;
        Ok(computed(space, &asked, &head, &body))
    }
}

/// The request, and the same without its body, by which the answer's lifetime is judged.
fn request(uri: Uri, question: &Question) -> (Request<()>, Request<Full<Bytes>>) {
    let Question { headers, body, .. } = question;
    let mut asked = Request::new(());
    *asked.uri_mut() = uri;
    *asked.headers_mut() = headers.clone();
    let own = asked.headers_mut();
    own.insert(header::USER_AGENT, HeaderValue::from_static("consort"));
    own.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if body.is_some() {
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *asked.method_mut() = Method::POST;
    }
    let request = asked.clone().map(|()| Full::new(body.clone().unwrap_or_default()));
    (asked, request)
}

fn unanswered(place: &str, error: &hyper_util::client::legacy::Error) -> Failure {
    // What went wrong is at the end of the chain; its beginning says "client error".
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        if let Some(unconnected) = deeper.downcast_ref::<Unconnected>() {
            let kind = match unconnected {
                Unconnected::Slow(_) => FailureKind::TimedOut,
                Unconnected::Refused(_) => FailureKind::Unreachable,
            };
            return Failure::new(kind, format!("{place} cannot be reached: {unconnected}"));
        }
        cause = deeper;
    }
    let kind = match error.is_connect() {
        true => FailureKind::Unreachable,
        false => FailureKind::Malformed,
    };
    Failure::new(kind, format!("{place} gave no answer that can be read: {cause}"))
}

/// Why a status is no answer, if it is none.
fn refused(place: &str, head: &Response<()>) -> Option<Failure> {
    let status = head.status();
    if status.is_redirection() {
        let to = head.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        let to = shown(to.unwrap_or("nowhere"));
        let reason = format!(
            "{place} answered {status}; redirects are not followed (it leads to {to}): set 'upstream'"
        );
        return Some(Failure::new(FailureKind::Refused(status.as_u16()), reason));
    }
    let failed = !status.is_success() && !status.is_client_error();
    (failed || NOT_ANSWERS.contains(&status)).then(|| {
        Failure::new(FailureKind::Refused(status.as_u16()), format!("{place} answered {status}"))
    })
}

/// Adds what the answer itself says.
async fn with_words(mut failure: Failure, body: Incoming) -> Failure {
    let mut words = Vec::new();
    let mut body = std::pin::pin!(body);
    while words.len() < FAILURE_MOST
        && let Some(Ok(frame)) = body.frame().await
    {
        words.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    words.truncate(FAILURE_MOST);
    let words = shown(String::from_utf8_lossy(&words).trim());
    if !words.is_empty() {
        failure.reason = format!("{}: {words}", failure.reason);
    }
    failure
}

fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SHOWN_MOST).map(plain).collect()
}

/// The whole body, cut off as soon as it is known to be too large.
async fn whole(place: &str, mut body: Incoming, most: usize) -> Result<Bytes, Failure> {
    let too_large = || {
        let reason = format!("{place} answered with more than {most} bytes ('max_value')");
        Failure::new(FailureKind::TooLarge, reason)
    };
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > most {
        return Err(too_large());
    }
    let mut whole = BytesMut::with_capacity(declared);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let cause = error.source().map_or(error.to_string(), ToString::to_string);
            let reason = format!("{place} broke off its answer: {cause}");
            Failure::new(FailureKind::Malformed, reason)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > most {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// What is kept of an answer, and for how long.
fn computed(space: &Space, asked: &Request<()>, head: &Response<()>, body: &[u8]) -> Computed {
    let freshness = match space.honour {
        true => Freshness::of(asked, head, SystemTime::now()),
        false => Freshness::default(),
    };
    let (mut fresh_for, mut stale_for) = (freshness.fresh_for, freshness.stale_for);
    let mut stale_if_error = freshness.stale_if_error;
    if !head.status().is_success() {
        // That something is not there is kept as errors are, unless the upstream says for how long.
        fresh_for = fresh_for.or(Some(space.terms.errors_for));
        stale_for = stale_for.or(Some(Duration::ZERO));
        stale_if_error = stale_if_error.or(Some(Duration::ZERO));
    }
    // What would be neither fresh nor usable is not worth a place.
    let terms = &space.terms;
    let lasts = [
        fresh_for.unwrap_or(terms.fresh_for),
        stale_for.unwrap_or(terms.stale_for),
        stale_if_error.unwrap_or(terms.stale_if_error),
    ];
    let lasts = lasts.iter().any(|time| !time.is_zero());
    Computed {
        value: envelope::pack(head.status(), freshness.no_store, head.headers(), body),
        tags: tags(head.headers()),
        fresh_for,
        stale_for,
        stale_if_error,
        keep: !freshness.no_store && lasts,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::get;
    use consort_kernel::Name;
    use futures::future::join_all;
    use hyper_util::rt::TokioIo;
    use hyper_util::service::TowerToHyperService;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::super::template::Template;
    use super::*;

    fn space(address: SocketAddr) -> Space {
        let upstream = Template::parse(&format!("http://{address}/{{path}}")).unwrap();
        Space::new(Name::new("items").unwrap(), upstream)
    }

    fn question() -> Question {
        let (path, query) = ("a".into(), String::new());
        Question { path, query, headers: HeaderMap::new(), body: None }
    }

    /// An upstream; it counts its connections, and the most requests that it had at once.
    async fn upstream() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, running) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (counted, most) = (Arc::clone(&connections), Arc::<AtomicUsize>::default());
        let highest = Arc::clone(&most);
        let answer = move || {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                "[]"
            }
        };
        let router = axum::Router::new().route("/{path}", get(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let service = TowerToHyperService::new(router.clone());
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        (address, connections, highest)
    }

    #[tokio::test]
    async fn one_request_after_another_has_one_connection() {
        let (address, connections, _) = upstream().await;
        let space = space(address);
        let upstream = Upstream::new(&space);
        for _ in 0..5 {
            upstream.ask(&space, &question()).await.unwrap();
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_herd_of_different_keys_is_no_herd_of_connections() {
        let (address, connections, most) = upstream().await;
        let space = space(address);
        let upstream = Upstream::new(&space);
        let question = question();
        let asked = join_all((0..3 * AT_ONCE).map(|_| upstream.ask(&space, &question))).await;
        assert!(asked.iter().all(Result::is_ok));
        let most = most.load(Ordering::Relaxed);
        assert!((2..=AT_ONCE).contains(&most), "{most}");
        assert!(connections.load(Ordering::Relaxed) >= most);
    }

    #[tokio::test]
    async fn one_who_does_not_take_connections_is_given_up_after_connect_timeout() {
        // Its queue is full: further connections are neither taken nor refused.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let fill = || timeout(Duration::from_millis(200), TcpStream::connect(address));
        let mut queued = Vec::new();
        while let Ok(stream) = fill().await {
            queued.push(stream.unwrap());
        }
        let mut space = space(address);
        (space.connect_timeout, space.timeout) =
            (Duration::from_millis(50), Duration::from_secs(60));
        let failure = Upstream::new(&space).ask(&space, &question()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert!(failure.reason.contains("no connection within 50ms"), "{}", failure.reason);
    }
}
