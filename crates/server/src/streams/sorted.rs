//! Events as records: encoded, and sorted by their partitions.

use consort_kernel::limits::RECORD_BYTES;
use consort_views::{Event, Stream};

use crate::ingress::Batch;

/// Encodes events one after the other, in the same memory.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// The record of the last event, and the key by which it finds its partition.
    record: Vec<u8>,
    key: Vec<u8>,
}

/// An event that no frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event is larger than {RECORD_BYTES} bytes")]
pub(crate) struct TooLarge;

impl Encoder {
    /// The partition and the record of an event, with the id that it carries in a field.
    pub(crate) fn encode(
        &mut self,
        stream: &Stream,
        mut event: Event,
    ) -> Result<(u32, &[u8]), TooLarge> {
        event.id = stream.id_in(&event);
        self.record.clear();
        event.encode_to(&mut self.record);
        if self.record.len() > RECORD_BYTES {
            return Err(TooLarge);
        }
        let partition = stream.partition_by(&event, &self.record, &mut self.key);
        Ok((partition, &self.record))
    }
}

/// Events that were taken and not yet sent, by partition.
#[derive(Debug)]
pub(crate) struct Sorted {
    encoder: Encoder,
    pub(crate) batch: Batch,
}

impl Sorted {
    pub(crate) fn new(partitions: u32) -> Sorted {
        Sorted { encoder: Encoder::default(), batch: Batch::new(partitions) }
    }

    /// Puts an event to those of its partition.
    pub(crate) fn push(&mut self, stream: &Stream, event: Event) -> Result<(), TooLarge> {
        let (partition, record) = self.encoder.encode(stream, event)?;
        self.batch.push(partition, record);
        Ok(())
    }
}
