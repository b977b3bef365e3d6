//! Chunks in the store that no manifest may name: those of a snapshot that is being made, and those of one that
//! was replaced. They are listed before they come into being, so no scan of all chunks is ever needed to find
//! the ones that nothing names.
//!
//! The list is one cell, and the names of each batch are a cell of their own. Every change of the list is a
//! commit that expects the list before it. This is what keeps makers and the sweep apart:
//!
//! - A maker adds a batch with the names of all chunks that it will put, and each commit that puts chunks, as
//!   well as the one that puts its manifest, expects a list in which that batch is open.
//! - The sweep closes a batch in the commit that deletes its first chunks. A maker that was paused for longer
//!   than [`SWEEP_AFTER`] finds its batch closed or gone, and begins again.
//! - A sweep deletes no chunk that another batch of the list names. A maker that adds a batch changes the list,
//!   so a deletion that was decided on before is refused.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::chunks::ChunkName;
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;

/// How long chunks stay that no manifest names: a loader may still read them.
pub const SWEEP_AFTER: Duration = Duration::from_secs(3600);
/// Most batches that wait. Above it the oldest is swept early: a loader that misses a chunk begins again.
const MOST_BATCHES: usize = 32;

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepList {
    /// The number of the next batch. It only grows, so no list has the bytes of an earlier one.
    next: u64,
    /// The batches, the oldest first.
    batches: Vec<SweepBatch>,
}

/// Chunks that are swept together, unless a manifest or another batch names them by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepBatch {
    /// Its number.
    pub number: u64,
    /// When it was listed, by the store's time.
    pub since: Timestamp,
    /// Whether its chunks are being deleted. A maker must not rely on them.
    pub is_closed: bool,
}

impl SweepList {
    /// The list with one more batch, and the number of the batch.
    pub fn with_batch(&self, since: Timestamp) -> (u64, SweepList) {
        let batch = SweepBatch { number: self.next, since, is_closed: false };
        let mut next = self.clone();
        next.next += 1;
        next.batches.push(batch);
        (batch.number, next)
    }

    /// The list without a batch.
    #[must_use]
    pub fn without(&self, number: u64) -> SweepList {
        let mut next = self.clone();
        next.batches.retain(|batch| batch.number != number);
        next
    }

    /// The list in which a batch is closed.
    #[must_use]
    pub fn closed(&self, number: u64) -> SweepList {
        let mut next = self.clone();
        for batch in next.batches.iter_mut().filter(|batch| batch.number == number) {
            batch.is_closed = true;
        }
        next
    }

    /// Whether a batch is listed and its chunks are not being deleted.
    pub fn is_open(&self, number: u64) -> bool {
        self.batches.iter().any(|batch| batch.number == number && !batch.is_closed)
    }

    /// The batch to sweep now: one whose sweep began, one that is old enough, or the oldest of too many.
    pub fn due(&self, now: Timestamp) -> Option<SweepBatch> {
        let is_due = |batch: &&SweepBatch| batch.is_closed || now.since(batch.since) >= SWEEP_AFTER;
        let oldest = self.batches.first().filter(|_| self.batches.len() > MOST_BATCHES);
        self.batches.iter().find(is_due).or(oldest).copied()
    }

    /// The batches, the oldest first.
    pub fn batches(&self) -> &[SweepBatch] {
        &self.batches
    }

    /// The bytes to store.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.next);
        for batch in &self.batches {
            to.u64(batch.number).u64(batch.since.0).u8(u8::from(batch.is_closed));
        }
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("the list of chunks to sweep", bytes, VERSION)?;
        let mut list = SweepList { next: from.u64()?, batches: Vec::new() };
        while !from.is_empty() {
            list.batches.push(SweepBatch {
                number: from.u64()?,
                since: Timestamp(from.u64()?),
                is_closed: match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(from.malformed("a batch is neither open nor closed")),
                },
            });
        }
        Ok(list)
    }
}

/// The bytes to store for the names of a batch.
pub fn encode_names<'a>(names: impl IntoIterator<Item = &'a ChunkName>) -> Bytes {
    let mut to = FieldWriter::new(VERSION);
    names.into_iter().for_each(|name| {
        to.raw(&name.0);
    });
    to.finish().into()
}

/// Reads the bytes that [`encode_names`] wrote.
pub fn decode_names(bytes: &[u8]) -> Result<Vec<ChunkName>, DbFormatError> {
    let mut from = FieldReader::new("a batch of chunks to sweep", bytes, VERSION)?;
    let mut names = Vec::new();
    while !from.is_empty() {
        names.push(ChunkName(from.array()?));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    fn listed(times: &[u64]) -> SweepList {
        times.iter().fold(SweepList::default(), |list, time| list.with_batch(at(*time)).1)
    }

    fn due(list: &SweepList, now: u64) -> Option<u64> {
        list.due(at(now)).map(|batch| batch.number)
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let list = listed(&[1, 2]).closed(1);
        let stored = b"\x01\0\0\0\0\0\0\0\x02\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x07\xd0\x01";
        assert_eq!(&list.encode()[..], stored);
        assert_eq!(SweepList::decode(stored), Ok(list));
        assert!(SweepList::decode(&stored[..12]).is_err());
        assert!(SweepList::decode(b"\x02").is_err());
        let names = [ChunkName([3; 32]), ChunkName([4; 32])];
        let stored = [&b"\x01"[..], &[3; 32], &[4; 32]].concat();
        assert_eq!(&encode_names(&names)[..], stored);
        assert_eq!(decode_names(&stored), Ok(names.to_vec()));
        assert!(decode_names(&stored[..40]).is_err());
    }

    #[test]
    fn h13_a_batch_is_due_after_an_hour_or_when_too_many_wait() {
        let two = listed(&[0, 100]);
        assert_eq!(due(&SweepList::default(), 9999), None);
        assert_eq!(due(&two, 3599), None);
        assert_eq!(due(&two, 3600), Some(0));
        assert_eq!(due(&two.without(0), 3600), None);
        assert_eq!(due(&two.without(0), 3700), Some(1));
        assert_eq!(due(&two.closed(1), 5), Some(1), "a sweep that was begun is finished");
        let many = listed(&[7; MOST_BATCHES]);
        assert_eq!(due(&many, 8), None);
        assert_eq!(due(&many.with_batch(at(8)).1, 8), Some(0));
    }

    #[test]
    fn h13_a_maker_relies_on_its_batch_only_while_it_is_open() {
        let (number, list) = listed(&[0]).with_batch(at(1));
        assert!(list.is_open(number));
        assert!(!list.closed(number).is_open(number));
        assert!(!list.without(number).is_open(number));
        assert!(list.without(0).is_open(number));
    }

    #[test]
    fn no_list_has_the_bytes_of_an_earlier_one() {
        let before = listed(&[0]);
        let (number, list) = before.with_batch(at(0));
        assert_ne!(list.without(number).encode(), before.encode());
        assert_eq!(list.without(number).with_batch(at(0)).0, number + 1);
    }
}
