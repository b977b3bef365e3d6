//! `Publisher` on an exchange of RabbitMQ that others declare.
//!
//! It has a connection of its own, which is made again by whoever publishes next after it was lost. It never
//! declares the exchange, nor a queue behind it: what those should be is for their owner to say.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{Fault, Outgoing, Publisher};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::faults::fault;
use super::link::Link;
use super::session::{Declaring, retire};
use super::target::Target;
use crate::open::OpenError;

/// For all messages of a call to be handed over and confirmed; and for those of the call before it.
const CONFIRM_WITHIN: Duration = Duration::from_secs(8);

/// The longest name of an exchange, and the longest routing key, that RabbitMQ takes.
const NAME_MAX: usize = 255;

/// Kept on the disk where the queue is.
const PERSISTENT: u8 = 2;

/// Messages into an exchange.
pub struct RabbitPublisher {
    target: Arc<Target>,
    exchange: String,
    routing_key: String,
    link: Link,
    /// Whoever publishes takes it out, and puts it back only once everything is confirmed.
    idle: Mutex<Option<Confirming>>,
}

impl RabbitPublisher {
    /// A publisher to `exchange` on the broker at `url`, `amqp://…` or `amqps://…`, to be connected later.
    pub async fn open(
        url: &str,
        exchange: &str,
        routing_key: &str,
        tls_ca: Option<&Path>,
    ) -> Result<RabbitPublisher, OpenError> {
        let target = Arc::new(Target::parse(url, tls_ca).await?);
        for (what, text) in [("an exchange's name", exchange), ("a routing key", routing_key)] {
            if text.len() > NAME_MAX {
                let reason = format!("{what} has at most {NAME_MAX} bytes, not {}", text.len());
                return Err(target.unusable(reason));
            }
        }
        let name = format!("consort: rows to {exchange}/{routing_key}");
        let link = Link::new(target.clone(), name, Declaring::default());
        let (exchange, routing_key) = (exchange.into(), routing_key.into());
        Ok(RabbitPublisher { target, exchange, routing_key, link, idle: Mutex::default() })
    }

    async fn open_channel(&self) -> Result<Confirming, Fault> {
        let session = self.link.session().await?;
        let opening = async {
            let channel = session.channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(Confirming(channel))
        };
        session.answered("opening a channel", opening).await
    }

    /// Hands all over, then waits for all confirms.
    async fn send(&self, channel: &Channel, messages: &[Outgoing]) -> Result<(), Fault> {
        let failed = |error: &lapin::Error| fault(&self.what(), error);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut confirms = Vec::with_capacity(messages.len());
        for Outgoing { body, content_type, id } in messages {
            let properties = BasicProperties::default()
                .with_delivery_mode(PERSISTENT)
                .with_content_type((*content_type).into())
                .with_message_id(id.as_str().into());
            let (exchange, key) = (self.exchange.as_str(), self.routing_key.as_str());
            let sending =
                channel.basic_publish(exchange.into(), key.into(), options, body, properties);
            confirms.push(sending.await.map_err(|error| failed(&error))?);
        }
        for confirm in confirms {
            match confirm.await.map_err(|error| failed(&error))? {
                Confirmation::Ack(None) => {}
                // Which one it was does not matter: all are handed over again.
                Confirmation::Ack(Some(_)) => {
                    let text = format!("{}: no queue takes it; bind one", self.what());
                    return Err(Fault::Retryable(text));
                }
                Confirmation::Nack(_) | Confirmation::NotRequested => {
                    let text = format!("{}: it was not taken", self.what());
                    return Err(Fault::Retryable(text));
                }
            }
        }
        Ok(())
    }

    fn what(&self) -> String {
        let RabbitPublisher { target, exchange, routing_key, .. } = self;
        format!(
            "publishing to exchange '{exchange}' with '{routing_key}' of RabbitMQ at {target:?}"
        )
    }
}

#[async_trait]
impl Publisher for RabbitPublisher {
    async fn publish(&self, messages: &[Outgoing]) -> Result<(), Fault> {
        let late = |what: &str| {
            Fault::Retryable(format!("{}: {what} within {CONFIRM_WITHIN:?}", self.what()))
        };
        let locking = timeout(CONFIRM_WITHIN, self.idle.lock()).await;
        let mut idle = locking.map_err(|_| late("others were not done"))?;
        let open = idle.take().filter(|confirming| confirming.0.status().connected());
        let confirming = match open {
            Some(confirming) => confirming,
            None => self.open_channel().await?,
        };
        let sent = timeout(CONFIRM_WITHIN, self.send(&confirming.0, messages)).await;
        sent.map_err(|_| late("it was not confirmed"))??;
        *idle = Some(confirming);
        Ok(())
    }
}

impl fmt::Debug for RabbitPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitPublisher")
            .field("target", &self.target)
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .finish_non_exhaustive()
    }
}

/// A channel on which the broker confirms what it stored. Closed when dropped.
struct Confirming(Channel);

impl Drop for Confirming {
    fn drop(&mut self) {
        retire(self.0.clone(), ());
    }
}
