//! Confirmed publishing to one queue, one message at a time.
//!
//! One at a time, because the client library cannot say for sure which of several messages was
//! *returned*, as those are that no queue takes; they are confirmed like any other. Nothing is lost by
//! it: a node has one frame for each partition under way, and all partitions at once.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::Fault;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, ErrorKind};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::faults::fault;
use super::session::{Session, retire};

/// For a message to be handed over and confirmed; and for those before it.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// How a publication ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Confirmed.
    Stored,
    /// It never left.
    NotSent(Fault),
    /// It left, and nobody can say what became of it.
    Unknown(Fault),
}

/// Takes messages for one queue.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    /// Whoever publishes takes it out, and puts it back only once the message is confirmed. A channel on
    /// which one was given up, by a time-out or by a caller who went away, is not used again.
    idle: Mutex<Option<Confirming>>,
}

impl Publisher {
    pub(super) async fn publish(
        &self,
        session: &Session,
        queue: &str,
        body: Bytes,
        properties: BasicProperties,
    ) -> Outcome {
        let Ok(mut idle) = timeout(CONFIRM_WITHIN, self.idle.lock()).await else {
            let text = format!("queue {queue} was busy for {CONFIRM_WITHIN:?}");
            return Outcome::NotSent(Fault::Retryable(text));
        };
        let open = idle.take().filter(|confirming| confirming.channel.status().connected());
        let confirming = match open {
            Some(confirming) => confirming,
            None => match Confirming::open(session, queue).await {
                Ok(confirming) => confirming,
                Err(fault) => return Outcome::NotSent(fault),
            },
        };
        let publishing = confirming.publish(queue, &body, properties);
        let outcome = timeout(CONFIRM_WITHIN, publishing).await.unwrap_or_else(|_| {
            let text = format!("RabbitMQ did not confirm a frame within {CONFIRM_WITHIN:?}");
            Outcome::Unknown(Fault::Retryable(text))
        });
        if matches!(outcome, Outcome::Stored) {
            *idle = Some(confirming);
        }
        outcome
    }
}

/// A channel on which the broker confirms what it stored. Closed when dropped.
#[derive(Debug)]
struct Confirming {
    channel: Channel,
}

impl Confirming {
    async fn open(session: &Session, queue: &str) -> Result<Confirming, Fault> {
        let opening = async {
            let channel = session.channel().await?;
            session.declare_on(&channel, queue).await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(Confirming { channel })
        };
        session.answered(&format!("opening queue {queue}"), opening).await
    }

    async fn publish(&self, queue: &str, body: &[u8], properties: BasicProperties) -> Outcome {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sending =
            self.channel.basic_publish("".into(), queue.into(), options, body, properties);
        let confirmed = match sending.await {
            Ok(confirm) => confirm.await,
            // Found before anything was queued.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidChannelState(..)) => {
                return Outcome::NotSent(fault("publishing", &error));
            }
            Err(error) => Err(error),
        };
        match confirmed {
            Ok(Confirmation::Ack(None)) => Outcome::Stored,
            Ok(Confirmation::Ack(Some(_))) => Outcome::NotSent(Fault::Retryable(format!(
                "queue {queue} was deleted, and will be made anew"
            ))),
            // The broker could not take responsibility. That says nothing about what was written: a
            // queue whose leader died has nacks for all that it had not confirmed.
            Ok(Confirmation::Nack(_) | Confirmation::NotRequested) => {
                Outcome::Unknown(Fault::Retryable("RabbitMQ did not take a frame".into()))
            }
            Err(error) => Outcome::Unknown(fault("publishing", &error)),
        }
    }
}

impl Drop for Confirming {
    fn drop(&mut self) {
        retire(self.channel.clone(), ());
    }
}
