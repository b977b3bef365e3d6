//! The door of the streams: events come in by HTTP, are checked, appended, and acknowledged when they are
//! durable.

mod answers;
mod apart;
mod bulk;
mod inflate;
mod influx;
mod lines;
mod list;
mod metrics;
#[cfg(test)]
mod overload;
mod points;
mod post;
mod reader;
mod route;
mod sorted;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::routing::{get, post};
use consort_cluster::{Appending, Collector, Dock, Runtime};
use consort_kernel::{AppendError, Entropy, Records};
use consort_views::{Definitions, Stream};

use crate::express::{Express, Said};
use crate::gate::{Gate, GateKind, GateMetrics};
use crate::metrics::Metrics;
pub use lines::{Line, Split};
pub(crate) use metrics::StreamMetrics;
pub use points::PointLines;
pub(crate) use post::{Outcome, no_such_stream, unreadable};
pub(crate) use reader::now;
pub(crate) use route::Posted;
pub use route::StreamRoute;
pub(crate) use sorted::Sorted;

/// How long a post may take in all: the gate's wait, and the log's answer.
pub(crate) const POST_WITHIN: Duration = Duration::from_secs(10);

/// The path of every stream. One of lines has its own besides, so that its bodies can be told from others
/// before they are read.
const PATH: &str = "/streams/{stream}";
const OF_STREAM: &str = "/streams/";

/// The paths of InfluxDB by which lines come.
const WRITE_V1: &str = "/write";
const WRITE_V2: &str = "/api/v2/write";

/// What the door needs.
#[derive(Debug)]
pub struct Options<'a> {
    /// The streams.
    pub definitions: &'a Definitions,
    /// The gate of each stream; adaptive where none is named.
    pub gates: BTreeMap<String, GateKind>,
    /// Appends.
    pub collector: Collector,
    /// Where the events of bodies that are not small are taken: threads that no other requests share.
    pub intake: Arc<dyn Runtime>,
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
    /// Where records of each partition wait.
    docks: Vec<Dock>,
    /// Where the events of bodies that are not small are taken.
    intake: Arc<dyn Runtime>,
    pub(crate) metrics: StreamMetrics,
}

impl Entrance {
    /// Has records appended to a partition: see [`Dock::enqueue`].
    pub(crate) fn enqueue(&self, index: u32, records: Records) -> Result<Appending, AppendError> {
        self.docks[index as usize].enqueue(records)
    }
}

impl Streams {
    /// The doors of all streams.
    pub fn new(options: Options<'_>) -> Streams {
        let Options { definitions, gates, collector, intake, entropy, metrics } = options;
        let gate_metrics = GateMetrics::register(metrics);
        let counts = metrics::Counts::register(metrics.registry());
        let entrance = |stream: &Arc<Stream>| {
            let name = stream.name.to_string();
            let kind = gates.get(&name).copied().unwrap_or_default();
            let gate = Gate::new(&name, kind, Arc::clone(&entropy), &gate_metrics);
            let entrance = Entrance {
                stream: Arc::clone(stream),
                gate,
                docks: (0..stream.partitions)
                    .map(|index| collector.dock(&stream.partition(index)))
                    .collect(),
                intake: Arc::clone(&intake),
                metrics: counts.of(&name),
            };
            (name, Arc::new(entrance))
        };
        Streams(Arc::new(definitions.streams.iter().map(entrance).collect()))
    }

    /// `/streams/{stream}`, the streams' own routes, and those of InfluxDB.
    pub fn routes(&self, paths: &mut crate::views::Paths) -> Router {
        let mut routes = Router::new()
            .route(PATH, post(post::by_name))
            .route(WRITE_V1, post(influx::write_v1))
            .route(WRITE_V2, post(influx::write_v2))
            .route("/ping", get(influx::ping))
            .route("/query", post(influx::query))
            .with_state(self.clone());
        for (name, entrance) in self.0.iter() {
            if entrance.stream.schema.form().is_line() {
                let handler = post(post::to_lines).with_state(Arc::clone(entrance));
                routes = routes.route(&format!("{OF_STREAM}{name}"), handler);
            }
            if let Some(route) = &entrance.stream.route {
                let handler = post(post::by_route).with_state(Arc::clone(entrance));
                routes = routes.route(paths.of(route), handler);
            }
        }
        routes
    }

    /// The streams' own routes, for posts that are plain. `paths` must hold those of the views as well by now.
    pub fn express(&self, paths: &mut crate::views::Paths) -> Express {
        let entrances = self.0.values();
        let routes = entrances.filter_map(|entrance| {
            let path = paths.of(entrance.stream.route.as_ref()?).to_owned();
            Some(StreamRoute::new(path, Arc::clone(entrance)))
        });
        Express { routes: routes.collect(), paths: paths.all() }
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
    let Some(path) = matched.map(MatchedPath::as_str) else { return false };
    match path {
        PATH => post::Form::of(&Said::by(request.headers())) == Some(post::Form::Lines),
        WRITE_V1 | WRITE_V2 => true,
        // Only streams of lines have a path of their own there.
        _ => path.strip_prefix(OF_STREAM).is_some_and(|name| !name.contains(['/', '{'])),
    }
}
