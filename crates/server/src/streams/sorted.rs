//! Records on their way to their partitions, sorted by them.

use consort_kernel::limits::RECORD_BYTES;
use consort_kernel::{Records, RecordsMut};
use consort_views::{Event, Stream};

/// Records are sent when there are this many bytes of them: frames of a useful size for each partition.
const STEP_BYTES: usize = 512 * 1024;

/// And this many at most, so that the gate is asked in steps.
const STEP_RECORDS: u64 = 50_000;

/// What has been taken and not yet sent, by partition.
#[derive(Debug)]
pub(crate) struct Sorted {
    partitions: Vec<RecordsMut>,
    /// Bytes of all records.
    pub(crate) bytes: usize,
    /// How many there are.
    pub(crate) records: u64,
    /// The record that is being made, and the key by which it finds its partition.
    record: Vec<u8>,
    key: Vec<u8>,
}

/// An event that no frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event is larger than {RECORD_BYTES} bytes")]
pub(crate) struct TooLarge;

impl Sorted {
    pub(crate) fn new(partitions: u32) -> Sorted {
        let partitions = vec![RecordsMut::default(); partitions as usize];
        Sorted { partitions, bytes: 0, records: 0, record: Vec::new(), key: Vec::new() }
    }

    /// Puts an event to those of its partition, with the id that it carries in a field.
    pub(crate) fn push(&mut self, stream: &Stream, mut event: Event) -> Result<(), TooLarge> {
        event.id = stream.id_in(&event);
        self.record.clear();
        event.encode_to(&mut self.record);
        if self.record.len() > RECORD_BYTES {
            return Err(TooLarge);
        }
        let partition = stream.partition_by(&event, &self.record, &mut self.key);
        self.partitions[partition as usize].push(&self.record);
        self.bytes += self.record.len();
        self.records += 1;
        Ok(())
    }

    /// Whether it is time to send.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES || self.records >= STEP_RECORDS
    }

    /// Takes everything, with the partitions' numbers.
    pub(crate) fn take(&mut self) -> Vec<(u32, Records)> {
        (self.bytes, self.records) = (0, 0);
        let some =
            self.partitions.iter_mut().enumerate().filter(|(_, records)| !records.is_empty());
        some.map(|(at, records)| (at as u32, records.take())).collect()
    }
}
