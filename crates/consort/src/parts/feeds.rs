//! The part of feeds: deliverers bring changes to sinks, and subscribers read them over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::Role;
use consort_cluster::worker::Resume;
use consort_feeds::{FeedSpec, FeedsPart, SinkConfig, SinkKind, Timing};
use consort_kernel::{Name, Publisher};
use consort_server::feeds::{self, Catalog, Feeds as FeedsHttp};
use consort_server::{Resolved, Resolver, Resolving};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{OpenPart, Opening, Part, PartError, Running, StopPhase, link};
use crate::config::{self, Config, PartConfig, SecretUrl};
use crate::services::Services;

/// Sinks and subscriptions.
#[derive(Debug)]
pub(super) struct Feeds;

#[async_trait]
impl Part for Feeds {
    fn config(&self) -> &'static PartConfig {
        &config::feeds::PART
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, feeds, metrics, .. } = opening;
        let Delivery { part, catalog, sinks } = Delivery::open(config, services, feeds).await?;
        let http = FeedsHttp::new(feeds::Options {
            catalog,
            sinks,
            figures: part.figures(),
            store: Arc::clone(&services.store),
            runtime: Arc::clone(&services.runtime),
            metrics,
        });
        Ok(OpenPart {
            workloads: vec![Arc::clone(&part) as _],
            resolver: Some(Arc::new(SinkResolver(part))),
            tenant_routes: http.tenant_routes(),
            routes: http.routes(),
            links: vec![
                link("/feeds", "the feeds: changes, such as rows of closed windows, as they come"),
                link("/sinks", "the sinks that changes are delivered to"),
            ],
            running: Box::new(Subscribers(http)),
            ..OpenPart::default()
        })
    }
}

/// The subscribers of this node.
#[derive(Debug)]
struct Subscribers(FeedsHttp);

impl Running for Subscribers {
    fn stop(&mut self, phase: StopPhase) -> BoxFuture<'_, ()> {
        if phase == StopPhase::Subscribers {
            self.0.close();
        }
        async {}.boxed()
    }
}

/// The deliverers, and the feeds that can be subscribed to.
#[derive(Debug)]
struct Delivery {
    part: Arc<FeedsPart>,
    catalog: Catalog,
    /// All declared sinks.
    sinks: Vec<Name>,
}

/// The broker of a sink cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the broker {url} of a sink cannot be used: {source}")]
struct BrokerError {
    url: SecretUrl,
    source: consort_engines::OpenError,
}

impl Delivery {
    /// Opens the sinks that feeds name. Nothing is connected yet.
    async fn open(
        config: &Config,
        services: &Services,
        feeds: &[FeedSpec],
    ) -> Result<Delivery, PartError> {
        let options = consort_feeds::Options {
            store: Arc::clone(&services.store),
            runtime: Arc::clone(&services.runtime),
            entropy: Arc::clone(&services.entropy),
            sole: services.sole,
            timing: Timing::default(),
            publishers: publishers(config, feeds).await?,
        };
        let part = FeedsPart::new(feeds.to_vec(), config.sinks(), options);
        let part = part.map_err(PartError::failed)?;
        let catalog = Catalog::new(part.feeds().iter().cloned());
        let sinks = config.sinks().iter().map(|sink| sink.name.clone()).collect();
        Ok(Delivery { part: Arc::new(part), catalog, sinks })
    }
}

/// Resolves `deliver:SINK/SHARD`.
#[derive(Debug)]
struct SinkResolver(Arc<FeedsPart>);

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
) -> Result<BTreeMap<String, Arc<dyn Publisher>>, PartError> {
    let mut publishers = BTreeMap::new();
    let is_named = |sink: &&SinkConfig| {
        feeds.iter().any(|feed| feed.sinks.iter().any(|name| name == sink.name.as_str()))
    };
    for sink in config.sinks().iter().filter(is_named) {
        let SinkKind::Amqp(amqp) = &sink.kind else { continue };
        let opened = consort_engines::open_publisher(
            amqp.url.reveal(),
            &amqp.exchange,
            &amqp.routing_key,
            config.engine.tls_ca.as_deref(),
        );
        let publisher = opened.await.map_err(|source| {
            PartError::failed(BrokerError { url: SecretUrl::new(amqp.url.reveal()), source })
        })?;
        publishers.insert(sink.name.to_string(), publisher);
    }
    Ok(publishers)
}
