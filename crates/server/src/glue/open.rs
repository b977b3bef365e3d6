//! One open collection: its way in, and its readers.

use std::sync::Arc;

use consort_cluster::{Appender, Runtime};
use consort_feeds::Subscription;
use consort_glue::Collection;
use consort_glue::outcomes::OutcomeWaiters;
use consort_glue::reading::CollectionReader;
use consort_kernel::{Name, NameError, Store};

use super::dry_run::PlanOf;
use super::quota::QuotaLimits;
use super::quotas::{Quotas, QuotasOptions};
use super::{CollectionOptions, Options};
use crate::ingress::{Ingress, IngressSpec};

pub(super) struct OpenCollection {
    pub(super) definition: Arc<Collection>,
    pub(super) reader: CollectionReader,
    pub(super) ingress: Ingress,
    pub(super) quotas: Quotas,
    pub(super) outcomes: OutcomeWaiters,
    pub(super) feed: Subscription,
    pub(super) plan: PlanOf,
    pub(super) queues: Vec<String>,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) intake: Arc<dyn Runtime>,
    pub(super) appender: Arc<Appender>,
    pub(super) pipeline: Name,
}

impl OpenCollection {
    pub(super) fn open(
        collection: CollectionOptions,
        options: &Options<'_>,
    ) -> Result<OpenCollection, NameError> {
        let CollectionOptions { definition, gate, feed, plan, queues } = collection;
        let (store, log) = (Arc::clone(&options.store), Arc::clone(&options.log));
        let reader = CollectionReader::new(Arc::clone(&definition), Arc::clone(&store), log)?;
        let ingress = options.ingresses.open(IngressSpec {
            stream: reader.cells().stream().clone(),
            partitions: definition.partitions,
            gate,
            // Keys are kept for each document, by the fold.
            keys_for: definition.ids_for,
        });
        let quotas = Quotas::new(QuotasOptions {
            limits: QuotaLimits {
                pieces: definition.tenant_pieces,
                bytes: definition.tenant_bytes,
            },
            reader: reader.clone(),
            pipeline: options.pipeline.clone(),
            runtime: Arc::clone(&options.runtime),
            cluster: options.cluster.clone(),
        });
        let outcomes = reader.cells().outcomes().clone();
        let outcomes =
            OutcomeWaiters::new(Arc::clone(&store), Arc::clone(&options.runtime), outcomes);
        Ok(OpenCollection {
            definition,
            reader,
            ingress,
            quotas,
            outcomes,
            feed,
            plan,
            queues,
            store,
            runtime: Arc::clone(&options.runtime),
            intake: Arc::clone(&options.intake),
            appender: Arc::clone(&options.appender),
            pipeline: options.pipeline.clone(),
        })
    }
}
