//! What the parts of a node are built on.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{ApartRuntime, Appender, Collector, Lanes, Runtime, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::{Entropy, Inlet, Log, Store, SystemEntropy, Turns};
use consort_server::{POST_WITHIN, Resolvers};

/// How long the appender tries to bring a frame into the log: longer than an engine takes to restart, and far below
/// the time for which workers remember producers. It is less than a post may take, so that a post whose frame waits
/// for nothing else hears what became of it.
const GIVE_UP_AFTER: Duration = POST_WITHIN.saturating_sub(Duration::from_secs(2));

/// How long the first record of a frame waits for others, where frames do not go in rounds: short beside a
/// confirm, and long enough that requests which arrive together share one.
const COLLECT_FOR: Duration = Duration::from_millis(1);

/// The open engine and what goes with it, for the parts of a node.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Streams in.
    pub log: Arc<dyn Log>,
    /// State and feeds.
    pub store: Arc<dyn Store>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// The same, for those who start threads beside it.
    pub here: Arc<TokioRuntime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Appends frames to any partition.
    pub appender: Arc<Appender>,
    /// Appends records, many callers' in one frame.
    pub collector: Collector,
    /// Where a part says how its stopped roles go on. A role `worker:STREAM/INDEX` that no part knows
    /// is one pipeline named `all`.
    pub resolvers: Resolvers,
}

impl Ground {
    /// What the streams stand on, with the queues that fill some of them.
    pub(crate) fn for_streams(
        &self,
        inlets: BTreeMap<String, Arc<dyn Inlet>>,
    ) -> consort_views::part::Options {
        consort_views::part::Options {
            log: Arc::clone(&self.log),
            store: Arc::clone(&self.store),
            runtime: Arc::clone(&self.runtime),
            entropy: Arc::clone(&self.entropy),
            appender: Arc::clone(&self.appender),
            collector: self.collector.clone(),
            inlets,
            rules: consort_views::part::Rules::default(),
        }
    }

    /// So many threads beside those that serve requests.
    pub(crate) fn threads(
        &self,
        name: &str,
        count: usize,
        turns: Turns,
    ) -> io::Result<Arc<dyn Runtime>> {
        Ok(ApartRuntime::start(name, count, turns, &self.here)?)
    }

    /// Must be called within a tokio runtime.
    pub(crate) fn of(engine: &Engine) -> Ground {
        let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
        let here = TokioRuntime::current();
        let runtime: Arc<dyn Runtime> = here.clone();
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let appender = Appender::new(
            Arc::clone(&log),
            Arc::clone(&store),
            Arc::clone(&runtime),
            Arc::clone(&entropy),
            GIVE_UP_AFTER,
        );
        let resolvers = Resolvers::default();
        let appender = Arc::new(appender);
        let lanes = match engine.lanes {
            Some(count) => Lanes::Few(count),
            None if engine.sole => Lanes::Joined,
            None => Lanes::Unbounded,
        };
        let collector =
            Collector::new(Arc::clone(&appender), Arc::clone(&runtime), COLLECT_FOR, lanes);
        Ground { log, store, runtime, here, entropy, appender, collector, resolvers }
    }
}
