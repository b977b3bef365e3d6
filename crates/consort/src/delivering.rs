//! The sinks of a node and the feeds that it serves, put together from its config.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::Role;
use consort_cluster::worker::Resume;
use consort_feeds::{FeedsPart, Outlet, SinkKind, Timing, UnknownSink, Unopened};
use consort_kernel::{Name, Publisher};
use consort_server::feeds::{Catalog, FeedName};
use consort_server::{Resolved, Resolver, Resolving};
use futures::FutureExt as _;

use crate::config::{Config, SecretUrl};
use crate::ground::Ground;

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
    #[error(transparent)]
    Unknown(#[from] UnknownSink),
    #[error(transparent)]
    Unopened(#[from] Unopened),
    #[error("the broker {url} of a sink cannot be used: {source}")]
    Broker { url: SecretUrl, source: consort_engines::OpenError },
}

impl Delivering {
    /// Opens the sinks that views name. Nothing is connected yet.
    pub(crate) async fn open(
        config: &Config,
        ground: &Ground,
        sole: bool,
    ) -> Result<Delivering, DeliveryError> {
        let named = |(view, sinks): (&String, &Vec<String>)| (view.clone(), sinks.clone());
        let rows: Vec<(String, Vec<String>)> = config.rows().iter().map(named).collect();
        let outlets =
            config.outlets(rows.iter().map(|(view, sinks)| (view.as_str(), &sinks[..])))?;
        let feed = |(view, _): &(String, Vec<String>)| {
            FeedName::view(view).map_err(|error| UnknownSink::Name(view.clone(), error))
        };
        let feeds: Vec<FeedName> = rows.iter().map(feed).collect::<Result<_, _>>()?;
        let options = consort_feeds::Options {
            store: Arc::clone(&ground.store),
            runtime: Arc::clone(&ground.runtime),
            entropy: Arc::clone(&ground.entropy),
            sole,
            timing: Timing::default(),
            publishers: publishers(config, &outlets).await?,
        };
        let part = FeedsPart::new(&outlets, feeds.iter().map(|feed| feed.feed.clone()), options)?;
        let sinks = config.sinks().iter().map(|sink| sink.name.clone()).collect();
        Ok(Delivering { part: Arc::new(part), catalog: Catalog::new(feeds), sinks })
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

/// The ways to the brokers of sinks that have one.
async fn publishers(
    config: &Config,
    outlets: &[Outlet],
) -> Result<BTreeMap<String, Arc<dyn Publisher>>, DeliveryError> {
    let mut publishers = BTreeMap::new();
    for Outlet { sink, .. } in outlets {
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
