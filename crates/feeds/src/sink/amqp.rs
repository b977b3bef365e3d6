//! The sink `amqp`: each row is a message, confirmed by the broker.

use std::sync::Arc;

use async_trait::async_trait;
use consort_kernel::{Outgoing, Publisher};

use super::events::id;
use super::{Delivery, Failed, Sink};
use crate::shown::row_json;

#[derive(Debug)]
pub(super) struct AmqpSink {
    pub(super) publisher: Arc<dyn Publisher>,
}

#[async_trait]
impl Sink for AmqpSink {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        let message = |Delivery { row, .. }: &Delivery| Outgoing {
            body: row_json(row).into(),
            content_type: "application/json",
            id: id(row),
        };
        let messages: Vec<Outgoing> = rows.iter().map(message).collect();
        // A fault that is final for the broker may be mended by whoever runs it.
        self.publisher.publish(&messages).await.map_err(|fault| Failed::retry(fault.to_string()))
    }
}
