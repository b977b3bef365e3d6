//! The door of the streams: events come in by HTTP, are checked, appended, and acknowledged when they are
//! durable.

pub(crate) mod answers;
pub(crate) mod apart;
mod bulk;
pub(crate) mod inflate;
mod influx;
mod json_list;
pub(crate) mod lines;
mod list;
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

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use consort_cluster::Runtime;
use consort_views::{Definitions, Stream};

use crate::express::{Express, Said};
use crate::gate::GateKind;
use crate::ingress::{Ingress, IngressSpec, Ingresses};
use crate::long_bodies::LongBodies;
pub use lines::{Line, Split};
pub use list::{OtherWays, list_routes};
pub use points::PointLines;
use post::Form;
pub(crate) use post::{Outcome, no_such_stream, unreadable};
pub(crate) use reader::now;
pub(crate) use route::Posted;
pub use route::StreamRoute;
pub(crate) use sorted::{Encoder, Sorted};

/// The path of every stream. One of lines has its own besides, so that its bodies can be told from others
/// before they are read.
const PATH: &str = "/streams/{stream}";

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
    /// Where the streams get their ingress.
    pub ingresses: &'a Ingresses,
    /// Where the events of bodies that are not small are taken: threads that no other requests share.
    pub intake: Arc<dyn Runtime>,
}

/// The streams over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Streams(Arc<BTreeMap<String, Arc<Entrance>>>);

/// One stream's way in: its ingress, and what its events are.
pub(crate) struct Entrance {
    pub(crate) stream: Arc<Stream>,
    pub(crate) ingress: Ingress,
    /// Where the events of bodies that are not small are taken.
    intake: Arc<dyn Runtime>,
}

impl Streams {
    /// The doors of all streams.
    pub fn new(options: Options<'_>) -> Streams {
        let Options { definitions, gates, ingresses, intake } = options;
        let entrance = |stream: &Arc<Stream>| {
            let name = stream.name.to_string();
            let ingress = ingresses.open(IngressSpec {
                stream: stream.name.clone(),
                partitions: stream.partitions,
                gate: gates.get(&name).copied().unwrap_or_default(),
                keys_for: stream.ids_for,
            });
            let (stream, intake) = (Arc::clone(stream), Arc::clone(&intake));
            (name, Arc::new(Entrance { stream, ingress, intake }))
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
                routes = routes.route(&path_of(name), handler);
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

    /// The routes that take lines of any number.
    pub fn long_bodies(&self) -> LongBodies {
        let of_lines = |headers: &HeaderMap| Form::of(&Said::by(headers)) == Some(Form::Lines);
        let long = LongBodies::default().with(PATH, of_lines);
        let long = long.with(WRITE_V1, |_| true).with(WRITE_V2, |_| true);
        let streams_of_lines =
            self.0.iter().filter(|(_, entrance)| entrance.stream.schema.form().is_line());
        streams_of_lines.fold(long, |long, (name, _)| long.with(path_of(name), |_| true))
    }

    /// The entrances, by the names of their streams.
    pub(crate) fn entrances(&self) -> &BTreeMap<String, Arc<Entrance>> {
        &self.0
    }
}

/// The path of a stream of lines.
fn path_of(stream: &str) -> String {
    format!("/streams/{stream}")
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}
