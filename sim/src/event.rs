//! The records of a simulation, and where the tally keeps what they do.
//!
//! Groups are numbered. Those below [`PRIVATE`] are shared by all partitions. The partition whose log may
//! lose its tail has groups of its own: after a loss nobody can say what became of the records before it,
//! so these are not compared, and records that come afterwards go to groups beyond [`AFTERWARDS`].

use bytes::Bytes;
use consort_kernel::{Element, Key, Shard, shard_of};

/// From here on groups belong to the partition that may lose its tail.
pub const PRIVATE: u16 = 1000;

/// From here on groups are those of records that came after the loss.
pub const AFTERWARDS: u16 = 2000;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// No two records share it.
    pub serial: u64,
    /// What it is counted under.
    pub group: u16,
    /// What is added and compared.
    pub value: i64,
    /// Its id; 0 for none.
    pub id: u64,
    /// When it happened.
    pub time: u64,
    /// How many members it adds to a set, so that large commits are cut.
    pub spread: u16,
}

const BYTES: usize = 8 + 2 + 8 + 8 + 8 + 2;

impl Event {
    /// The record to append.
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(self.serial.to_be_bytes());
        bytes.extend(self.group.to_be_bytes());
        bytes.extend(self.value.to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.time.to_be_bytes());
        bytes.extend(self.spread.to_be_bytes());
        bytes.into()
    }

    /// Reads a record; every one in a simulation was written by [`encode`](Event::encode).
    pub fn decode(bytes: &[u8]) -> Event {
        assert_eq!(bytes.len(), BYTES, "not an event");
        let eight = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(eight)
        };
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Event {
            serial: eight(0),
            group: two(8),
            value: eight(10) as i64,
            id: eight(18),
            time: eight(26),
            spread: two(34),
        }
    }
}

/// Everything the tally keeps begins with this.
pub fn root() -> Key {
    Key::from(["tally"])
}

/// The cell `what` of a group, and its shard.
pub fn cell(what: &str, group: u16, shards: u16) -> (Shard, Key) {
    let key = root().with(what).with(u32::from(group));
    (shard_of(&key, shards), key)
}

/// The cell `what` that a group has for each partition, and its shard.
pub fn own_cell(what: &str, group: u16, partition: u32, shards: u16) -> (Shard, Key) {
    let key = root().with(what).with(u32::from(group)).with(partition);
    (shard_of(&key, shards), key)
}

/// The group that a cell's key belongs to.
pub fn group_of(key: &Key) -> Option<u16> {
    match key.elements().ok()?.get(2)? {
        Element::Number(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

/// An entry of the tally's feed: which record, of which group, of which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The record's partition.
    pub partition: u32,
    /// Its frame.
    pub offset: u64,
    /// Its place in the frame.
    pub record: u32,
    /// Its serial.
    pub serial: u64,
    /// Its group.
    pub group: u16,
}

impl Change {
    /// The entry to append.
    pub fn encode(&self) -> Bytes {
        let Change { partition, offset, record, serial, group } = *self;
        let (group, record) = (u32::from(group), record);
        Key::of([partition.into(), offset.into(), record.into(), serial.into(), group.into()])
            .to_bytes()
    }

    /// Reads an entry; `None` if it is not one.
    pub fn decode(bytes: &Bytes) -> Option<Change> {
        let elements = Key::from_stored(bytes.clone()).elements().ok()?;
        let number = |at: usize| match elements.get(at) {
            Some(Element::Number(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        Some(Change {
            partition: u32::try_from(number(0)?).ok()?,
            offset: number(1)?,
            record: u32::try_from(number(2)?).ok()?,
            serial: number(3)?,
            group: u16::try_from(number(4)?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_changes_are_read_as_they_were_written() {
        let event = Event { serial: 1, group: 2002, value: -3, id: 4, time: 5, spread: 6 };
        assert_eq!(Event::decode(&event.encode()), event);
        let change = Change { partition: 1, offset: 2, record: 3, serial: 4, group: 5 };
        assert_eq!(Change::decode(&change.encode()), Some(change));
        assert_eq!(group_of(&cell("count", 7, 4).1), Some(7));
        assert_eq!(group_of(&own_cell("chain", 7, 1, 4).1), Some(7));
    }
}
