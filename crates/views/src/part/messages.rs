//! The messages of a stream's queue: each is an event in JSON. Malformed ones go to the stream's list of refused
//! messages.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::queue_consumer::{MessageJudge, RefusedMessage};
use consort_kernel::limits::RECORD_BYTES;
use consort_kernel::{CommitError, Fault, Message, Store};

use crate::refused::{self, Refused};
use crate::stream::Stream;

/// Judges the messages for a stream.
pub(super) struct StreamMessages {
    pub(super) stream: Arc<Stream>,
    pub(super) store: Arc<dyn Store>,
}

#[async_trait]
impl MessageJudge for StreamMessages {
    fn judge(&self, message: &Message) -> Result<(u32, Bytes), String> {
        let taken = self.stream.schema.take(&message.body);
        let mut event = taken.map_err(|rejection| rejection.to_string())?;
        // An empty id is what some clients send when they have none.
        let id = message.id.clone().filter(|id| !id.is_empty());
        event.id = id.or_else(|| self.stream.id_in(&event));
        let record = event.encode();
        if record.len() > RECORD_BYTES {
            return Err(format!("the event is larger than {RECORD_BYTES} bytes"));
        }
        Ok((self.stream.partition_for(&event, &record), record))
    }

    async fn note(&self, messages: &[RefusedMessage]) -> Result<(), Fault> {
        let now = self.store.now().await?;
        let refused = |RefusedMessage { message, reason }: &RefusedMessage| {
            Refused::new(&message.body, message.id.clone(), reason.clone(), now)
        };
        let refused: Vec<Refused> = messages.iter().map(refused).collect();
        Ok(refused::note(&*self.store, &self.stream.name, &refused).await?)
    }
}

impl From<refused::NoteError> for Fault {
    fn from(error: refused::NoteError) -> Self {
        match error.0 {
            CommitError::Engine(fault) | CommitError::Unknown(fault) => fault,
            other => Fault::Retryable(other.to_string()),
        }
    }
}
