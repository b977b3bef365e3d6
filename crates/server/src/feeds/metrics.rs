//! What this node counts of sinks and subscribers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use consort_cluster::Runtime;
use consort_feeds::Figures;
use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;

use super::SUBSCRIBERS;
use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabel {
    sink: String,
}

type Counters = Family<SinkLabel, Counter>;
type Gauges = Family<SinkLabel, Gauge>;

/// Registers the figures, which are read anew for each scrape.
pub(super) fn register(
    metrics: &mut Metrics,
    figures: Figures,
    runtime: Arc<dyn Runtime>,
    room: &Arc<Semaphore>,
) {
    let (delivered, parked, retries) =
        (Counters::default(), Counters::default(), Counters::default());
    let (held, alarms) = (Gauges::default(), Gauges::default());
    let oldest: Family<SinkLabel, Gauge<f64, AtomicU64>> = Family::default();
    let subscribers = Gauge::<i64>::default();
    let registry = metrics.registry();
    let words = "Rows that sinks took from this node, repeats included";
    registry.register("sink_rows_delivered", words, delivered.clone());
    let words = "Rows that sinks refused for good, parked by this node";
    registry.register("sink_rows_parked", words, parked.clone());
    registry.register("sink_retries", "Deliveries of this node that failed", retries.clone());
    let words = "Rows that wait for a sink in this node's care, as far as they were counted";
    registry.register("sink_rows_held", words, held.clone());
    let words = "Feeds and shards of which a sink holds more rows, or for longer, than it should";
    registry.register("sink_alarms", words, alarms.clone());
    let words = "For how long the oldest undelivered row has been known to this node";
    registry.register("sink_oldest_seconds", words, oldest.clone());
    registry.register("feed_subscribers", "Subscribers of this node", subscribers.clone());
    let room = Arc::clone(room);
    metrics.refresh_by(move || {
        for (name, figures) in figures.all() {
            let label = SinkLabel { sink: name.to_string() };
            let raise = |counters: &Counters, to: u64| {
                let counter = counters.get_or_create(&label);
                counter.inc_by(to.saturating_sub(counter.get()));
            };
            raise(&delivered, figures.delivered());
            raise(&parked, figures.parked());
            raise(&retries, figures.retries());
            held.get_or_create(&label).set(whole(figures.held()));
            alarms.get_or_create(&label).set(whole(figures.alarms()));
            let age = figures.oldest(runtime.elapsed());
            oldest.get_or_create(&label).set(age.as_secs_f64());
        }
        subscribers.set(whole((SUBSCRIBERS - room.available_permits()) as u64));
        async {}.boxed()
    });
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
