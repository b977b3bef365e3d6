//! The short way for what a node is sent most: single events, posted to a stream's own route.
//!
//! Such a post needs little of what hyper and the router do for every request, and a good part of what it costs is
//! there. So posts that are plain in every respect are taken here: a known and short body,
//! no escapes in the path, whose fields all fit, the right content type, and an access token where one is
//! asked for. Everything else goes on to the router untouched, which also says what is wrong with it.
//!
//! A connection that has brought nothing else needs no hyper ([`connection`]). Once it has, hyper reads it, and plain
//! posts leave its way here.

pub(crate) mod connection;
mod head;

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::body::BodyFault;
use crate::door::{Door, defect};
use crate::metrics::RouteMetrics;
use crate::problem::Problem;
use crate::streams::{self, Outcome, Posted, StreamRoute};
use crate::tenants::Caller;
pub(crate) use head::Said;

/// Longer bodies take the router's way, where they are read under guard.
const SHORT_BODY: u64 = 16 * 1024;

/// The routes of streams, and all paths that are declared.
#[derive(Debug, Default)]
pub struct Express {
    pub(crate) routes: Vec<StreamRoute>,
    pub(crate) paths: Vec<String>,
}

impl Express {
    /// Adds the routes and paths of another part.
    pub fn merge(&mut self, other: Express) {
        self.routes.extend(other.routes);
        self.paths.extend(other.paths);
    }
}

/// The short way of one server.
#[derive(Debug)]
pub(crate) struct Way {
    /// With nothing for a path that is somebody else's: where two fit a request, the more literal one has it,
    /// here as in the router.
    routes: matchit::Router<Option<(StreamRoute, RouteMetrics)>>,
    door: Arc<Door>,
}

impl Way {
    pub(crate) fn new(express: Express, door: Arc<Door>) -> Way {
        let mut routes = matchit::Router::new();
        for route in express.routes {
            let path = route.path().to_owned();
            // One that begins with a field would also fit the server's own paths, which are not known here.
            if path.starts_with("/{") {
                continue;
            }
            let metrics = door.metrics.route(&path, &Method::POST);
            // What the router takes for the same path as another is left to the router.
            let _ = routes.insert(path, Some((route, metrics)));
        }
        for path in express.paths {
            // Those of the routes above are there.
            let _ = routes.insert(path, None);
        }
        Way { routes, door }
    }

    /// A request that hyper has read, if it is a plain post of events.
    pub(crate) fn plain_of(&self, request: &Request<Incoming>) -> Option<Plain> {
        let path = request.uri().path();
        let length = request.body().size_hint().exact()?;
        if request.method() != Method::POST
            || path.contains('%')
            || request.uri().authority().is_some()
            || !self.door.web.is_plain(request.headers())
        {
            return None;
        }
        self.plain(path, &Said::by(request.headers()), length)
    }

    /// Whether a `Host` is good. What is wrong with another one, the door tells.
    fn accepts_host(&self, host: &[u8]) -> bool {
        self.door.web.accepts_host(host)
    }

    /// A plain post of events: to this path, with these headers, and a body of this length.
    fn plain(&self, path: &str, said: &Said<'_>, length: u64) -> Option<Plain> {
        let began = Instant::now();
        if length > SHORT_BODY.min(self.door.limits.max_body) {
            return None;
        }
        let matchit::Match { value, params } = self.routes.at(path).ok()?;
        let (route, metrics) = value.as_ref()?;
        // A tenant's token is refused by the door, in its words.
        let caller = self.door.tokens.admit(said.authorization).ok()?;
        if caller != Caller::Operator {
            return None;
        }
        let posted = route.posted(params.iter().map(|(_, text)| text), said)?;
        Some(Plain { began, posted, metrics: metrics.clone(), door: Arc::clone(&self.door) })
    }
}

/// A plain post. Nothing of its head is kept: the connection reads on meanwhile, and needs the room.
pub(crate) struct Plain {
    began: Instant,
    posted: Posted,
    metrics: RouteMetrics,
    door: Arc<Door>,
}

impl Plain {
    /// The answer to the events of its body, which hyper reads.
    pub(crate) async fn answer(self, body: Incoming) -> Result<Response, Infallible> {
        let Plain { began, posted, metrics, door } = self;
        let response = match whole(body, door.limits.body).await {
            Ok(body) => catch(posted.events(body)).await.into_response(),
            Err(cut) => cut.answer(&door),
        };
        door.metrics.answered_by(&metrics, response.status(), began.elapsed());
        Ok(response)
    }
}

/// The answer, if need be that there was a defect.
async fn catch(answer: impl Future<Output = Result<Outcome, Problem>>) -> Outcome {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(Ok(answer)) => answer,
        Ok(Err(problem)) => Outcome::Other(problem.into_response()),
        Err(_) => Outcome::Other(defect()),
    }
}

/// Why a body is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Slow(Duration),
    Short,
}

impl Cut {
    fn answer(self, door: &Door) -> Response {
        match self {
            Cut::Slow(patience) => {
                door.metrics.timed_out("body");
                BodyFault::Slow(patience).problem().into_response()
            }
            Cut::Short => streams::unreadable().into_response(),
        }
    }
}

/// All of a body, which mostly has come with its head.
async fn whole(body: Incoming, patience: Duration) -> Result<Bytes, Cut> {
    let mut collecting = pin!(body.collect());
    // hyper hands a body out when it has been asked for once. So the first answer is that nothing is there;
    // who asks again at once saves a timer.
    let mut asked = false;
    let there = poll_fn(|context| match collecting.as_mut().poll(context) {
        Poll::Ready(collected) => Poll::Ready(Some(collected)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    let collected = match there.await {
        Some(collected) => collected,
        None => {
            tokio::time::timeout(patience, collecting).await.map_err(|_| Cut::Slow(patience))?
        }
    };
    Ok(collected.map_err(|_| Cut::Short)?.to_bytes())
}
