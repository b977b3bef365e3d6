//! What every request passes on its way in and every answer on its way out: the rules on framing, hosts
//! and web pages, the access token, the guard on the body, the net under a panicking handler, and the
//! count in the metrics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;

use crate::body::{BodyFault, GuardedBody};
use crate::framing;
use crate::limits::Limits;
use crate::long_bodies::LongBodies;
use crate::memory::BodyMemory;
use crate::metrics::HttpMetrics;
use crate::problem::Problem;
use crate::problems;
use crate::tokens::{Refusal, Tokens};
use crate::web::{self, Visitor, WebGuard};

/// Probes of load balancers and orchestrators carry no token, and what they learn is harmless.
const OPEN_TO_ALL: [&str; 2] = ["/healthz", "/readyz"];

/// The label of requests that no route matched: their paths are the clients' invention, so they
/// share one.
const UNMATCHED: &str = "unmatched";

#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) tokens: Tokens,
    pub(crate) web: WebGuard,
    pub(crate) limits: Limits,
    pub(crate) long_bodies: LongBodies,
    pub(crate) memory: BodyMemory,
    pub(crate) metrics: HttpMetrics,
}

pub(crate) async fn pass(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let streamed = door.long_bodies.allow(route, request.headers());
    let response = door.answer(request, next, streamed).await;
    door.metrics.answered(route, &method, response.status(), began.elapsed());
    response
}

impl Door {
    async fn answer(&self, request: Request, next: Next, streamed: bool) -> Response {
        let (head, body) = request.into_parts();
        let visitor = match self.visitor(&head) {
            Ok(visitor) => visitor,
            Err(problem) => return problem.into_response(),
        };
        let mut response = match self.web.preflight(&head, &visitor) {
            Some(answer) => answer,
            None => match self.admit(&head) {
                Ok(()) => self.serve(Request::from_parts(head, body), next, streamed).await,
                Err(refusal) => refusal.into_response(),
            },
        };
        self.web.sign(visitor, response.headers_mut());
        response
    }

    /// Refuses requests whose length or host is in doubt, and pages of other origins.
    fn visitor(&self, head: &Parts) -> Result<Visitor, Problem> {
        framing::check(&head.headers)?;
        match self.web.visitor(head)? {
            // Without tokens every request is admitted, so a token proves something only where there are some.
            Visitor::Foreign if self.tokens.is_empty() || self.token(head).is_err() => {
                Err(web::foreign(&head.headers))
            }
            visitor => Ok(visitor),
        }
    }

    fn admit(&self, head: &Parts) -> Result<(), Refusal> {
        if OPEN_TO_ALL.contains(&head.uri.path()) { Ok(()) } else { self.token(head) }
    }

    fn token(&self, head: &Parts) -> Result<(), Refusal> {
        let given = head.headers.get(header::AUTHORIZATION);
        self.tokens.admit(given.map(|value| value.as_bytes()))
    }

    async fn serve(&self, request: Request, next: Next, streamed: bool) -> Response {
        // A declared length beyond the bound is refused before a byte of the body is read.
        if !streamed && request.body().size_hint().lower() > self.limits.max_body {
            return BodyFault::TooLarge(self.limits.max_body).problem().into_response();
        }
        // Most questions have no body, and nothing to guard.
        if request.body().is_end_stream() {
            return catch_panic(next.run(request)).await;
        }
        let (mut head, body) = request.into_parts();
        // Given back when the request is answered.
        let share = self.memory.share();
        head.extensions.insert(share.clone());
        let Limits { max_body, body: patience, .. } = self.limits;
        let (body, note) = match streamed {
            true => GuardedBody::streamed(body, patience),
            false => GuardedBody::new(body, max_body, patience, share.clone()),
        };
        let mut request = Request::from_parts(head, Body::new(body));
        // The guard on the body is the one bound on its size; axum's own would answer first, in its
        // own words.
        DefaultBodyLimit::disable().apply(&mut request);
        let response = catch_panic(next.run(request)).await;
        match note.fault() {
            Some(fault) if !response.status().is_success() => {
                if let BodyFault::Slow(_) = fault {
                    self.metrics.timed_out("body");
                }
                fault.problem().into_response()
            }
            _ => response,
        }
    }
}

/// A handler that panics is a defect, but one request's defect: it answers 500 and the connection
/// lives on.
fn catch_panic(handler: impl Future<Output = Response>) -> impl Future<Output = Response> {
    AssertUnwindSafe(handler).catch_unwind().map(|answered| match answered {
        Ok(response) => response,
        Err(_) => defect(),
    })
}

/// What a handler that panicked answers.
pub(crate) fn defect() -> Response {
    tracing::error!("a request handler panicked; the panic's own message stands above in this log");
    Problem::new(
        problems::DEFECT,
        "this request met a defect of Consort; the node's log has the details, please report them",
    )
    .into_response()
}
