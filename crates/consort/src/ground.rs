//! What the parts of a node are built on.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Appender, Runtime, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::{Entropy, Log, Store, SystemEntropy};
use consort_server::Resolvers;

/// How long the appender tries to bring a frame into the log: longer than an engine takes to restart, and
/// far below the time for which workers remember producers.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// The open engine and what goes with it, for the parts of a node.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Streams in.
    pub log: Arc<dyn Log>,
    /// State and feeds.
    pub store: Arc<dyn Store>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Appends frames to any partition.
    pub appender: Arc<Appender>,
    /// Where a part says how its stopped roles go on. A role `worker:STREAM/INDEX` that no part knows
    /// is one pipeline named `all`.
    pub resolvers: Resolvers,
}

impl Ground {
    /// Must be called within a tokio runtime.
    pub(crate) fn of(engine: &Engine) -> Ground {
        let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
        let runtime: Arc<dyn Runtime> = TokioRuntime::current();
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let appender = Appender::new(
            Arc::clone(&log),
            Arc::clone(&store),
            Arc::clone(&runtime),
            Arc::clone(&entropy),
            GIVE_UP_AFTER,
        );
        let resolvers = Resolvers::default();
        Ground { log, store, runtime, entropy, appender: Arc::new(appender), resolvers }
    }
}
