//! Lines of datagrams on their way into the log: sorted by partition, and bounded in memory.

use std::fmt;
use std::sync::Arc;

use consort_cluster::{Appending, SubmitError, SubmitOptions};
use consort_views::Event;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::metrics::UdpMetrics;
use crate::streams::{Entrance, Sorted};

/// Bytes of records that may be on their way into the log. With what the kernel holds it is the most that a stop
/// of the log may last before lines are dropped.
pub(super) const IN_FLIGHT_BYTES: usize = 16 << 20;

/// What is on its way.
pub(super) struct Inbox {
    entrance: Arc<Entrance>,
    metrics: UdpMetrics,
    sorted: Sorted,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    in_flight: usize,
}

/// What became of records that were sent together.
struct Step {
    bytes: usize,
    appended: u64,
    failed: u64,
}

impl Inbox {
    pub(super) fn new(entrance: Arc<Entrance>, metrics: UdpMetrics) -> Inbox {
        let sorted = Sorted::new(entrance.stream.partitions);
        Inbox { entrance, metrics, sorted, steps: FuturesUnordered::new(), in_flight: 0 }
    }

    /// Takes an event; it is on its way after the next [`send`](Inbox::send).
    pub(super) fn take(&mut self, event: Event) {
        // A datagram is far smaller than what a record may be.
        let _ = self.sorted.push(&self.entrance.stream, event);
        if self.sorted.batch.is_full() {
            self.send();
        }
    }

    /// Sends what was taken, or drops it where there is no room.
    pub(super) fn send(&mut self) {
        let bytes = self.sorted.batch.bytes();
        if !self.has_room() {
            self.metrics.overload.inc_by(self.sorted.batch.records());
            self.sorted.batch.take();
            return;
        }
        let mut sent = Vec::new();
        for (index, records) in self.sorted.batch.take() {
            let count = records.len() as u64;
            match self.entrance.ingress.enqueue(index, records, SubmitOptions::default()) {
                Ok(appending) => sent.push((count, appending)),
                Err(SubmitError::NotStored(_)) => {
                    self.metrics.overload.inc_by(count);
                }
                Err(SubmitError::Refused(_) | SubmitError::Unknown(_)) => {
                    self.metrics.unappended.inc_by(count);
                }
            }
        }
        if !sent.is_empty() {
            self.in_flight += bytes;
            self.steps.push(Box::pin(step(sent, bytes)));
        }
    }

    /// Whether more may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < IN_FLIGHT_BYTES
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Waits until some of it is appended, or given up.
    pub(super) async fn settle(&mut self) {
        let Some(Step { bytes, appended, failed }) = self.steps.next().await else { return };
        self.in_flight -= bytes;
        let counted = self.entrance.ingress.metrics();
        counted.accepted.inc_by(appended);
        counted.unappended.inc_by(failed);
        self.metrics.unappended.inc_by(failed);
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

async fn step(sent: Vec<(u64, Appending)>, bytes: usize) -> Step {
    let (mut appended, mut failed) = (0, 0);
    for (records, appending) in sent {
        match appending.await {
            Ok(_) => appended += records,
            Err(_) => failed += records,
        }
    }
    Step { bytes, appended, failed }
}
