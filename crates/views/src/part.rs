//! The part of a node that folds streams: a role for each partition, one for each stream that lets go of
//! what is old, one that consumes the queue that fills a stream, and for each view with windows one in every shard
//! that closes them.

mod closer;
mod emission;
mod gone;
mod keeper;
mod messages;
mod rules;
mod watermarks;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use consort_cluster::worker::{self, Plan};
use consort_cluster::{Appender, Collector, Ended, Part, Role, Runtime, Tenure, queue_consumer};
use consort_kernel::{Entropy, Inlet, Log, Most, Name, Shard, Store};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::definitions::Definitions;
use crate::plan::StreamPlan;
use crate::stream::Stream;
use crate::view::View;
use messages::StreamMessages;
pub use rules::{Rule, Rules};
use watermarks::Watermarks;

/// All views of a stream advance together.
pub(crate) static PIPELINE: LazyLock<Name> = LazyLock::new(|| match Name::new("all") {
    Ok(name) => name,
    Err(error) => panic!("'all' is a name: {error}"),
});

/// The kinds of roles.
const KEEPER: &str = "keeper";
const CLOSER: &str = "closer";

/// How much a worker reads at once: large enough that updates of one group merge, and small enough that
/// the batches of all partitions of a stream fit the memory of a small machine.
const BATCH: Most = Most { entries: 1_000, bytes: 2 << 20 };

/// Under load, batches of a partition begin this far apart, so that more of their updates merge and fewer
/// commits are made. The first event after a silence is applied at once.
const LINGER: Duration = Duration::from_millis(400);

/// How long a worker may get nowhere before another node should try.
const YIELD_AFTER: Duration = Duration::from_secs(30);

/// What the part stands on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the events are.
    pub log: Arc<dyn Log>,
    /// Where the views are.
    pub store: Arc<dyn Store>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Appends control frames.
    pub appender: Arc<Appender>,
    /// Appends events.
    pub collector: Collector,
    /// The queues that streams are filled from, by the streams' names.
    pub inlets: BTreeMap<String, Arc<dyn Inlet>>,
    /// How windows are closed.
    pub rules: Rules,
}

/// Folds all streams of a node's definitions.
pub struct StreamsPart {
    options: Options,
    streams: Vec<Folded>,
}

struct Folded {
    stream: Arc<Stream>,
    plan: Arc<StreamPlan>,
    views: Vec<Arc<View>>,
    inlet: Option<Arc<dyn Inlet>>,
    watermarks: Arc<Watermarks>,
}

impl StreamsPart {
    /// The part for these definitions.
    pub fn new(definitions: &Definitions, options: Options) -> Self {
        let shards = options.store.shards();
        let folded = |stream: &Arc<Stream>| Folded {
            plan: Arc::new(StreamPlan::by_rules(
                Arc::clone(stream),
                &definitions.views,
                shards,
                options.rules,
            )),
            views: definitions
                .views
                .iter()
                .filter(|view| view.from.name == stream.name)
                .cloned()
                .collect(),
            inlet: options.inlets.get(stream.name.as_str()).cloned(),
            watermarks: Arc::new(Watermarks::new(
                Arc::clone(&options.store),
                Arc::clone(&options.runtime),
                Arc::clone(stream),
            )),
            stream: Arc::clone(stream),
        };
        StreamsPart { streams: definitions.streams.iter().map(folded).collect(), options }
    }

    fn worker(&self, folded: &Folded, index: u32) -> worker::Options {
        let Options { log, store, runtime, entropy, appender, .. } = self.options.clone();
        worker::Options {
            log,
            store,
            runtime,
            entropy,
            partition: folded.stream.partition(index),
            pipeline: PIPELINE.clone(),
            plan: Arc::clone(&folded.plan) as Arc<dyn Plan>,
            appender,
            batch: BATCH,
            linger: LINGER,
            yield_after: YIELD_AFTER,
        }
    }

    /// The closer of a view in a shard, if there is such a view with windows.
    fn closer(&self, view: &str, shard: u32) -> Option<closer::Closer> {
        let shard = Shard(u16::try_from(shard).ok()?);
        let of_stream = |folded: &Folded| {
            let view = folded.views.iter().find(|known| known.name.as_str() == view)?;
            Some(closer::Closer {
                store: Arc::clone(&self.options.store),
                runtime: Arc::clone(&self.options.runtime),
                view: Arc::clone(view),
                windows: view.windows.clone()?,
                shard,
                watermarks: Arc::clone(&folded.watermarks),
                rules: self.options.rules,
            })
        };
        self.streams.iter().find_map(of_stream)
    }

    fn queue_consumer(
        &self,
        stream: &Arc<Stream>,
        inlet: &Arc<dyn Inlet>,
    ) -> queue_consumer::Options {
        let Options { store, runtime, collector, .. } = self.options.clone();
        queue_consumer::Options {
            inlet: Arc::clone(inlet),
            stream: stream.name.clone(),
            judge: Arc::new(StreamMessages { stream: Arc::clone(stream), store }),
            admission: Arc::new(queue_consumer::Unlimited),
            collector,
            runtime,
        }
    }

    fn keeper(&self, folded: &Folded) -> keeper::Keeper {
        keeper::Keeper {
            log: Arc::clone(&self.options.log),
            store: Arc::clone(&self.options.store),
            runtime: Arc::clone(&self.options.runtime),
            stream: Arc::clone(&folded.stream),
            views: folded.views.iter().map(|view| view.name.clone()).collect(),
        }
    }
}

impl Part for StreamsPart {
    fn roles(&self) -> Vec<Role> {
        let mut roles = Vec::new();
        for Folded { stream, views, inlet, .. } in &self.streams {
            let name = stream.name.as_str();
            roles.extend((0..stream.partitions).map(|index| worker::role(&stream.name, index)));
            roles.push(Role::new(KEEPER, name));
            roles.extend(inlet.as_ref().map(|_| queue_consumer::role(name)));
            for view in views.iter().filter(|view| view.windows.is_some()) {
                let closer = |shard| Role::new(CLOSER, format!("{}/{shard}", view.name));
                roles.extend((0..self.options.store.shards()).map(closer));
            }
        }
        roles
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let role = tenure.role().clone();
        let (stream, index) = match role.name().rsplit_once('/') {
            Some((stream, index)) => (stream, index.parse().ok()),
            None => (role.name(), None),
        };
        if let (CLOSER, Some(shard)) = (role.kind(), index)
            && let Some(closer) = self.closer(stream, shard)
        {
            return closer.run(tenure).boxed();
        }
        let folded = self.streams.iter().find(|folded| folded.stream.name.as_str() == stream);
        match (folded, role.kind(), index) {
            (Some(folded), worker::KIND, Some(index)) => {
                worker::run(self.worker(folded, index), tenure).boxed()
            }
            (Some(folded), KEEPER, None) => self.keeper(folded).run(tenure).boxed(),
            (Some(Folded { stream, inlet: Some(inlet), .. }), queue_consumer::KIND, None) => {
                queue_consumer::run(self.queue_consumer(stream, inlet), tenure).boxed()
            }
            _ => async move {
                Ended::Yielded { reason: format!("this node does not know the work of {role}") }
            }
            .boxed(),
        }
    }
}

impl fmt::Debug for StreamsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&Name> = self.streams.iter().map(|folded| &folded.stream.name).collect();
        f.debug_struct("StreamsPart").field("streams", &names).finish_non_exhaustive()
    }
}
