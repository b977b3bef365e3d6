//! The services that every part of a node builds on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::node::cores;
use consort_cluster::{ApartRuntime, Appender, Collector, FramesInFlight, Runtime, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::{Entropy, Log, Store, SystemEntropy, Turns};
use consort_server::{Cluster, IngressOptions, Ingresses, Metrics, POST_WITHIN, Peers};

/// How long the appender tries to bring a frame into the log: longer than an engine takes to restart, and far below
/// the time for which workers remember producers. It is less than a post may take, so that a post whose frame waits
/// for nothing else hears what became of it.
const GIVE_UP_AFTER: Duration = POST_WITHIN.saturating_sub(Duration::from_secs(2));

/// How long the first record of a frame waits for others, where frames do not go in rounds: short beside a
/// confirm, and long enough that requests which arrive together share one.
const COLLECT_FOR: Duration = Duration::from_millis(1);

/// The services of a node; all clones share them.
#[derive(Clone, Debug)]
pub struct Services {
    /// Streams in.
    pub log: Arc<dyn Log>,
    /// State and feeds. Its `now` is the only clock that leases, watermarks and expiry use.
    pub store: Arc<dyn Store>,
    /// Whether no other process can work on the engine.
    pub sole: bool,
    /// Tasks and timers on the threads that serve requests.
    pub runtime: Arc<dyn Runtime>,
    /// The same, for parts that start threads beside it.
    pub here: Arc<TokioRuntime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Appends frames to any partition.
    pub appender: Arc<Appender>,
    /// Appends records; one frame carries those of many callers.
    pub collector: Collector,
    /// The ways into streams, with their gates, queues, keys and lag.
    pub ingresses: Ingresses,
    /// Threads for the work of long bodies, which other requests do not share.
    pub intake: Arc<dyn Runtime>,
    /// The cluster: its handle, once the node has joined, and how it stands.
    pub cluster: Cluster,
    /// The other nodes, and requests to them.
    pub peers: Peers,
    /// The folder for this node's own files. It may not exist yet.
    pub data: PathBuf,
}

impl Services {
    /// Starts so many threads beside those that serve requests.
    pub fn threads(&self, name: &str, count: usize, turns: Turns) -> io::Result<Arc<dyn Runtime>> {
        Ok(ApartRuntime::start(name, count, turns, &self.here)?)
    }

    /// The services on an open engine. Must be called within a tokio runtime.
    pub(crate) fn new(
        engine: &Engine,
        cluster: Cluster,
        peers: Peers,
        data: PathBuf,
        metrics: &mut Metrics,
    ) -> io::Result<Services> {
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
        let appender = Arc::new(appender);
        let in_flight = match engine.frames_in_flight {
            Some(count) => FramesInFlight::Few(count),
            None if engine.sole => FramesInFlight::Joined,
            None => FramesInFlight::Unbounded,
        };
        let collector =
            Collector::new(Arc::clone(&appender), Arc::clone(&runtime), COLLECT_FOR, in_flight);
        let ingresses = Ingresses::new(IngressOptions {
            collector: collector.clone(),
            store: Arc::clone(&store),
            runtime: Arc::clone(&runtime),
            entropy: Arc::clone(&entropy),
            metrics,
        });
        // Behind requests, as roles are: a long body must not hold up short ones.
        let intake = ApartRuntime::start("intake", cores(), Turns::Later, &here)?;
        ingresses.follow_lag(cluster.clone());
        let sole = engine.sole;
        Ok(Services {
            log,
            store,
            sole,
            runtime,
            here,
            entropy,
            appender,
            collector,
            ingresses,
            intake,
            cluster,
            peers,
            data,
        })
    }
}
