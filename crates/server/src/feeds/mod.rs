//! Feeds over HTTP: subscriptions to changes, and the changes that sinks refused.

pub(crate) mod answers;
pub(crate) mod asked;
mod catalog;
pub(crate) mod events;
#[cfg(test)]
mod fixtures;
mod metrics;
mod sinks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use consort_cluster::Runtime;
use consort_feeds::{FeedSelection, FeedSpec, Figures, Subscription};
use consort_kernel::{Name, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::TenantRoutes;
pub use catalog::Catalog;

/// Subscribers that a node has at once. Each one that waits looks at every shard, once a second at least.
const SUBSCRIBERS: usize = 100;

/// The route of a feed.
const FEED_ROUTE: &str = "/feeds/{*path}";

/// When one for whom there is no room should come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the feeds need.
#[derive(Debug)]
pub struct Options<'a> {
    /// What can be subscribed to.
    pub catalog: Catalog,
    /// The sinks whose parked rows can be asked for.
    pub sinks: Vec<Name>,
    /// What this node counts of them.
    pub figures: Figures,
    /// Where the feeds are.
    pub store: Arc<dyn Store>,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
    /// Where the figures are shown.
    pub metrics: &'a mut Metrics,
}

/// The feeds over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Feeds(Arc<Shared>);

struct Shared {
    catalog: Catalog,
    sinks: Vec<Name>,
    store: Arc<dyn Store>,
    room: Arc<Semaphore>,
    closed: watch::Sender<bool>,
}

impl Feeds {
    /// Ready to be served.
    pub fn new(options: Options<'_>) -> Feeds {
        let Options { catalog, sinks, figures, store, runtime, metrics } = options;
        let room = Arc::new(Semaphore::new(SUBSCRIBERS));
        metrics::register(metrics, figures, runtime, &room);
        let closed = watch::Sender::new(false);
        Feeds(Arc::new(Shared { catalog, sinks, store, room, closed }))
    }

    /// `/feeds` and `/sinks`, and what is below them.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/feeds", get(answers::list))
            .route(FEED_ROUTE, get(answers::feed))
            .route("/sinks", get(sinks::sinks))
            .route("/sinks/{sink}/parked", get(sinks::parked))
            .route("/sinks/{sink}/parked/release", post(sinks::release))
            .with_state(self.clone())
    }

    /// Ends all subscriptions, and those to come at once: a stop of the node would wait for them in vain.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    /// The routes that tenants may use: their own changes in the feeds of documents.
    pub fn tenant_routes(&self) -> TenantRoutes {
        TenantRoutes::default().with(FEED_ROUTE)
    }

    /// The subscription to a part of a feed, with room for it.
    fn subscribe(&self, feed: &Arc<FeedSpec>, selection: FeedSelection) -> Result<Seat, Problem> {
        let Ok(permit) = Arc::clone(&self.0.room).try_acquire_owned() else {
            let detail = format!(
                "this node has {SUBSCRIBERS} subscribers, and no room for more; ask another node, or again later"
            );
            let full = Problem::new(problems::TOO_MANY_SUBSCRIBERS, detail);
            return Err(full.retry_after(RETRY_AFTER));
        };
        let store = Arc::clone(&self.0.store);
        let subscription = Subscription::with_selection(store, Arc::clone(feed), selection);
        Ok(Seat {
            subscription: subscription
                .map_err(|error| Problem::new(problems::INVALID_QUERY, error.to_string()))?,
            closed: self.0.closed.subscribe(),
            _permit: permit,
        })
    }
}

impl fmt::Debug for Feeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeds").field("catalog", &self.0.catalog).finish_non_exhaustive()
    }
}

/// A subscriber's place among those there is room for.
struct Seat {
    subscription: Subscription,
    closed: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Seat {
    /// Waits until all subscriptions are to end.
    async fn until_closed(&mut self) {
        // Whoever closes is gone: there is nobody to serve for.
        let _ = self.closed.wait_for(|closed| *closed).await;
    }
}
