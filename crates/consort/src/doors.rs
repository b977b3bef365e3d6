//! The ways in and out of a node's streams, views, feeds and spaces of once: HTTP, and datagrams in.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use consort_kernel::Turns;
use consort_once::Once;
use consort_server::axum::Router;
use consort_server::feeds::{self, Feeds};
use consort_server::once::{self, Space, Spaces};
use consort_server::streams::{self, Streams};
use consort_server::udp;
use consort_server::views::{self, Paths, Views};
use consort_server::{Cluster, Express, GateKind, Metrics};
use consort_views::Definitions;

use crate::delivering::Delivering;
use crate::ground::Ground;
use crate::node::cores;

/// Streams in, views and rows out, and answers that are computed once.
#[derive(Debug)]
pub(crate) struct Doors {
    streams: Streams,
    views: Views,
    feeds: Feeds,
    spaces: Spaces,
}

impl Doors {
    pub(crate) fn new(
        definitions: &Arc<Definitions>,
        gates: BTreeMap<String, GateKind>,
        delivering: Delivering,
        once: (&Once, Vec<Space>),
        ground: &Ground,
        cluster: &Cluster,
        metrics: &mut Metrics,
    ) -> io::Result<Doors> {
        // Behind requests, as roles are: a long body must not hold up short ones.
        let intake = ground.threads("intake", cores(), Turns::Later)?;
        let streams = Streams::new(streams::Options {
            definitions,
            gates,
            collector: ground.collector.clone(),
            intake,
            entropy: Arc::clone(&ground.entropy),
            metrics,
        });
        let views = Views::new(views::Options {
            definitions: Arc::clone(definitions),
            store: Arc::clone(&ground.store),
            runtime: Arc::clone(&ground.runtime),
            cluster: cluster.clone(),
            streams: streams.clone(),
            metrics,
        });
        let Delivering { part, catalog, sinks } = delivering;
        let feeds = Feeds::new(feeds::Options {
            catalog,
            sinks,
            figures: part.figures(),
            store: Arc::clone(&ground.store),
            runtime: Arc::clone(&ground.runtime),
            metrics,
        });
        let (once, spaces) = once;
        let spaces = Spaces::new(once::Options { spaces, once: once.clone(), metrics });
        Ok(Doors { streams, views, feeds, spaces })
    }

    /// The feeds, whose subscribers have to go before the server can end.
    pub(crate) fn feeds(&self) -> Feeds {
        self.feeds.clone()
    }

    /// The sockets for datagrams, open and not yet read.
    pub(crate) fn open_udp(
        &self,
        sources: BTreeMap<String, udp::Source>,
        ground: &Ground,
        metrics: &mut Metrics,
    ) -> Result<udp::Bound, udp::BindError> {
        let store = Arc::clone(&ground.store);
        udp::Bound::open(udp::Options { streams: &self.streams, sources, store, metrics })
    }

    pub(crate) fn routes(&self) -> (Router, Express) {
        let mut paths = Paths::default();
        let routes = self.streams.routes(&mut paths).merge(self.views.routes(&mut paths));
        let express = self.streams.express(&mut paths);
        (routes.merge(self.feeds.routes()).merge(self.spaces.routes()), express)
    }
}
