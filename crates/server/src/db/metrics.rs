//! What this node counts and shows of its databases.

use std::fmt;
use std::sync::atomic::AtomicU64;

use axum::http::StatusCode;
use consort_db::db::{Database, Databases};
use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;

/// What requests came to.
#[derive(Clone)]
pub(super) struct DbCounts {
    writes: Family<OutcomeLabels, Counter>,
    reads: Family<OutcomeLabels, Counter>,
}

/// How the databases stand, as of a scrape.
#[derive(Clone, Default)]
struct DbGauges {
    index: Family<DatabaseLabel, Gauge<u64, AtomicU64>>,
    leads: Family<DatabaseLabel, Gauge>,
    stopped: Family<DatabaseLabel, Gauge>,
    workers: Family<DatabaseLabel, Gauge>,
    wanted: Family<DatabaseLabel, Gauge>,
    lag: Family<WorkerLabels, Gauge<u64, AtomicU64>>,
    size: Family<DatabaseLabel, Gauge<u64, AtomicU64>>,
    snapshot: Family<DatabaseLabel, Gauge<u64, AtomicU64>>,
    stored: Family<DatabaseLabel, Gauge<u64, AtomicU64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    database: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DatabaseLabel {
    database: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    database: String,
    worker: u64,
}

impl DbCounts {
    /// A write that came to this node was answered.
    pub(super) fn wrote(&self, database: &str, status: StatusCode) {
        self.writes.get_or_create(&labels(database, status)).inc();
    }

    /// The same for a read.
    pub(super) fn read(&self, database: &str, status: StatusCode) {
        self.reads.get_or_create(&labels(database, status)).inc();
    }
}

impl fmt::Debug for DbCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DbCounts")
    }
}

/// Registers the metrics of the databases.
pub(super) fn register(metrics: &mut Metrics, databases: &Databases) -> DbCounts {
    let counts = DbCounts { writes: Family::default(), reads: Family::default() };
    let gauges = DbGauges::default();
    let registry = metrics.registry().sub_registry_with_prefix("db");
    registry.register(
        "writes",
        "Writes that clients sent to this node, by database and outcome: done, refused or failed",
        counts.writes.clone(),
    );
    registry.register("reads", "The same for reads", counts.reads.clone());
    gauges.register(registry);
    let databases = databases.clone();
    metrics.refresh_by(move || {
        let (databases, gauges) = (databases.clone(), gauges.clone());
        async move {
            gauges.forget();
            for database in databases.iter() {
                gauges.show(database).await;
            }
        }
        .boxed()
    });
    counts
}

impl DbGauges {
    fn register(&self, to: &mut Registry) {
        to.register("index", "The index of the last entry of a database", self.index.clone());
        to.register("leads", "1 if this node has the leader", self.leads.clone());
        to.register("stopped", "1 if a database is stopped for a lost tail", self.stopped.clone());
        to.register("workers", "Live workers of a database, on all nodes", self.workers.clone());
        to.register("workers_wanted", "Workers that it should have", self.wanted.clone());
        to.register("lag", "Entries that a worker of this node is behind", self.lag.clone());
        to.register("size_bytes", "The size of the file on this node", self.size.clone());
        to.register("snapshot_index", "The index of the newest snapshot", self.snapshot.clone());
        to.register(
            "snapshots_bytes",
            "The size of both snapshots before compression; the store also holds the feed behind the older one",
            self.stored.clone(),
        );
    }

    /// Workers come and go: those that are gone must not keep their last numbers.
    fn forget(&self) {
        self.lag.clear();
        self.size.clear();
    }

    async fn show(&self, database: &Database) {
        let view = database.view().now();
        let label = DatabaseLabel { database: database.name().to_owned() };
        let Some(head) = &view.head else { return };
        self.index.get_or_create(&label).set(head.index);
        self.leads.get_or_create(&label).set(database.local_leader().is_some().into());
        self.stopped.get_or_create(&label).set(view.stopped().is_some().into());
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.workers.get_or_create(&label).set(count(view.workers.len()));
        let wanted = view.wanted.as_ref().map_or(0, |wanted| wanted.slots.len());
        self.wanted.get_or_create(&label).set(count(wanted));
        for worker in database.local_workers() {
            let status = worker.status();
            let lag = match status.applied.era == head.era {
                true => head.index.saturating_sub(status.applied.index),
                false => head.index,
            };
            let labels = WorkerLabels { database: label.database.clone(), worker: worker.id() };
            self.lag.get_or_create(&labels).set(if status.leads { 0 } else { lag });
            let Some(file) = status.file else { continue };
            if let Ok(metadata) = tokio::fs::metadata(&*file.path).await {
                self.size.get_or_create(&label).set(metadata.len());
            }
        }
        // Snapshots that cannot be read keep what they showed last.
        let Ok(found) = database.store().manifests().await else { return };
        let found: Vec<_> = found.into_iter().flatten().collect();
        let newest = found.iter().max_by_key(|manifest| manifest.position());
        self.snapshot.get_or_create(&label).set(newest.map_or(0, |manifest| manifest.index));
        let stored = found.iter().map(|manifest| manifest.file_bytes).sum();
        self.stored.get_or_create(&label).set(stored);
    }
}

fn labels(database: &str, status: StatusCode) -> OutcomeLabels {
    let outcome = match status.as_u16() {
        100..400 => "done",
        400..500 => "refused",
        _ => "failed",
    };
    OutcomeLabels { database: database.to_owned(), outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_by_what_its_client_can_do() {
        for (status, outcome) in
            [(200, "done"), (400, "refused"), (409, "refused"), (503, "failed"), (507, "failed")]
        {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(labels("notes", status).outcome, outcome, "{status}");
        }
    }
}
