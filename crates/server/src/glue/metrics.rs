//! The counters of collections and tenants, in `/metrics`.

use std::collections::BTreeMap;

use consort_glue::TenantCounter;
use consort_glue::reading::TenantCounts;
use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Glue;
use crate::metrics::Metrics;
use crate::tenants::TenantName;

/// The label of all tenants that are not declared: their names are the clients' invention, so they share one.
pub const UNDECLARED_TENANT: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PieceLabels {
    collection: String,
    tenant: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    collection: String,
    tenant: String,
}

#[derive(Clone, Default)]
struct GlueMetrics {
    pieces: Family<PieceLabels, Gauge>,
    bytes: Family<TenantLabels, Gauge>,
}

/// Shows the counters, which are in the store, at each scrape.
pub(super) fn register(metrics: &mut Metrics, glue: &Glue) {
    let shown = GlueMetrics::default();
    let registry = metrics.registry();
    registry.register(
        "glue_pieces",
        "Pieces of all nodes by collection, tenant and outcome: received = applied + repeats + rejected + held + queued",
        shown.pieces.clone(),
    );
    registry.register(
        "glue_documents_bytes",
        "Bytes of the documents of a collection, by tenant",
        shown.bytes.clone(),
    );
    let glue = glue.clone();
    metrics.refresh_by(move || {
        let (glue, shown) = (glue.clone(), shown.clone());
        async move { shown.refresh(&glue).await }.boxed()
    });
}

impl GlueMetrics {
    async fn refresh(&self, glue: &Glue) {
        for (name, collection) in &glue.0.collections {
            // Counters that cannot be read keep what they showed last.
            let Ok(counts) = collection.reader.counts().await else { continue };
            for (tenant, counts) in by_label(counts, &glue.0.tenants) {
                self.show(name, &tenant, &counts);
            }
        }
    }

    fn show(&self, collection: &str, tenant: &str, counts: &TenantCounts) {
        let (collection, tenant) = (collection.to_owned(), tenant.to_owned());
        for counter in TenantCounter::ALL {
            let number = counts.get(counter);
            if counter == TenantCounter::Bytes {
                let (collection, tenant) = (collection.clone(), tenant.clone());
                self.bytes.get_or_create(&TenantLabels { collection, tenant }).set(number);
                continue;
            }
            let (collection, tenant) = (collection.clone(), tenant.clone());
            let labels = PieceLabels { collection, tenant, outcome: counter.as_str() };
            self.pieces.get_or_create(&labels).set(number);
        }
    }
}

/// The counters by the labels of their tenants. Every declared tenant is there, so that its metrics begin at 0.
fn by_label(
    counts: BTreeMap<String, TenantCounts>,
    declared: &[TenantName],
) -> BTreeMap<String, TenantCounts> {
    let mut shown: BTreeMap<String, TenantCounts> =
        declared.iter().map(|tenant| (tenant.to_string(), TenantCounts::default())).collect();
    let undeclared = shown.entry(UNDECLARED_TENANT.to_owned()).or_default();
    let (known, unknown): (Vec<_>, Vec<_>) = counts
        .into_iter()
        .partition(|(tenant, _)| declared.iter().any(|name| name.as_str() == tenant));
    unknown.iter().for_each(|(_, counts)| undeclared.add(counts));
    shown.extend(known);
    shown
}
