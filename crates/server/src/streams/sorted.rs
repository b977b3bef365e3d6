//! Records on their way to their partitions, sorted by them.

use bytes::Bytes;

/// Records are sent when there are this many bytes of them: frames of a useful size for each partition.
const STEP_BYTES: usize = 512 * 1024;

/// And this many at most, so that the gate is asked in steps.
const STEP_RECORDS: u64 = 50_000;

/// What has been taken and not yet sent, by partition.
#[derive(Debug)]
pub(crate) struct Sorted {
    partitions: Vec<Vec<Bytes>>,
    /// Bytes of all records.
    pub(crate) bytes: usize,
    /// How many there are.
    pub(crate) records: u64,
}

impl Sorted {
    pub(crate) fn new(partitions: u32) -> Sorted {
        Sorted { partitions: vec![Vec::new(); partitions as usize], bytes: 0, records: 0 }
    }

    pub(crate) fn push(&mut self, partition: u32, record: Bytes) {
        self.bytes += record.len();
        self.records += 1;
        self.partitions[partition as usize].push(record);
    }

    /// Whether it is time to send.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES || self.records >= STEP_RECORDS
    }

    /// Takes everything, with the partitions' numbers.
    pub(crate) fn take(&mut self) -> Vec<(u32, Vec<Bytes>)> {
        (self.bytes, self.records) = (0, 0);
        let some =
            self.partitions.iter_mut().enumerate().filter(|(_, records)| !records.is_empty());
        some.map(|(at, records)| (at as u32, std::mem::take(records))).collect()
    }
}
