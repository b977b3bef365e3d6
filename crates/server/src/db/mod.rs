//! Databases over HTTP: statements come in as JSON, rows go out.
//!
//! Any node takes any request. A write goes to the leader and a read to a worker that is fresh enough, here or in one
//! hop to another node. Each answer to a write says whether it is stored; `failures.rs` has all of them.

mod answers;
mod attempts;
mod backup;
mod changes;
mod failures;
mod feed;
mod feed_cursor;
mod hop;
mod hrana;
mod incoming;
mod metrics;
mod nodes;
mod orders;
mod read;
mod request;
mod schema;
mod status;
mod suspects;
mod values;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use consort_cluster::Runtime;
use consort_db::db::Databases;
use consort_kernel::Entropy;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};

use crate::cluster::Cluster;
use crate::long_bodies::LongBodies;
use crate::metrics::Metrics;
use crate::peers::Peers;
pub(crate) use request::HASH_VERSION;
pub use schema::{SCHEMA_FILE_MOST, SchemaFile, SchemaHandOverError};

const BACKUP: &str = "/db/{name}/backup";

/// How many copies, restores and scans a node does at once: each reads or writes a whole file.
const HEAVY_AT_ONCE: usize = 1;

/// What the databases need.
#[derive(Debug)]
pub struct Options<'a> {
    /// The databases.
    pub databases: Databases,
    /// The other nodes.
    pub peers: Peers,
    /// This node, once it has joined.
    pub cluster: Cluster,
    /// Where large bodies are read: threads that other requests do not share.
    pub intake: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// A folder for files on their way in and out. Nothing else may be in it.
    pub transfers: PathBuf,
    /// Where the counters are shown.
    pub metrics: &'a mut Metrics,
}

/// The databases over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct DbHttp(Arc<Shared>);

struct Shared {
    databases: Databases,
    peers: Peers,
    cluster: Cluster,
    intake: Arc<dyn Runtime>,
    entropy: Arc<dyn Entropy>,
    transfers: PathBuf,
    suspects: suspects::Suspects,
    loads: nodes::NodeLoads,
    counts: metrics::DbCounts,
    heavy: Semaphore,
    restores: Semaphore,
    subscribers: Arc<Semaphore>,
    streams: hrana::Streams,
    closed: watch::Sender<bool>,
}

impl DbHttp {
    /// Ready to be served.
    pub fn new(options: Options<'_>) -> DbHttp {
        let Options { databases, peers, cluster, intake, entropy, transfers, metrics } = options;
        // Files of requests that a crash ended. What cannot be removed only takes room.
        let _ = std::fs::remove_dir_all(&transfers);
        DbHttp(Arc::new(Shared {
            counts: metrics::register(metrics, &databases),
            databases,
            peers,
            cluster,
            intake,
            entropy,
            transfers,
            suspects: suspects::Suspects::default(),
            loads: nodes::NodeLoads::default(),
            heavy: Semaphore::new(HEAVY_AT_ONCE),
            restores: Semaphore::new(HEAVY_AT_ONCE),
            subscribers: Arc::new(Semaphore::new(feed::SUBSCRIBERS)),
            streams: hrana::Streams::default(),
            closed: watch::Sender::new(false),
        }))
    }

    /// `/db` and `/feeds/db`, and what is below them.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/db", get(status::list))
            .route("/db/{name}", get(status::show))
            .route("/db/{name}/write", post(write::write))
            .route("/db/{name}/read", post(read::read))
            .route("/db/{name}/workers", get(status::list_workers))
            .route("/db/{name}/workers/{id}/crash", post(orders::crash))
            .route(BACKUP, get(backup::download).put(backup::restore))
            .route("/db/{name}/verify", post(orders::verify))
            .route("/db/{name}/analyze", post(orders::analyze))
            .route("/db/{name}/resolve", post(orders::resolve))
            .route("/db/{name}/schema-files", post(schema::apply))
            .route("/feeds/db/{name}", get(feed::feed))
            .merge(hrana::routes())
            .with_state(self.clone())
    }

    /// The routes that take files of any length.
    pub fn long_bodies(&self) -> LongBodies {
        LongBodies::default().with(BACKUP, |_| true)
    }

    /// Ends all subscriptions, and those to come at once: a stop of the node would wait for them in vain.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    fn databases(&self) -> &Databases {
        &self.0.databases
    }

    fn peers(&self) -> &Peers {
        &self.0.peers
    }

    fn intake(&self) -> &Arc<dyn Runtime> {
        &self.0.intake
    }

    fn transfers(&self) -> &Path {
        &self.0.transfers
    }

    fn suspects(&self) -> &suspects::Suspects {
        &self.0.suspects
    }

    fn loads(&self) -> &nodes::NodeLoads {
        &self.0.loads
    }

    fn counts(&self) -> &metrics::DbCounts {
        &self.0.counts
    }

    /// The streams of Hrana that this node holds.
    fn streams(&self) -> &hrana::Streams {
        &self.0.streams
    }

    /// A turn for work on a whole file.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.0.heavy.acquire().await.ok()
    }

    /// A turn to receive a file, if no other one comes in: its sender takes its time.
    fn restore_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.0.restores.try_acquire().ok()
    }

    /// A seat for a subscriber of the change stream, if there is room.
    fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.subscribers).try_acquire_owned().ok()
    }

    /// Becomes true when all subscriptions are to end.
    fn closes(&self) -> watch::Receiver<bool> {
        self.0.closed.subscribe()
    }

    /// This node's id, once it has joined.
    fn own_node(&self) -> Option<String> {
        self.0.cluster.node().map(|node| node.id().to_owned())
    }

    /// A random number.
    fn draw(&self) -> u64 {
        self.0.entropy.next()
    }
}

impl fmt::Debug for DbHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbHttp").field("databases", &self.0.databases).finish_non_exhaustive()
    }
}
