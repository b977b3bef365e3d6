//! What the gates of a node count and show: `consort_gate_…`, by stream.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use futures::FutureExt as _;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Gate, Reason, Shared};
use crate::metrics::Metrics;

/// The metrics of all gates of a node; a clone shows the same ones.
#[derive(Clone)]
pub struct GateMetrics(Arc<Inner>);

struct Inner {
    admitted: Family<StreamLabel, Counter>,
    refused: Family<RefusedLabel, Counter>,
    in_flight: Family<StreamLabel, Gauge>,
    waiting: Family<StreamLabel, Gauge>,
    limit: Family<StreamLabel, Gauge>,
    rate: Family<StreamLabel, Gauge<f64, AtomicU64>>,
    open: Family<StreamLabel, Gauge>,
    k: Family<StreamLabel, Gauge>,
    /// The gates, looked at before each scrape: as many as there are streams in the config.
    gates: Mutex<Vec<(StreamLabel, Weak<Shared>)>>,
}

/// What one gate counts as it happens.
#[derive(Debug)]
pub(super) struct Counted {
    admitted: Counter,
    refused: [(Reason, Counter); Reason::ALL.len()],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabel {
    stream: String,
    reason: &'static str,
}

impl GateMetrics {
    /// Registers them, and has each scrape look at the gates first.
    pub fn register(metrics: &mut Metrics) -> GateMetrics {
        let gates = GateMetrics::of(metrics.registry());
        let shown = gates.clone();
        metrics.refresh_by(move || {
            shown.show();
            futures::future::ready(()).boxed()
        });
        gates
    }

    fn of(registry: &mut Registry) -> GateMetrics {
        let inner = Inner {
            admitted: Family::default(),
            refused: Family::default(),
            in_flight: Family::default(),
            waiting: Family::default(),
            limit: Family::default(),
            rate: Family::default(),
            open: Family::default(),
            k: Family::default(),
            gates: Mutex::default(),
        };
        let registry = registry.sub_registry_with_prefix("gate");
        registry.register("admitted", "Posts let in, by stream", inner.admitted.clone());
        let refused = "Posts refused with 503, by stream and reason";
        registry.register("refused", refused, inner.refused.clone());
        registry.register("in_flight", "Posts being appended, by stream", inner.in_flight.clone());
        registry.register("waiting", "Posts held at the door, by stream", inner.waiting.clone());
        let limit = "How many posts may be in flight, by stream with an adaptive gate";
        registry.register("limit", limit, inner.limit.clone());
        let rate = "Records a second that may come in, by stream that lags behind";
        registry.register("records_per_second", rate, inner.rate.clone());
        let open = "Whether the breaker delays posts, by stream with a breaker";
        registry.register("breaker_open", open, inner.open.clone());
        let k = "The breaker delays by 0..2^k ms, by stream with a breaker";
        registry.register("breaker_k", k, inner.k.clone());
        GateMetrics(Arc::new(inner))
    }

    /// Counters of one stream, each of which shows from now on, if only as none.
    pub(super) fn counted(&self, stream: &str) -> Counted {
        let label = StreamLabel { stream: stream.to_owned() };
        let refused = Reason::ALL.map(|reason| {
            let label = RefusedLabel { stream: stream.to_owned(), reason: reason.as_str() };
            (reason, self.0.refused.get_or_create(&label).clone())
        });
        Counted { admitted: self.0.admitted.get_or_create(&label).clone(), refused }
    }

    pub(super) fn watch(&self, stream: &str, gate: &Gate) {
        let label = StreamLabel { stream: stream.to_owned() };
        let mut gates = self.0.gates.lock();
        gates.retain(|(watched, _)| *watched != label);
        gates.push((label, Arc::downgrade(&gate.0)));
    }

    /// Shows how all gates stand now.
    fn show(&self) {
        let Inner { in_flight, waiting, limit, rate, open, k, gates, .. } = &*self.0;
        for (stream, gate) in &*gates.lock() {
            let Some(gate) = gate.upgrade() else { continue };
            let standing = gate.standing();
            set(in_flight, stream, Some(standing.in_flight as i64));
            set(waiting, stream, Some(standing.waiting as i64));
            set(limit, stream, standing.limit.map(|limit| limit as i64));
            set(open, stream, standing.open.map(i64::from));
            set(k, stream, standing.k.map(i64::from));
            match standing.rate {
                Some(now) => drop(rate.get_or_create(stream).set(now)),
                None => drop(rate.remove(stream)),
            }
        }
    }
}

/// What does not apply is absent: a 0 would read as a limit of nothing.
fn set(family: &Family<StreamLabel, Gauge>, stream: &StreamLabel, value: Option<i64>) {
    if let Some(value) = value {
        family.get_or_create(stream).set(value);
    }
}

impl Counted {
    pub(super) fn admitted(&self) {
        self.admitted.inc();
    }

    pub(super) fn refused(&self, reason: Reason) {
        for (of, refused) in &self.refused {
            if *of == reason {
                refused.inc();
            }
        }
    }
}

impl fmt::Debug for GateMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consort_kernel::SeededEntropy;
    use prometheus_client::encoding::text::encode;
    use tokio::time::Instant;

    use super::super::GateKind;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gates_show_what_they_count_and_how_they_stand() {
        let mut registry = Registry::with_prefix("consort");
        let metrics = GateMetrics::of(&mut registry);
        let gates = GateKind::ALL
            .map(|kind| Gate::new(kind.as_str(), kind, Arc::new(SeededEntropy::new(1)), &metrics));
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut admissions = Vec::new();
        for gate in &gates {
            gate.enter(1, deadline).await.unwrap().done(1);
            admissions.push(gate.enter(1, deadline).await.unwrap());
        }
        gates[0].0.counted.refused(Reason::Lag);
        metrics.show();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"consort_gate_admitted_total{stream="adaptive"} 2"#,
            r#"consort_gate_admitted_total{stream="off"} 2"#,
            r#"consort_gate_refused_total{stream="adaptive",reason="lag"} 1"#,
            r#"consort_gate_refused_total{stream="adaptive",reason="latency"} 0"#,
            r#"consort_gate_in_flight{stream="off"} 1"#,
            r#"consort_gate_waiting{stream="off"} 0"#,
            r#"consort_gate_limit{stream="adaptive"} 4096"#,
            r#"consort_gate_breaker_open{stream="breaker"} 0"#,
            r#"consort_gate_breaker_k{stream="breaker"} 0"#,
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is missing:\n{text}");
        }
        for absent in [
            r#"consort_gate_limit{stream="off"}"#,
            r#"consort_gate_breaker_k{stream="adaptive"}"#,
            r#"consort_gate_records_per_second{"#,
        ] {
            assert!(!text.contains(absent), "{absent}:\n{text}");
        }
    }
}
