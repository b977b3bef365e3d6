//! The part of glue: pieces come in by HTTP and queues, workers assemble documents of them, and readers get the
//! documents, their histories and their feeds.

use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::Agreement;
use consort_feeds::{FeedSpec, Subscription};
use consort_glue::part::{CollectionQueue, GlueOptions, GluePart, PIPELINE};
use consort_glue::{CacheShare, Collection, GluePlan};
use consort_kernel::Store;
use consort_server::glue::{self, CollectionOptions, Glue as GlueHttp, PlanOf};

use super::streams::kind_of;
use super::{OpenPart, Opening, Part, PartError, link};
use crate::config::{self, CollectionSettings, Config, PartConfig, PieceQueue};
use crate::glue_rows;

/// The kind of its definitions in the cluster's agreement.
const KIND: &str = "glue";

/// A dry run keeps no document: its plan has memory for the one that it is asked about.
const DRY_RUN_CACHE: usize = 0;

/// Collections of documents.
#[derive(Debug)]
pub(super) struct Glue;

#[async_trait]
impl Part for Glue {
    fn config(&self) -> &'static PartConfig {
        &config::glue::PART
    }

    /// All settings but gate, queues and sinks change what is stored, or what all nodes promise.
    fn define(&self, config: &Config, agreement: Agreement) -> Agreement {
        let definitions = config.glue().collections.iter().map(|settings| &settings.definition);
        definitions.fold(agreement, |all, definition| {
            all.define(KIND, &definition.name, definition.to_json())
        })
    }

    fn feeds(&self, config: &Config) -> Result<Vec<FeedSpec>, PartError> {
        let feed = |settings: &CollectionSettings| {
            glue_rows::feed(&settings.definition, &settings.sinks).map_err(PartError::failed)
        };
        config.glue().collections.iter().map(feed).collect()
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, metrics, .. } = opening;
        let settings = &config.glue().collections;
        if settings.is_empty() {
            return Ok(OpenPart::default());
        }
        let definitions: Vec<Arc<Collection>> =
            settings.iter().map(|settings| Arc::new(settings.definition.clone())).collect();
        let collections: Result<Vec<_>, PartError> = settings
            .iter()
            .zip(&definitions)
            .map(|(settings, definition)| collection(settings, definition, &services.store))
            .collect();
        let http = GlueHttp::new(glue::Options {
            collections: collections?,
            tenants: config.glue().tenants.keys().cloned().collect(),
            ingresses: &services.ingresses,
            store: Arc::clone(&services.store),
            log: Arc::clone(&services.log),
            runtime: Arc::clone(&services.runtime),
            intake: Arc::clone(&services.intake),
            appender: Arc::clone(&services.appender),
            cluster: services.cluster.clone(),
            pipeline: PIPELINE.clone(),
            metrics,
        })
        .map_err(PartError::failed)?;
        let options = GlueOptions {
            log: Arc::clone(&services.log),
            store: Arc::clone(&services.store),
            runtime: Arc::clone(&services.runtime),
            entropy: Arc::clone(&services.entropy),
            appender: Arc::clone(&services.appender),
            collector: services.collector.clone(),
            queues: queues(config, &http).await?,
            cache: usize::try_from(config.glue().cache).unwrap_or(usize::MAX),
        };
        let roles = GluePart::new(&definitions, options).map_err(PartError::failed)?;
        Ok(OpenPart {
            workloads: vec![Arc::new(roles)],
            routes: http.routes(),
            long_bodies: http.long_bodies(),
            tenant_routes: http.tenant_routes(),
            links: vec![link(
                "/glue",
                "the collections: documents that are assembled from pieces, and their counters",
            )],
            ..OpenPart::default()
        })
    }
}

fn collection(
    settings: &CollectionSettings,
    definition: &Arc<Collection>,
    store: &Arc<dyn Store>,
) -> Result<CollectionOptions, PartError> {
    let cache = Arc::new(CacheShare::new(DRY_RUN_CACHE));
    let plan = GluePlan::new(Collection::clone(definition), store.shards(), cache);
    let feed = glue_rows::feed(definition, &settings.sinks).map_err(PartError::failed)?;
    Ok(CollectionOptions {
        definition: Arc::clone(definition),
        gate: kind_of(settings.gate),
        feed: Subscription::new(Arc::clone(store), Arc::new(feed)),
        plan: PlanOf::new(Arc::new(plan.map_err(PartError::failed)?)),
        queues: settings.queues.iter().map(|queue| queue.queue.clone()).collect(),
    })
}

/// The queues that fill collections.
async fn queues(config: &Config, http: &GlueHttp) -> Result<Vec<CollectionQueue>, PartError> {
    let mut queues = Vec::new();
    for settings in &config.glue().collections {
        let collection = &settings.definition.name;
        for PieceQueue { url, queue, tenant } in &settings.queues {
            let authority = config.engine.tls_ca.as_deref();
            let inlet = consort_engines::open_exclusive_inlet(url.reveal(), queue, authority)
                .await
                .map_err(|error| PartError::Engine { url: url.clone(), source: error })?;
            // Every collection of the config is open.
            let (Some(judge), Some(admission)) =
                (http.judge(collection, tenant), http.admission(collection, tenant))
            else {
                continue;
            };
            queues.push(CollectionQueue {
                collection: collection.clone(),
                queue: queue.clone(),
                inlet,
                judge: Arc::new(judge),
                admission: Arc::new(admission),
            });
        }
    }
    Ok(queues)
}
