//! What this node counts of once: answers by where they came from, and what its computations came to.

use consort_once::{Figures, Once, OnceError, Source};
use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    once: String,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    once: String,
    reason: &'static str,
}

/// The figures of all spaces.
pub(super) struct Registered {
    answers: Family<SourceLabel, Counter>,
    errors: Family<ReasonLabel, Counter>,
}

/// Those of one space, found once: a family looks its members up under a lock.
pub(super) struct Counts {
    computed: Counter,
    joined: Counter,
    node: Counter,
    store: Counter,
    name: String,
    errors: Family<ReasonLabel, Counter>,
}

type Read = fn(&Figures) -> u64;

const COUNTERS: [(&str, &str, Read); 12] = [
    ("once_computations", "Computations that this node started, refreshes among them", |f| {
        f.computations
    }),
    ("once_refreshes", "Computations that replaced a value that was still there", |f| f.refreshes),
    ("once_early_refreshes", "Refreshes that began while the value was fresh", |f| {
        f.early_refreshes
    }),
    ("once_failures", "Computations of this node that failed", |f| f.failures),
    ("once_takeovers", "Computations begun because their holder's lease had lapsed", |f| {
        f.takeovers
    }),
    ("once_refused", "Computations that ended too late and were not published", |f| f.refused),
    ("once_stale", "Answers that were no longer fresh", |f| f.stale),
    ("once_crowded", "Requests turned away because too many waited", |f| f.crowded),
    ("once_deadlines", "Requests that were not answered in time", |f| f.deadlines),
    ("once_purged", "Keys purged by this node", |f| f.purged),
    (
        "once_cache_interruptions",
        "How often the cache was emptied, as purges may have gone unheard",
        |f| f.interruptions,
    ),
    (
        "once_cache_fills_discarded",
        "Values not cached because a purge came while they were read",
        |f| f.fills_discarded,
    ),
];

const GAUGES: [(&str, &str, Read); 4] = [
    ("once_waiting", "Requests that wait now", |f| f.waiting),
    ("once_flights", "Keys that this node computes, waits for or refreshes now", |f| f.flights),
    ("once_cached", "Values in this node's cache", |f| f.cached),
    ("once_cached_bytes", "Bytes of the values in this node's cache", |f| f.cached_bytes),
];

/// Registers all figures; those of the node are read anew for each scrape.
pub(super) fn register(metrics: &mut Metrics, once: &Once) -> Registered {
    let registry = metrics.registry();
    let registered = Registered { answers: Family::default(), errors: Family::default() };
    let words = "Answers of this node by source: computed, joined (waited for another), node (its cache), store";
    registry.register("once_answers", words, registered.answers.clone());
    let words = "Requests of this node that got no answer, by reason";
    registry.register("once_errors", words, registered.errors.clone());
    let counters = COUNTERS.map(|(name, words, read)| {
        let counter = Counter::<u64>::default();
        registry.register(name, words, counter.clone());
        (counter, read)
    });
    let gauges = GAUGES.map(|(name, words, read)| {
        let gauge = Gauge::<i64>::default();
        registry.register(name, words, gauge.clone());
        (gauge, read)
    });
    let once = once.clone();
    metrics.refresh_by(move || {
        let figures = once.figures();
        for (counter, read) in &counters {
            counter.inc_by(read(&figures).saturating_sub(counter.get()));
        }
        for (gauge, read) in &gauges {
            gauge.set(i64::try_from(read(&figures)).unwrap_or(i64::MAX));
        }
        async {}.boxed()
    });
    registered
}

impl Registered {
    pub(super) fn of(&self, name: &str) -> Counts {
        let answers = |source| {
            self.answers.get_or_create_owned(&SourceLabel { once: name.to_owned(), source })
        };
        Counts {
            computed: answers("computed"),
            joined: answers("joined"),
            node: answers("node"),
            store: answers("store"),
            name: name.to_owned(),
            errors: self.errors.clone(),
        }
    }
}

impl Counts {
    pub(super) fn answered(&self, source: Source) {
        let counter = match source {
            Source::Computed => &self.computed,
            Source::Joined => &self.joined,
            Source::Node => &self.node,
            Source::Store => &self.store,
        };
        counter.inc();
    }

    pub(super) fn failed(&self, error: &OnceError) {
        let reason = match error {
            OnceError::Failed { .. } => "failed",
            OnceError::Deadline => "deadline",
            OnceError::Crowded => "crowded",
            OnceError::Gone => "gone",
            OnceError::Unavailable { .. } => "unavailable",
        };
        self.errors.get_or_create(&ReasonLabel { once: self.name.clone(), reason }).inc();
    }
}
