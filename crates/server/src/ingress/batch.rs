//! Records that wait to be sent together, by partition.

use consort_kernel::{Records, RecordsMut};

/// A batch is sent when it has this many bytes: frames of a useful size for each partition.
const BATCH_BYTES: usize = 512 * 1024;

/// And at this many records, so that the gate is asked in steps.
const BATCH_RECORDS: u64 = 50_000;

/// Records that were taken and not yet sent.
#[derive(Debug)]
pub struct Batch {
    partitions: Vec<RecordsMut>,
    bytes: usize,
    records: u64,
}

impl Batch {
    /// An empty one for so many partitions.
    pub fn new(partitions: u32) -> Batch {
        Batch { partitions: vec![RecordsMut::default(); partitions as usize], bytes: 0, records: 0 }
    }

    /// Adds a record to those of its partition.
    pub fn push(&mut self, partition: u32, record: &[u8]) {
        self.partitions[partition as usize].push(record);
        self.bytes += record.len();
        self.records += 1;
    }

    /// Bytes of all records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether it is time to send.
    pub fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.records >= BATCH_RECORDS
    }

    /// Takes everything, with the partitions' numbers.
    pub fn take(&mut self) -> Vec<(u32, Records)> {
        (self.bytes, self.records) = (0, 0);
        let some =
            self.partitions.iter_mut().enumerate().filter(|(_, records)| !records.is_empty());
        some.map(|(at, records)| (at as u32, records.take())).collect()
    }
}
