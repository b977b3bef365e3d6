//! Anchors: how the end of a partition is found when nothing is delivered.
//!
//! A cursor vouches for entry 7, but the partition lost its tail and ends at 3. The broker says nothing
//! of that: it attaches the reader at the end and delivers when entry 7 is written anew, perhaps never.
//! AMQP cannot ask where a stream ends, and the message count is seconds old. So:
//!
//! 1. The reader was attached at 7 and nothing came.
//! 2. A second reader is attached before the end. It will see whatever is written from now on.
//! 3. A marker is published and confirmed: the anchor.
//! 4. The second reader delivers the anchor at 4. All that was there before has a smaller offset, so
//!    there was no entry 7: it is lost. Had entry 7 been there, the anchor would stand behind it.
//! 5. Others may append meanwhile. If the second reader delivers something behind 7 first, then the log
//!    reaches past 7, the first reader will deliver what stands there now, and its digest tells.
//!
//! An anchor stays in the queue. It has no body and is skipped by every reader, so it leaves a gap in
//! the offsets, and no other trace. Usually none is ever written.

use std::sync::Arc;

use bytes::Bytes;
use consort_kernel::{Entropy, Fault, Partition, SystemEntropy};
use tokio::time::Instant;

use super::RabbitLog;
use super::publisher::Outcome;
use super::queue::anchor_properties;
use super::reader::{From, Reader};
use super::session::{ANSWER_WITHIN, Session};

impl RabbitLog {
    /// An offset that the partition reaches now: if it is not above `number`, there was no such entry
    /// when this was called.
    pub(super) async fn end_of(
        &self,
        session: &Arc<Session>,
        at: &Partition,
        number: u64,
    ) -> Result<u64, Fault> {
        let queue = self.inner.queues.name(at);
        let mut reader = Reader::attach(session, &queue, From::Last).await?;
        // To be told apart from the anchors of all other readers.
        let id = format!("{:016x}", SystemEntropy.next());
        self.drop_anchor(&queue, &id).await?;
        let until = Instant::now() + ANSWER_WITHIN;
        while let Some(stored) = reader.next(until).await? {
            if stored.offset > number || stored.anchor.as_ref() == Some(&id) {
                return Ok(stored.offset);
            }
        }
        let text = format!("the end of stream partition {at} was not found in {ANSWER_WITHIN:?}");
        Err(Fault::Retryable(text))
    }

    async fn drop_anchor(&self, queue: &str, id: &str) -> Result<(), Fault> {
        let session = self.inner.appends.session().await?;
        match session.publish(queue, Bytes::new(), anchor_properties(id)).await {
            Outcome::Stored => Ok(()),
            Outcome::NotSent(fault) | Outcome::Unknown(fault) => Err(fault),
        }
    }
}
