//! Once over HTTP: `GET /once/{name}/{path…}?{query}` is asked of the upstream once, and everybody who asks for the
//! same gets that answer, on any node.
//!
//! `asked.rs` makes the key, `upstream/` asks, `envelope.rs` is how an answer is kept, `reply.rs` how it goes out.

mod answers;
mod asked;
mod element;
mod envelope;
mod freshness;
mod metrics;
mod parameters;
mod purge;
mod refusals;
mod reply;
mod space;
mod template;
mod upstream;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue};
use axum::routing::get;
pub use consort_once::OnError;
use consort_once::{Once, OnceKey, Terms};

use crate::metrics::Metrics;
use crate::problem::Problem;
use asked::Asked;
pub(crate) use envelope::VERSION as ENVELOPE_VERSION;
use metrics::Counts;
pub use space::{CONNECT_TIMEOUT, HEADERS_MOST, Space, TIMEOUT, passable};
pub use template::Template;
use upstream::Upstream;

/// What all paths begin with.
const PREFIX: &str = "/once/";

/// What the spaces need.
#[derive(Debug)]
pub struct Options<'a> {
    /// The spaces, each with a name of its own.
    pub spaces: Vec<Space>,
    /// Where answers are found, and computed once.
    pub once: Once,
    /// Where the figures are shown.
    pub metrics: &'a mut Metrics,
}

/// The spaces over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Spaces(Arc<Shared>);

struct Shared {
    once: Once,
    rooms: BTreeMap<String, Arc<Room>>,
}

/// One space, ready to be asked.
struct Room {
    space: Space,
    /// Its terms, for answers as they are kept.
    terms: Terms,
    upstream: Upstream,
    /// The headers that split its answers.
    vary: Option<HeaderValue>,
    counts: Counts,
}

impl Spaces {
    /// Ready to be served. Nothing is connected yet.
    pub fn new(options: Options<'_>) -> Spaces {
        let Options { spaces, once, metrics } = options;
        let figures = metrics::register(metrics, &once);
        let room = |space: Space| {
            let name = space.name.to_string();
            let names: Vec<&str> = space.headers.iter().map(|name| name.as_str()).collect();
            let vary = HeaderValue::try_from(names.join(", ")).ok().filter(|vary| !vary.is_empty());
            let room = Room {
                terms: space.kept_terms(),
                upstream: Upstream::new(&space),
                counts: figures.of(&name),
                vary,
                space,
            };
            (name, Arc::new(room))
        };
        Spaces(Arc::new(Shared { rooms: spaces.into_iter().map(room).collect(), once }))
    }

    /// `/once`, and what is below it.
    pub fn routes(&self) -> Router {
        // A wildcard takes no empty path.
        let answers = || get(answers::get).post(answers::post).delete(answers::delete);
        Router::new()
            .route("/once", get(answers::list))
            .route("/once/{name}", answers())
            .route("/once/{name}/", answers())
            .route("/once/{name}/{*path}", answers())
            .with_state(self.clone())
    }

    fn once(&self) -> &Once {
        &self.0.once
    }

    fn rooms(&self) -> impl Iterator<Item = &Arc<Room>> {
        self.0.rooms.values()
    }

    /// The room that a path names, and the rest of the path as it came.
    fn find<'a>(&self, path: &'a str) -> Result<(&Arc<Room>, &'a str), Problem> {
        let below = path.strip_prefix(PREFIX).unwrap_or_default();
        let (name, rest) = below.split_once('/').unwrap_or((below, ""));
        match self.0.rooms.get(name) {
            Some(room) => Ok((room, rest)),
            None => Err(refusals::no_such_space(self.0.rooms.keys().map(String::as_str), name)),
        }
    }
}

impl Room {
    /// Those of a request's headers that the upstream gets, each as one value.
    fn passed(&self, headers: &HeaderMap) -> HeaderMap {
        let mut passed = HeaderMap::new();
        for name in &self.space.headers {
            let values: Vec<&[u8]> =
                headers.get_all(name).into_iter().map(HeaderValue::as_bytes).collect();
            // Values that were fit to be sent are fit when they are joined.
            if !values.is_empty()
                && let Ok(value) = HeaderValue::from_bytes(&values.join(&b", "[..]))
            {
                passed.insert(name.clone(), value);
            }
        }
        passed
    }

    /// The key: path, query, parameters, and the headers that are passed.
    fn key(&self, asked: &Asked, parameters: Option<&str>, passed: &HeaderMap) -> OnceKey {
        // Parameters have at least their braces, so that a request without any is another one.
        let parameters = parameters.unwrap_or_default().as_bytes();
        let parts = [asked.path.as_bytes(), asked.query.as_bytes(), parameters];
        if passed.is_empty() {
            return OnceKey::new(&self.space.name, &parts);
        }
        let mut parts = parts.to_vec();
        for name in &self.space.headers {
            if let Some(value) = passed.get(name) {
                parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
            }
        }
        OnceKey::new(&self.space.name, &parts)
    }
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.rooms.keys()).finish()
    }
}
