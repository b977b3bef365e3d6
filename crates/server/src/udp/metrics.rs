//! What is counted of datagrams, and of what was dropped why.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    stream: String,
    reason: &'static str,
}

/// The counts of all streams.
pub(super) struct Counts {
    datagrams: Family<StreamLabel, Counter>,
    lines: Family<StreamLabel, Counter>,
    dropped: Family<DroppedLabels, Counter>,
}

/// The counts of one stream.
#[derive(Clone, Debug)]
pub(super) struct UdpMetrics {
    /// Datagrams that were received.
    pub(super) datagrams: Counter,
    /// Lines in them, good and bad.
    pub(super) lines: Counter,
    /// Datagrams that the kernel dropped, because its buffer was full.
    pub(super) kernel: Counter,
    /// Datagrams that were longer than the room for one, of which the rest is gone.
    pub(super) oversize: Counter,
    /// Datagrams from those who may not send.
    pub(super) disallowed: Counter,
    /// Lines that are no event of the stream.
    pub(super) malformed: Counter,
    /// Lines that came while more was on its way into the log than may be.
    pub(super) overload: Counter,
    /// Lines that the log did not take, or not for certain.
    pub(super) unappended: Counter,
}

impl Counts {
    pub(super) fn register(registry: &mut Registry) -> Counts {
        let (datagrams, lines, dropped) = Default::default();
        let counts = Counts { datagrams, lines, dropped };
        registry.register(
            "udp_datagrams",
            "Datagrams that this node received",
            counts.datagrams.clone(),
        );
        registry.register("udp_lines", "Lines in those datagrams", counts.lines.clone());
        registry.register(
            "udp_dropped",
            "What was dropped: datagrams (kernel, oversize, disallowed) and lines (malformed, overload, unappended)",
            counts.dropped.clone(),
        );
        counts
    }

    pub(super) fn of(&self, stream: &str) -> UdpMetrics {
        let label = StreamLabel { stream: stream.into() };
        let dropped = |reason| {
            let labels = DroppedLabels { stream: stream.into(), reason };
            self.dropped.get_or_create(&labels).clone()
        };
        UdpMetrics {
            datagrams: self.datagrams.get_or_create(&label).clone(),
            lines: self.lines.get_or_create(&label).clone(),
            kernel: dropped("kernel"),
            oversize: dropped("oversize"),
            disallowed: dropped("disallowed"),
            malformed: dropped("malformed"),
            overload: dropped("overload"),
            unappended: dropped("unappended"),
        }
    }
}

impl UdpMetrics {
    /// All that was dropped, with the reasons.
    pub(super) fn dropped(&self) -> [(&'static str, u64); 6] {
        [
            ("kernel", self.kernel.get()),
            ("oversize", self.oversize.get()),
            ("disallowed", self.disallowed.get()),
            ("malformed", self.malformed.get()),
            ("overload", self.overload.get()),
            ("unappended", self.unappended.get()),
        ]
    }
}
