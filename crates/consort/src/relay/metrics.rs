//! What a relay counts: what came in, and what became of it for each target.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabel {
    target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetReason {
    target: String,
    reason: &'static str,
}

/// The counts of a relay.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Lines that came in.
    pub(super) lines: Counter,
    /// Lines that got their time here.
    pub(super) stamped: Counter,
    refused: Family<ReasonLabel, Counter>,
    sent: Family<TargetLabel, Counter>,
    dropped: Family<TargetReason, Counter>,
    waiting: Family<TargetLabel, Gauge>,
    retries: Family<TargetLabel, Counter>,
}

/// The counts of one target.
#[derive(Clone, Debug)]
pub(super) struct TargetMetrics {
    /// Lines that were sent; whether a datagram arrived nobody knows.
    pub(super) sent: Counter,
    /// The oldest lines of a full queue.
    pub(super) full: Counter,
    /// Lines that could not be sent, or that the target refused for good.
    pub(super) failed: Counter,
    /// Bytes that wait.
    pub(super) waiting: Gauge,
    /// Batches that were sent again.
    pub(super) retries: Counter,
}

impl Counts {
    pub(super) fn register(registry: &mut Registry) -> Counts {
        let counts = Counts {
            lines: Counter::default(),
            stamped: Counter::default(),
            refused: Family::default(),
            sent: Family::default(),
            dropped: Family::default(),
            waiting: Family::default(),
            retries: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("relay");
        registry.register("lines", "Lines that came in and are lines", counts.lines.clone());
        registry.register("stamped", "Lines that got their time here", counts.stamped.clone());
        registry.register(
            "refused",
            "What did not come in: datagrams and connections (kernel, oversize, disallowed, connections) and lines (malformed, unrouted)",
            counts.refused.clone(),
        );
        registry.register("sent", "Lines sent to a target", counts.sent.clone());
        registry.register("dropped", "Lines that a target did not get", counts.dropped.clone());
        registry.register("waiting_bytes", "Bytes that wait for a target", counts.waiting.clone());
        registry.register("retries", "Batches that were sent again", counts.retries.clone());
        counts
    }

    /// What did not come in, by the reason.
    pub(super) fn refused(&self, reason: &'static str) -> Counter {
        self.refused.get_or_create(&ReasonLabel { reason }).clone()
    }

    pub(super) fn of(&self, target: &str) -> TargetMetrics {
        let label = TargetLabel { target: target.into() };
        let dropped = |reason| {
            let labels = TargetReason { target: target.into(), reason };
            self.dropped.get_or_create(&labels).clone()
        };
        TargetMetrics {
            sent: self.sent.get_or_create(&label).clone(),
            full: dropped("full"),
            failed: dropped("failed"),
            waiting: self.waiting.get_or_create(&label).clone(),
            retries: self.retries.get_or_create(&label).clone(),
        }
    }
}
