//! The door of the streams: events come in by HTTP, are checked, appended, and acknowledged when they are
//! durable.

mod answers;
mod bulk;
mod lines;
mod metrics;
mod post;
mod sorted;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::routing::post;
use consort_cluster::Collector;
use consort_kernel::Entropy;
use consort_views::{Definitions, Stream};

use crate::gate::{Gate, GateKind, GateMetrics};
use crate::metrics::Metrics;
pub(crate) use metrics::StreamMetrics;
pub(crate) use post::no_such_stream;

/// How long a post may take in all: the gate's wait, and the log's answer.
pub(crate) const POST_WITHIN: Duration = Duration::from_secs(10);

/// The path of every stream.
const PATH: &str = "/streams/{stream}";

/// What the door needs.
#[derive(Debug)]
pub struct Options<'a> {
    /// The streams.
    pub definitions: &'a Definitions,
    /// The gate of each stream; adaptive where none is named.
    pub gates: BTreeMap<String, GateKind>,
    /// Appends.
    pub collector: Collector,
    /// Randomness for the gates.
    pub entropy: Arc<dyn Entropy>,
    /// Where the door's figures are shown.
    pub metrics: &'a mut Metrics,
}

/// The streams over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Streams(Arc<BTreeMap<String, Arc<Entrance>>>);

/// One stream's way in.
pub(crate) struct Entrance {
    pub(crate) stream: Arc<Stream>,
    pub(crate) gate: Gate,
    pub(crate) collector: Collector,
    pub(crate) metrics: StreamMetrics,
}

impl Streams {
    /// The doors of all streams.
    pub fn new(options: Options<'_>) -> Streams {
        let Options { definitions, gates, collector, entropy, metrics } = options;
        let gate_metrics = GateMetrics::register(metrics);
        let counts = metrics::Counts::register(metrics.registry());
        let entrance = |stream: &Arc<Stream>| {
            let name = stream.name.to_string();
            let kind = gates.get(&name).copied().unwrap_or_default();
            let gate = Gate::new(&name, kind, Arc::clone(&entropy), &gate_metrics);
            let entrance = Entrance {
                stream: Arc::clone(stream),
                gate,
                collector: collector.clone(),
                metrics: counts.of(&name),
            };
            (name, Arc::new(entrance))
        };
        Streams(Arc::new(definitions.streams.iter().map(entrance).collect()))
    }

    /// `/streams/{stream}` and the streams' own routes.
    pub fn routes(&self, paths: &mut crate::views::Paths) -> Router {
        let mut routes = Router::new().route(PATH, post(post::by_name).with_state(self.clone()));
        for entrance in self.0.values() {
            if let Some(route) = &entrance.stream.route {
                let handler = post(post::by_route).with_state(Arc::clone(entrance));
                routes = routes.route(paths.of(route), handler);
            }
        }
        routes
    }

    /// The entrances, by the names of their streams.
    pub(crate) fn entrances(&self) -> &BTreeMap<String, Arc<Entrance>> {
        &self.0
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Whether a request's body is taken in pieces, so that it may be of any length.
pub(crate) fn takes_any_length(request: &Request, matched: Option<&MatchedPath>) -> bool {
    matched.is_some_and(|path| path.as_str() == PATH)
        && post::Form::of(request.headers()) == Some(post::Form::Lines)
}
