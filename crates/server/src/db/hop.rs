//! The one hop of a request to another node, and the meaning of what comes back.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant;

use crate::peers::{FORWARDED, PeerError, Peers, RoleOwner};
use crate::problems::{self, ProblemKind};

/// On a forwarded request: for how many milliseconds it may still wait for a worker.
const WAIT: HeaderName = HeaderName::from_static("consort-wait");

/// How much longer than the other node works its answer may take.
const HOP_MARGIN: Duration = Duration::from_millis(500);

/// The largest problem that is looked into: a detail has a few kilobytes.
const PROBLEM_MOST: usize = 64 * 1024;

/// A request that may be sent to another node, more than once.
#[derive(Clone, Debug)]
pub(super) struct HopRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The result of a hop.
#[derive(Debug)]
pub(super) enum HopOutcome {
    /// The answer for the client.
    Answered(Response),
    /// The other node certainly did nothing, and another attempt may help.
    NotTaken(String),
    /// Whether the other node carried the request out is not known.
    Unknown(String),
}

#[derive(Deserialize)]
struct ToldProblem {
    r#type: String,
    #[serde(default)]
    detail: String,
}

impl HopRequest {
    /// Whether the request has made its hop.
    pub(super) fn is_forwarded(&self) -> bool {
        self.headers.contains_key(FORWARDED)
    }

    /// How long the request may wait for a worker: what is left of the first node's wait, or else all of `wait`.
    pub(super) fn wait(&self, wait: Duration) -> Duration {
        let left = self.headers.get(WAIT).filter(|_| self.is_forwarded());
        let left = left.and_then(|left| left.to_str().ok()?.parse().ok());
        left.map_or(wait, |left| wait.min(Duration::from_millis(left)))
    }

    /// Sends the request to another node, where it may wait until `take_by` and then work for `run_time`.
    pub(super) async fn send(
        &self,
        peers: &Peers,
        to: &RoleOwner,
        take_by: Instant,
        run_time: Duration,
    ) -> HopOutcome {
        let wait = take_by.saturating_duration_since(Instant::now());
        let within = wait + run_time + HOP_MARGIN;
        let answer = peers.send(to, self.to_request(wait), within).await;
        match answer {
            Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => judge(answer).await,
            Ok(answer) => HopOutcome::Answered(answer),
            Err(error @ PeerError::Unanswered { .. }) => HopOutcome::Unknown(error.to_string()),
            Err(error) => HopOutcome::NotTaken(error.to_string()),
        }
    }

    fn to_request(&self, wait: Duration) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        // The body is here already: nobody has to ask for it again.
        request.headers_mut().remove(header::EXPECT);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        request.headers_mut().insert(WAIT, HeaderValue::from(millis));
        request
    }
}

/// A 503 of the other node: most are for the client, one says that the work is elsewhere.
async fn judge(answer: Response) -> HopOutcome {
    let (head, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, PROBLEM_MOST).await else {
        return HopOutcome::Unknown("the answer of the other node broke off".to_owned());
    };
    let told = serde_json::from_slice::<ToldProblem>(&body).ok();
    let is = |kind: &ProblemKind| told.as_ref().is_some_and(|told| told.r#type == kind.urn());
    let detail = told.as_ref().map(|told| told.detail.clone()).unwrap_or_default();
    if is(problems::MOVED) {
        HopOutcome::NotTaken(detail)
    } else if is(problems::DB_UNKNOWN_OUTCOME) {
        HopOutcome::Unknown(detail)
    } else {
        HopOutcome::Answered(Response::from_parts(head, Body::from(body)))
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;
    use crate::db::failures;

    fn request(headers: &[(&'static str, &str)]) -> HopRequest {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(*name, value.parse().unwrap());
        }
        let uri = Uri::from_static("/db/notes/write?x=1");
        HopRequest { method: Method::POST, uri, headers: all, body: Bytes::from_static(b"{}") }
    }

    #[test]
    fn a_forwarded_request_waits_for_what_is_left_and_no_other_may_say_so() {
        let two = Duration::from_secs(2);
        for (headers, wait) in [
            (&[][..], two),
            (&[("consort-wait", "5")], two),
            (&[("consort-wait", "5"), ("consort-forwarded", "a")], Duration::from_millis(5)),
            (&[("consort-wait", "9999999"), ("consort-forwarded", "a")], two),
            (&[("consort-wait", "x"), ("consort-forwarded", "a")], two),
            (&[("consort-forwarded", "a")], two),
        ] {
            assert_eq!(request(headers).wait(two), wait, "{headers:?}");
        }
    }

    #[test]
    fn a_request_goes_on_as_it_came() {
        let headers = [("idempotency-key", "k"), ("consort-wait", "1"), ("expect", "100-continue")];
        let sent = request(&headers);
        let sent = sent.to_request(Duration::from_millis(1_500));
        assert_eq!((sent.method(), sent.uri().path()), (&Method::POST, "/db/notes/write"));
        assert_eq!(sent.uri().query(), Some("x=1"));
        assert_eq!(sent.headers()["idempotency-key"], "k");
        assert_eq!(sent.headers()["consort-wait"], "1500");
        assert!(!sent.headers().contains_key("expect"));
    }

    #[tokio::test]
    async fn a_503_is_for_the_client_unless_the_work_is_elsewhere() {
        let judged = |problem: crate::Problem| async { judge(problem.into_response()).await };
        let moved = judged(failures::moved("it leads no more")).await;
        assert!(matches!(moved, HopOutcome::NotTaken(detail) if detail == "it leads no more"));
        let unknown = judged(failures::unknown("open")).await;
        assert!(matches!(unknown, HopOutcome::Unknown(detail) if detail == "open"));
        let HopOutcome::Answered(full) = judged(failures::no_worker("full")).await else {
            panic!("it is for the client")
        };
        assert_eq!(full.headers()["retry-after"], "1");
        let body = to_bytes(full.into_body(), usize::MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains(r#""outcome":"not stored""#));
    }
}
