//! What a node works with in one of its lives.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::Options;
use consort_cluster::{Appender, Runtime};
use consort_kernel::{Entropy, Log, Store};

use crate::dice::Dice;
use crate::min::ReadThenPutMin;
use crate::producer::{Line, Source, by_hand, through_appender};
use crate::runtime::NodeRuntime;
use crate::shape::{Shape, Twist};
use crate::tally::Tally;
use crate::world::World;

/// How long an appender tries.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// A node's way to everything, from its start to its crash.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    /// Which node.
    pub(crate) node: u32,
    /// The log as it sees it.
    pub(crate) log: Arc<dyn Log>,
    /// The store as it sees it.
    pub(crate) store: Arc<dyn Store>,
    /// Its tasks and timers.
    pub(crate) runtime: Arc<NodeRuntime>,
    /// Its randomness.
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Its appender.
    pub(crate) appender: Arc<Appender>,
}

impl Station {
    /// The station of `node` from now until it crashes.
    pub(crate) fn open(world: &World, shape: &Shape, node: u32) -> Self {
        let log: Arc<dyn Log> = world.node_log(node);
        let mut store: Arc<dyn Store> = world.node_store(node);
        if shape.twist == Some(Twist::ReadThenPutMin) {
            store = Arc::new(ReadThenPutMin(store));
        }
        let runtime = world.runtime(node);
        let entropy: Arc<dyn Entropy> = world.entropy.clone();
        let timers: Arc<dyn Runtime> = runtime.clone();
        let appender = Appender::new(
            Arc::clone(&log),
            Arc::clone(&store),
            timers,
            Arc::clone(&entropy),
            GIVE_UP_AFTER,
        );
        Station { node, log, store, runtime, entropy, appender: Arc::new(appender) }
    }

    /// A worker on `partition`.
    pub(crate) fn worker(&self, shape: &Shape, tally: &Arc<Tally>, partition: u32) -> Options {
        Options {
            log: Arc::clone(&self.log),
            store: Arc::clone(&self.store),
            runtime: self.runtime.clone(),
            entropy: Arc::clone(&self.entropy),
            partition: shape.partition(partition),
            pipeline: shape.pipeline(),
            plan: tally.clone(),
            appender: Arc::clone(&self.appender),
            batch: shape.batch(),
            linger: shape.linger,
            yield_after: shape.yield_after,
        }
    }

    /// Starts the node's producers.
    pub(crate) fn produce(&self, source: &Arc<Source>) {
        let Shape { seed, producers, raw_producers, .. } = source.shape;
        let line = Line {
            log: Arc::clone(&self.log),
            store: Arc::clone(&self.store),
            runtime: Arc::clone(&self.runtime),
        };
        let life = self.runtime.life();
        let dice = |kind: &str, number| {
            Dice::new(seed, &format!("{kind} {number} of node {} in life {life}", self.node))
        };
        for number in 0..producers {
            let (source, appender) = (Arc::clone(source), Arc::clone(&self.appender));
            let produce =
                through_appender(source, dice("producer", number), line.clone(), appender);
            self.runtime.spawn("producer", produce);
        }
        for number in 0..raw_producers {
            let produce = by_hand(Arc::clone(source), dice("raw producer", number), line.clone());
            self.runtime.spawn("raw producer", produce);
        }
    }
}
