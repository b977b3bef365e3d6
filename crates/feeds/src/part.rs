//! The part of a node that delivers changes: a role for each sink and shard, and one for each feed that trims it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::{ResolveError, Resume};
use consort_cluster::{Ended, Part, Role, Runtime, Tenure};
use consort_kernel::{Entropy, Name, Publisher, Shard, Store};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use crate::cell::{CursorCell, Holder};
use crate::deliverer::SinkFeed;
use crate::figures::{Figures, SinkFigures};
use crate::marks::Keep;
use crate::names;
use crate::outlet::{Outlet, OutletError, outlets};
use crate::resolve::Decision;
use crate::says::Says;
use crate::sink::config::SinkConfig;
use crate::sink::{Sink, Unopened, open};
use crate::spec::FeedSpec;
use crate::subjects::SendMode;
use crate::trimmer::{PARKED_KEPT, Trimmer};

/// The kinds of roles.
const DELIVER: &str = "deliver";
const TRIM: &str = "trim";

/// How long one request may take, with the look at the cursor before it. A sink that is slower than this is
/// given smaller requests by nobody, so it is long; a new deliverer waits for as long, so it is not longer.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// What a new deliverer waits beyond that, for timers that fire late.
const SLACK: Duration = Duration::from_secs(1);

/// Bounds on the time of requests. They are to be the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For one request, with the look at the cursor before it.
    pub request_within: Duration,
    /// What a new deliverer waits beyond that.
    pub slack: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { request_within: REQUEST_WITHIN, slack: SLACK }
    }
}

/// What the part stands on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the feeds are.
    pub store: Arc<dyn Store>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Whether no other process can be at work on the store.
    pub sole: bool,
    /// Bounds on the time of requests.
    pub timing: Timing,
    /// The ways to the brokers of sinks that have one, by the sinks' names.
    pub publishers: BTreeMap<String, Arc<dyn Publisher>>,
}

/// Delivers changes, and trims their feeds.
pub struct FeedsPart {
    options: Options,
    /// Drawn at each start of a process.
    process: u64,
    outlets: Vec<Open>,
    feeds: Vec<Arc<FeedSpec>>,
    figures: Figures,
}

/// Why feeds cannot be delivered as they are declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedsError {
    /// A feed names a sink that it cannot be delivered to.
    #[error(transparent)]
    Outlet(#[from] OutletError),
    /// A sink cannot be used as it is declared.
    #[error(transparent)]
    Unopened(#[from] Unopened),
}

/// A sink that is ready to take changes.
#[derive(Clone, Debug)]
pub struct OpenSink {
    /// Its name.
    pub name: Name,
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// How it gets the changes of documents.
    pub send: SendMode,
}

struct Open {
    name: Name,
    sink: Arc<dyn Sink>,
    send: SendMode,
    feeds: Vec<Arc<FeedSpec>>,
    /// The list of refused changes.
    parked: Name,
    figures: Arc<SinkFigures>,
}

impl Open {
    fn new(sink: OpenSink, feeds: Vec<Arc<FeedSpec>>) -> Result<Open, Unopened> {
        let OpenSink { name, sink, send } = sink;
        let unopened = |reason| Unopened { sink: name.to_string(), reason };
        let parked = names::parked(&name).map_err(|error| unopened(error.to_string()))?;
        Ok(Open { name, sink, send, feeds, parked, figures: Arc::default() })
    }
}

impl FeedsPart {
    /// The part for these feeds. `sinks` are all that are declared; those that no feed names are not opened.
    pub fn new(
        feeds: Vec<FeedSpec>,
        sinks: &[SinkConfig],
        options: Options,
    ) -> Result<Self, FeedsError> {
        let feeds: Vec<Arc<FeedSpec>> = feeds.into_iter().map(Arc::new).collect();
        let mut open_outlets = Vec::new();
        for Outlet { sink: config, feeds } in outlets(sinks, &feeds)? {
            let sink = open(&config, options.publishers.get(config.name.as_str()))?;
            let sink = OpenSink { name: config.name, sink, send: config.send };
            open_outlets.push(Open::new(sink, feeds)?);
        }
        Ok(FeedsPart::from_open(feeds, open_outlets, options))
    }

    /// The part for these feeds, with sinks of the caller's own. Each gets the feeds that name it.
    pub fn with_sinks(
        feeds: Vec<FeedSpec>,
        sinks: Vec<OpenSink>,
        options: Options,
    ) -> Result<Self, FeedsError> {
        let feeds: Vec<Arc<FeedSpec>> = feeds.into_iter().map(Arc::new).collect();
        let its_feeds = |sink: &Name| {
            let names = |spec: &&Arc<FeedSpec>| spec.sinks.iter().any(|name| name == sink.as_str());
            feeds.iter().filter(names).cloned().collect()
        };
        let open = |sink: OpenSink| {
            let feeds = its_feeds(&sink.name);
            Open::new(sink, feeds)
        };
        let outlets = sinks.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(FeedsPart::from_open(feeds, outlets, options))
    }

    fn from_open(mut feeds: Vec<Arc<FeedSpec>>, outlets: Vec<Open>, options: Options) -> Self {
        feeds.sort_by(|a, b| a.feed.cmp(&b.feed));
        feeds.dedup_by(|a, b| a.feed == b.feed);
        let figures = outlets.iter().map(|open| (open.name.clone(), Arc::clone(&open.figures)));
        let figures = Figures(figures.collect());
        let process = options.entropy.next();
        FeedsPart { options, process, outlets, feeds, figures }
    }

    /// The feeds, in the order of their names in the store.
    pub fn feeds(&self) -> &[Arc<FeedSpec>] {
        &self.feeds
    }

    /// What this node counts of its sinks.
    pub fn figures(&self) -> Figures {
        self.figures.clone()
    }

    /// Has a deliverer that stopped go on at `from`: tells the change that it begins with. `None` if it is no
    /// role of this part's.
    pub fn resolve(
        &self,
        role: &Role,
        from: Resume,
    ) -> Option<BoxFuture<'static, Result<u64, ResolveError>>> {
        let (outlet, shard) = self.deliverer(role)?;
        let decision = Decision {
            store: Arc::clone(&self.options.store),
            runtime: Arc::clone(&self.options.runtime),
            role: role.clone(),
            sink: outlet.name.clone(),
            shard,
            feeds: outlet.feeds.iter().map(|spec| spec.feed.clone()).collect(),
        };
        Some(decision.carry_out(from).boxed())
    }

    /// The outlet and shard that a role delivers.
    fn deliverer(&self, role: &Role) -> Option<(&Open, Shard)> {
        let (sink, shard) = role.name().rsplit_once('/').filter(|_| role.kind() == DELIVER)?;
        let outlet = self.outlets.iter().find(|outlet| outlet.name.as_str() == sink)?;
        let shard = shard.parse().ok().filter(|shard| *shard < self.options.store.shards())?;
        Some((outlet, Shard(shard)))
    }

    fn deliver(&self, outlet: &Open, shard: Shard, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let says = Says::new(tenure.clone());
        let Options { store, runtime, entropy, sole, timing, .. } = &self.options;
        let me = Holder { process: self.process, tenure: entropy.next() };
        let sink_feed = |spec: &Arc<FeedSpec>| {
            let key = names::cursor(&outlet.name, &spec.feed);
            let (store, runtime) = (Arc::clone(store), Arc::clone(runtime));
            Arc::new(SinkFeed {
                cell: CursorCell {
                    store: Arc::clone(&store),
                    runtime: Arc::clone(&runtime),
                    shard,
                    key,
                },
                store,
                runtime,
                entropy: Arc::clone(entropy),
                timing: *timing,
                sole: *sole,
                sink: Arc::clone(&outlet.sink),
                sink_name: outlet.name.clone(),
                send: outlet.send,
                spec: Arc::clone(spec),
                parked: outlet.parked.clone(),
                shard,
                me,
                figures: Arc::clone(&outlet.figures),
                says: says.clone(),
            })
        };
        let sink_feeds: Vec<Arc<SinkFeed>> = outlet.feeds.iter().map(sink_feed).collect();
        async move {
            tenure.ready();
            join_all(sink_feeds.into_iter().map(|sink_feed| sink_feed.run(tenure.clone()))).await;
            Ended::Drained
        }
        .boxed()
    }

    fn trimmer(&self, list: &str) -> Option<Trimmer> {
        let feed = self.feeds.iter().find(|spec| spec.feed.as_str() == list);
        let feed = feed.map(|spec| (&spec.feed, Keep::from(spec.retention)));
        let parked = self.outlets.iter().map(|outlet| &outlet.parked);
        let parked = parked.into_iter().find(|parked| parked.as_str() == list);
        let (feed, keep) = feed.or(parked.map(|parked| (parked, PARKED_KEPT)))?;
        let takes = |outlet: &&Open| outlet.feeds.iter().any(|spec| spec.feed == *feed);
        Some(Trimmer {
            store: Arc::clone(&self.options.store),
            runtime: Arc::clone(&self.options.runtime),
            feed: feed.clone(),
            keep,
            sinks: self.outlets.iter().filter(takes).map(|outlet| outlet.name.clone()).collect(),
        })
    }
}

/// The role that delivers to `sink` what is in `shard`.
pub fn deliverer_role(sink: &Name, shard: Shard) -> Role {
    Role::new(DELIVER, format!("{sink}/{}", shard.0))
}

impl Part for FeedsPart {
    fn roles(&self) -> Vec<Role> {
        let shards = self.options.store.shards();
        let deliverers = self
            .outlets
            .iter()
            .flat_map(|outlet| (0..shards).map(|shard| deliverer_role(&outlet.name, Shard(shard))));
        let feeds = self.feeds.iter().map(|spec| &spec.feed);
        let lists = feeds.chain(self.outlets.iter().map(|outlet| &outlet.parked));
        deliverers.chain(lists.map(|list| Role::new(TRIM, list.as_str()))).collect()
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let role = tenure.role().clone();
        let trimmer = (role.kind() == TRIM).then(|| self.trimmer(role.name())).flatten();
        if let Some(trimmer) = trimmer {
            return trimmer.run(tenure).boxed();
        }
        match self.deliverer(&role) {
            Some((outlet, shard)) => self.deliver(outlet, shard, tenure),
            None => async move {
                Ended::Yielded { reason: format!("this node does not know the work of {role}") }
            }
            .boxed(),
        }
    }
}

impl fmt::Debug for FeedsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sinks: Vec<&Name> = self.outlets.iter().map(|outlet| &outlet.name).collect();
        let feeds: Vec<&Name> = self.feeds.iter().map(|spec| &spec.feed).collect();
        f.debug_struct("FeedsPart")
            .field("sinks", &sinks)
            .field("feeds", &feeds)
            .finish_non_exhaustive()
    }
}
