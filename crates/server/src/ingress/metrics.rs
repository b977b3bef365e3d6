//! What ingress counts on this node.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

/// The counts of all streams.
pub(super) struct IngressCounts {
    accepted: Family<StreamLabel, Counter>,
    rejected: Family<StreamLabel, Counter>,
    unappended: Family<StreamLabel, Counter>,
}

/// The counts of one stream.
#[derive(Debug, Clone)]
pub struct IngressMetrics {
    /// Events that were acknowledged.
    pub accepted: Counter,
    /// Events that were refused for what they are.
    pub rejected: Counter,
    /// Events that were good, and could not be appended, or not for certain.
    pub unappended: Counter,
}

impl IngressCounts {
    pub(super) fn register(registry: &mut Registry) -> IngressCounts {
        let counts = IngressCounts {
            accepted: Family::default(),
            rejected: Family::default(),
            unappended: Family::default(),
        };
        let rows = [
            ("stream_accepted", "Events that this node acknowledged", &counts.accepted),
            ("stream_rejected", "Events that this node refused as invalid", &counts.rejected),
            (
                "stream_unappended",
                "Valid events that this node could not append, or not for certain",
                &counts.unappended,
            ),
        ];
        for (name, help, counter) in rows {
            registry.register(name, help, counter.clone());
        }
        counts
    }

    pub(super) fn of_stream(&self, stream: &str) -> IngressMetrics {
        let counter = |family: &Family<StreamLabel, Counter>| {
            family.get_or_create(&StreamLabel { stream: stream.into() }).clone()
        };
        IngressMetrics {
            accepted: counter(&self.accepted),
            rejected: counter(&self.rejected),
            unappended: counter(&self.unappended),
        }
    }
}
