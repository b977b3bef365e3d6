//! `Log` in memory: for each partition its encoded frames by offset.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::cursor::Cursor;
use crate::digest::Digest;
use crate::error::{AppendError, Fault, ReadError};
use crate::frame::Frame;
use crate::log::{Log, LogEntry, Partition};
use crate::store::Most;
use crate::wake::{Topic, Wake, Wakes, read_or_wait};

/// Streams in memory.
#[derive(Debug, Default)]
pub struct MemoryLog {
    partitions: Mutex<HashMap<Partition, BTreeMap<u64, Bytes>>>,
    wakes: Wakes,
}

impl MemoryLog {
    /// Forgets the entries from `from` on, as an engine does that loses its tail. The next append takes
    /// their numbers again. For tests and simulations.
    pub fn lose_tail(&self, at: &Partition, from: u64) {
        if let Some(entries) = self.partitions.lock().get_mut(at) {
            entries.split_off(&from);
        }
    }

    /// Flips a bit of a stored frame, as a failing disk does. For tests and simulations.
    pub fn corrupt(&self, at: &Partition, offset: u64) {
        if let Some(stored) = self.partitions.lock().get_mut(at).and_then(|p| p.get_mut(&offset)) {
            let mut bytes = stored.to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            *stored = bytes.into();
        }
    }

    /// Wakes its holder when the partition is appended to: a waiting read without tokio's timers, for
    /// tests and simulations.
    pub fn listen(&self, at: &Partition) -> Wake {
        self.wakes.listen(Topic::partition(at))
    }

    fn read_now(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let partitions = self.partitions.lock();
        let Some(entries) = partitions.get(at) else {
            after.verify(0, None)?;
            return Ok(Vec::new());
        };
        let vouched = after.last.and_then(|(number, _)| entries.get(&number));
        let first = entries.first_key_value().map_or(0, |(&offset, _)| offset);
        after.verify(first, vouched.map(|stored| Digest::of(stored)))?;

        let mut read = Vec::new();
        let mut bytes = 0;
        for (&offset, stored) in entries.range(after.next..) {
            match LogEntry::from_stored(at, offset, stored) {
                Ok(entry) => read.push(entry),
                Err(error) if read.is_empty() => return Err(error),
                Err(_) => break,
            }
            bytes += stored.len();
            if most.reached(read.len(), bytes) {
                break;
            }
        }
        Ok(read)
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        let bytes = frame.encode()?;
        {
            let mut partitions = self.partitions.lock();
            let entries = partitions.entry(at.clone()).or_default();
            let offset = entries.last_key_value().map_or(0, |(&last, _)| last + 1);
            entries.insert(offset, bytes);
        }
        self.wakes.wake(Topic::partition(at));
        Ok(())
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let listen = || self.listen(at);
        let read = async || self.read_now(at, after, most);
        read_or_wait(wait, Duration::MAX, listen, read).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        let partitions = self.partitions.lock();
        let first = partitions.get(at).and_then(|entries| entries.first_key_value());
        Ok(first.map_or(0, |(&offset, _)| offset))
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        if let Some(entries) = self.partitions.lock().get_mut(at)
            && let Some((&newest, _)) = entries.last_key_value()
        {
            *entries = entries.split_off(&before.min(newest));
        }
        Ok(())
    }

    async fn ping(&self) -> Result<(), Fault> {
        Ok(())
    }
}
