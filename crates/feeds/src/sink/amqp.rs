//! The sink `amqp`: each change is a message, confirmed by the broker.

use std::sync::Arc;

use async_trait::async_trait;
use consort_kernel::{Outgoing, Publisher};

use super::{Delivery, Failed, Sink};

#[derive(Debug)]
pub(super) struct AmqpSink {
    pub(super) publisher: Arc<dyn Publisher>,
}

#[async_trait]
impl Sink for AmqpSink {
    async fn deliver(&self, changes: &[Delivery]) -> Result<(), Failed> {
        let message = |delivery: &Delivery| {
            Ok(Outgoing {
                body: delivery.change.payload_line().into_owned().into(),
                content_type: "application/json",
                id: delivery.id()?,
            })
        };
        let messages: Result<Vec<Outgoing>, String> = changes.iter().map(message).collect();
        let messages = messages.map_err(Failed::refused)?;
        // A fault that is final for the broker may be mended by whoever runs it.
        self.publisher.publish(&messages).await.map_err(|fault| Failed::retry(fault.to_string()))
    }
}
