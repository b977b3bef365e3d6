//! The cluster over HTTP: what `/cluster` answers, whether the node is in touch, what it measures.
//!
//! A node listens before it joins, so that others can be told its address. Until [`Cluster::joined`],
//! everything here says that the node is joining.

mod answers;
mod looks;
mod metrics;
mod resolver;

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::Router;
use consort_cluster::{ClusterStatus, Handle, Observer};
use consort_kernel::Fault;
use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::health::Probe;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::problems;
pub(crate) use answers::needs_json;
use looks::{FRESH_FOR, Looks};
use metrics::ClusterMetrics;
pub use resolver::{Resolved, Resolver, Resolvers, Resolving};

/// How many requests of one kind may change the cluster at one time. Each reads all of its cells, some
/// of them several times, and operators are few.
const CHANGES_AT_ONCE: usize = 1;

/// What the HTTP side knows of the cluster; all clones are of the same one.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

struct Shared {
    handle: OnceLock<Handle>,
    looks: Looks,
    drains: Semaphore,
    /// Apart from drains, since a decision may read all of a partition.
    decisions: Semaphore,
    resolvers: Resolvers,
    metrics: Arc<ClusterMetrics>,
}

impl Cluster {
    /// A cluster that the node has yet to join. What is measured is registered in `metrics`.
    pub fn new(resolvers: Resolvers, metrics: &mut Metrics) -> Cluster {
        let measured = ClusterMetrics::register(metrics.registry());
        let cluster = Cluster(Arc::new(Shared {
            handle: OnceLock::new(),
            looks: Looks::default(),
            drains: Semaphore::new(CHANGES_AT_ONCE),
            decisions: Semaphore::new(CHANGES_AT_ONCE),
            resolvers,
            metrics: measured,
        }));
        let measuring = cluster.clone();
        metrics.refresh_by(move || measuring.clone().measure().boxed());
        cluster
    }

    /// Who is to be told what the node does.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.0.metrics) as _
    }

    /// The node has joined. Further calls change nothing.
    pub fn joined(&self, handle: Handle) {
        let _ = self.0.handle.set(handle);
    }

    /// Whether the node is a member that is in touch with the others.
    pub fn probe(&self) -> Probe {
        let cluster = self.clone();
        Probe::new("cluster", move || {
            let trouble = match cluster.0.handle.get() {
                Some(handle) => handle.health().trouble(),
                None => Some("the node is about to join".to_owned()),
            };
            async move { trouble.map_or(Ok(()), Err) }
        })
    }

    /// `/cluster` and what is below it.
    pub fn routes(&self) -> Router {
        answers::routes(self.clone())
    }

    fn handle(&self) -> Result<&Handle, Problem> {
        self.0.handle.get().ok_or_else(|| {
            let detail = "this node has not joined the cluster yet; ask again in a moment, or ask another node";
            Problem::new(problems::NOT_JOINED, detail)
        })
    }

    /// The node, once it has joined.
    pub fn node(&self) -> Option<&Handle> {
        self.0.handle.get()
    }

    /// The cluster as it was a moment ago.
    pub(crate) async fn recent(&self) -> Result<Arc<ClusterStatus>, Problem> {
        let now = Instant::now();
        self.look(now.checked_sub(FRESH_FOR).unwrap_or(now)).await
    }

    /// The cluster as it is now.
    async fn fresh(&self) -> Result<Arc<ClusterStatus>, Problem> {
        self.look(Instant::now()).await
    }

    async fn look(&self, not_before: Instant) -> Result<Arc<ClusterStatus>, Problem> {
        let handle = self.handle()?;
        self.0
            .looks
            .look(not_before, || handle.status())
            .await
            .map_err(|fault| store_failed(&fault))
    }

    /// Brings up to date what is measured at each scrape.
    async fn measure(self) {
        let Ok(handle) = self.handle() else { return };
        match self.recent().await {
            Ok(status) => self.0.metrics.show(&status, handle.id()),
            Err(_) => self.0.metrics.hide(),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("handle", &self.0.handle.get()).finish_non_exhaustive()
    }
}

fn store_failed(fault: &Fault) -> Problem {
    let detail = format!("the store failed: {fault}; nothing was changed for certain, ask again");
    Problem::new(problems::STORE_FAILED, detail)
}
