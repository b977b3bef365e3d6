//! The sinks of a node and the feeds that it serves, put together from its config.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::Role;
use consort_cluster::worker::Resume;
use consort_feeds::{FeedSpec, FeedsError, FeedsPart, SinkConfig, SinkKind, Timing};
use consort_kernel::{Name, NameError, Publisher};
use consort_server::feeds::Catalog;
use consort_server::{Resolved, Resolver, Resolving};
use futures::FutureExt as _;

use crate::config::{Config, SecretUrl};
use crate::ground::Ground;
use crate::rows;

/// What delivers, and what can be subscribed to.
#[derive(Debug)]
pub(crate) struct Delivering {
    pub(crate) part: Arc<FeedsPart>,
    pub(crate) catalog: Catalog,
    /// All that are declared.
    pub(crate) sinks: Vec<Name>,
}

/// Why rows could not be delivered as the config has it.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("view '{view}' cannot have a feed: {source}")]
    Name { view: String, source: NameError },
    #[error(transparent)]
    Feeds(#[from] FeedsError),
    #[error("the broker {url} of a sink cannot be used: {source}")]
    Broker { url: SecretUrl, source: consort_engines::OpenError },
}

impl Delivering {
    /// Opens the sinks that feeds name. Nothing is connected yet.
    pub(crate) async fn open(
        config: &Config,
        ground: &Ground,
        sole: bool,
    ) -> Result<Delivering, DeliveryError> {
        let feed = |(view, sinks): (&String, &Vec<String>)| {
            let named = |source| DeliveryError::Name { view: view.clone(), source };
            rows::feed(view, sinks).map_err(named)
        };
        let feeds: Vec<FeedSpec> = config.rows.iter().map(feed).collect::<Result<_, _>>()?;
        let options = consort_feeds::Options {
            store: Arc::clone(&ground.store),
            runtime: Arc::clone(&ground.runtime),
            entropy: Arc::clone(&ground.entropy),
            sole,
            timing: Timing::default(),
            publishers: publishers(config, &feeds).await?,
        };
        let part = FeedsPart::new(feeds, &config.sinks, options)?;
        let catalog = Catalog::new(part.feeds().iter().cloned());
        let sinks = config.sinks.iter().map(|sink| sink.name.clone()).collect();
        Ok(Delivering { part: Arc::new(part), catalog, sinks })
    }
}

/// Resolves `deliver:SINK/SHARD`.
#[derive(Debug)]
pub(crate) struct SinkResolver(pub(crate) Arc<FeedsPart>);

impl Resolver for SinkResolver {
    fn resolve(&self, role: &Role, from: Resume) -> Option<Resolving> {
        let resolving = self.0.resolve(role, from)?;
        // A cursor has no eras: it was moved, and that is all.
        Some(resolving.map(|begun| begun.map(|offset| Resolved { era: 0, offset })).boxed())
    }
}

/// The ways to the brokers of those sinks that feeds name.
async fn publishers(
    config: &Config,
    feeds: &[FeedSpec],
) -> Result<BTreeMap<String, Arc<dyn Publisher>>, DeliveryError> {
    let mut publishers = BTreeMap::new();
    let is_named = |sink: &&SinkConfig| {
        feeds.iter().any(|feed| feed.sinks.iter().any(|name| name == sink.name.as_str()))
    };
    for sink in config.sinks.iter().filter(is_named) {
        let SinkKind::Amqp(amqp) = &sink.kind else { continue };
        let opened = consort_engines::open_publisher(
            amqp.url.reveal(),
            &amqp.exchange,
            &amqp.routing_key,
            config.engine.tls_ca.as_deref(),
        );
        let publisher = opened.await.map_err(|source| DeliveryError::Broker {
            url: SecretUrl::new(amqp.url.reveal()),
            source,
        })?;
        publishers.insert(sink.name.to_string(), publisher);
    }
    Ok(publishers)
}
