//! The publishers of one connection: one for each queue that is published to.
//!
//! They are never shared between queues. RabbitMQ 3.10 loses confirmed messages if they are: while a
//! stream's leader changes, as it does whenever the broker was restarted, it sends what is not confirmed
//! to the new leader again, and numbers it as the *channel* counts its messages; the leader takes the
//! next ones, which are numbered as the *queue* counts them, for repeats of something it has, drops them
//! and confirms them. Only where a channel has a single queue are the two counts the same.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use consort_kernel::Fault;
use lapin::BasicProperties;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::publisher::{Outcome, Publisher};
use super::session::Session;

/// Publishers that are open at once: each has a channel, of which a connection has 2,047 by default.
const OPEN: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Publishers {
    open: Mutex<HashMap<String, Slot>>,
}

#[derive(Debug)]
struct Slot {
    publisher: Arc<Publisher>,
    used: Instant,
}

impl Publishers {
    pub(super) async fn publish(
        &self,
        session: &Session,
        queue: &str,
        body: Bytes,
        properties: BasicProperties,
    ) -> Outcome {
        match self.of(queue) {
            Some(publisher) => publisher.publish(session, queue, body, properties).await,
            None => {
                let text = format!("more than {OPEN} partitions are being appended to");
                Outcome::NotSent(Fault::Retryable(text))
            }
        }
    }

    /// The queue's publisher. None if all that may be open are in use.
    fn of(&self, queue: &str) -> Option<Arc<Publisher>> {
        let mut open = self.open.lock();
        if let Some(slot) = open.get_mut(queue) {
            slot.used = Instant::now();
            return Some(slot.publisher.clone());
        }
        if open.len() >= OPEN {
            // Whoever uses one holds it, and the lock keeps others from taking it meanwhile.
            let idle = open.iter().filter(|(_, slot)| Arc::strong_count(&slot.publisher) == 1);
            let oldest = idle.min_by_key(|(_, slot)| slot.used).map(|(queue, _)| queue.clone());
            open.remove(&oldest?);
        }
        let slot = Slot { publisher: Arc::default(), used: Instant::now() };
        let publisher = slot.publisher.clone();
        open.insert(queue.into(), slot);
        Some(publisher)
    }
}
