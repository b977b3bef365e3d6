//! Records on their way to their partitions, sorted by them.

use bytes::Bytes;

/// What has been taken and not yet sent, by partition.
#[derive(Debug)]
pub(super) struct Sorted {
    partitions: Vec<Vec<Bytes>>,
    /// Bytes of all records.
    pub(super) bytes: usize,
    /// How many there are.
    pub(super) records: u64,
}

impl Sorted {
    pub(super) fn new(partitions: u32) -> Sorted {
        Sorted { partitions: vec![Vec::new(); partitions as usize], bytes: 0, records: 0 }
    }

    pub(super) fn push(&mut self, partition: u32, record: Bytes) {
        self.bytes += record.len();
        self.records += 1;
        self.partitions[partition as usize].push(record);
    }

    /// Takes everything, with the partitions' numbers.
    pub(super) fn take(&mut self) -> Vec<(u32, Vec<Bytes>)> {
        (self.bytes, self.records) = (0, 0);
        let some =
            self.partitions.iter_mut().enumerate().filter(|(_, records)| !records.is_empty());
        some.map(|(at, records)| (at as u32, std::mem::take(records))).collect()
    }
}
