//! From what a sink is told to the sink: the one `match` that chooses.

use std::sync::Arc;

use consort_kernel::Publisher;

use super::Sink;
use super::amqp::AmqpSink;
use super::config::{SinkConfig, SinkKind};
use super::file::FileSink;
use super::influx::InfluxSink;
use super::webhook::WebhookSink;

/// Why a sink cannot be used as it is declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sink '{sink}' cannot be used: {reason}")]
pub struct Unopened {
    /// Which.
    pub sink: String,
    /// Why.
    pub reason: String,
}

/// The sink. `publisher` is the way to its broker, if it is one that has one. Nothing is connected yet.
pub(crate) fn open(
    config: &SinkConfig,
    publisher: Option<&Arc<dyn Publisher>>,
) -> Result<Arc<dyn Sink>, Unopened> {
    let unopened = |reason: String| Unopened { sink: config.name.to_string(), reason };
    Ok(match &config.kind {
        SinkKind::Influx(influx) => Arc::new(InfluxSink::new(influx).map_err(unopened)?),
        SinkKind::Webhook(webhook) => Arc::new(WebhookSink::new(webhook)),
        SinkKind::File(file) => Arc::new(FileSink::new(file)),
        SinkKind::Amqp(_) => {
            let Some(publisher) = publisher else {
                return Err(unopened("no way to its broker was opened".into()));
            };
            Arc::new(AmqpSink { publisher: Arc::clone(publisher) })
        }
    })
}
