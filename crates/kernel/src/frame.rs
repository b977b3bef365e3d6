//! The frame: the records that arrived together, as the log keeps them.
//!
//! Version 1, little-endian: version, kind, two zero bytes, count (`u32`), checksum (`u64`), producer
//! (`u64`), sequence (`u64`), time (`u64`), then each record as its length (`u32`) and its bytes. The
//! checksum covers everything but itself.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::Timestamp;
use crate::error::Refusal;
use crate::limits::{FRAME_BYTES, RECORD_BYTES, within};
use crate::records::Records;

pub(crate) const VERSION: u8 = 1;
const CHECKSUM_AT: usize = 8;
const COVERED_FROM: usize = 16;
const HEADER_BYTES: usize = 40;

/// Who appended a frame: a number drawn afresh at each start of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer(pub u64);

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a frame's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// What users sent.
    Events,
    /// What Consort itself says in the log: ticks, time-outs, operators' decisions.
    Control,
}

/// The unit of append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the records are.
    pub kind: FrameKind,
    /// Who appended it.
    pub producer: Producer,
    /// Counts up for each producer and partition; a repeat has the same.
    pub sequence: u64,
    /// When it was appended, in store time, as its producer knew it.
    pub time: Timestamp,
    /// The records, in the order of their arrival.
    pub records: Records,
}

/// Why stored bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Written by a later release, or not a frame at all.
    #[error("format version {0} is unknown: this release reads version {VERSION}")]
    Version(u8),
    /// The bytes are not those that were written.
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum fits but the contents do not: a fault in the program that wrote it.
    #[error("the frame is malformed: {0}")]
    Malformed(&'static str),
}

impl Frame {
    /// How many bytes the frame has when encoded.
    pub fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.records.packed().len()
    }

    /// The bytes to store; refused beyond [`FRAME_BYTES`] or with a record beyond [`RECORD_BYTES`].
    pub fn encode(&self) -> Result<Bytes, Refusal> {
        for record in self.records.iter() {
            within("a record's bytes", record.len(), RECORD_BYTES)?;
        }
        within("a frame's bytes", self.encoded_len(), FRAME_BYTES)?;

        let mut bytes = BytesMut::with_capacity(self.encoded_len());
        bytes.put_u8(VERSION);
        bytes.put_u8(match self.kind {
            FrameKind::Events => 0,
            FrameKind::Control => 1,
        });
        bytes.put_u16_le(0);
        bytes.put_u32_le(self.records.len() as u32);
        bytes.put_u64_le(0);
        bytes.put_u64_le(self.producer.0);
        bytes.put_u64_le(self.sequence);
        bytes.put_u64_le(self.time.0);
        bytes.put_slice(self.records.packed());
        let checksum = checksum(&bytes);
        bytes[CHECKSUM_AT..COVERED_FROM].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes.freeze())
    }

    /// Reads a stored frame. The records share the memory of `bytes`.
    pub fn decode(bytes: &Bytes) -> Result<Self, FrameError> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(&version) => return Err(FrameError::Version(version)),
            None => return Err(FrameError::Malformed("it is empty")),
        }
        if bytes.len() < HEADER_BYTES {
            return Err(FrameError::Malformed("it is shorter than its header"));
        }
        if checksum(bytes) != u64_at(bytes, CHECKSUM_AT) {
            return Err(FrameError::Checksum);
        }
        let kind = match bytes[1] {
            0 => FrameKind::Events,
            1 => FrameKind::Control,
            _ => return Err(FrameError::Malformed("its kind is unknown")),
        };
        Ok(Frame {
            kind,
            producer: Producer(u64_at(bytes, 16)),
            sequence: u64_at(bytes, 24),
            time: Timestamp(u64_at(bytes, 32)),
            records: Records::unpacked(bytes.slice(HEADER_BYTES..), u32_at(bytes, 4) as usize)?,
        })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(&bytes[COVERED_FROM..], u64_at(bytes, 0))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(records: Vec<Vec<u8>>) -> Frame {
        Frame {
            kind: FrameKind::Control,
            producer: Producer(0x0102),
            sequence: 3,
            time: Timestamp(4),
            records: records.into(),
        }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let mut stored = Vec::new();
        stored.extend([1, 1, 0, 0, 2, 0, 0, 0]);
        stored.extend([1, 192, 145, 151, 69, 3, 111, 250]);
        stored.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        stored.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        stored.extend([4, 0, 0, 0, 0, 0, 0, 0]);
        stored.extend([2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0]);
        let written = frame(vec![b"ab".to_vec(), vec![]]);
        assert_eq!(written.encode().map(|b| b.to_vec()), Ok(stored.clone()));
        assert_eq!(Frame::decode(&stored.into()), Ok(written));
    }

    #[test]
    fn another_version_is_named() {
        let mut stored = frame(vec![]).encode().unwrap().to_vec();
        stored[0] = 9;
        assert_eq!(Frame::decode(&stored.into()), Err(FrameError::Version(9)));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let record = frame(vec![vec![0; RECORD_BYTES + 1]]);
        assert!(matches!(record.encode(), Err(Refusal::TooLarge { what: "a record's bytes", .. })));
        let many = frame(vec![vec![0; RECORD_BYTES]; 2]);
        assert!(matches!(many.encode(), Err(Refusal::TooLarge { what: "a frame's bytes", .. })));
    }

    proptest! {
        #[test]
        fn frames_come_back_as_they_were(records: Vec<Vec<u8>>) {
            let frame = frame(records);
            let bytes = frame.encode().unwrap();
            prop_assert_eq!(bytes.len(), frame.encoded_len());
            prop_assert_eq!(Frame::decode(&bytes), Ok(frame));
        }

        #[test]
        fn a_flipped_bit_is_found(records: Vec<Vec<u8>>, at: prop::sample::Index, bit in 0..8u8) {
            let mut bytes = frame(records).encode().unwrap().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Frame::decode(&bytes.into()).is_err());
        }

        #[test]
        fn any_bytes_are_an_error_and_not_a_panic(bytes: Vec<u8>) {
            prop_assert!(Frame::decode(&bytes.into()).is_err());
        }
    }
}
