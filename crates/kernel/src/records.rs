//! The records of a frame, one behind the other in one piece of memory, as the frame stores them: each as its
//! length (`u32`, little-endian) and its bytes. A million small records are not a million allocations.

use std::fmt;

use bytes::Bytes;

use crate::frame::FrameError;

const LENGTH_BYTES: usize = 4;

/// Records, in the order of their arrival.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Records {
    packed: Bytes,
    /// Where each record ends.
    ends: Vec<u32>,
}

impl Records {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The record at this place.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let before = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.packed.get(before + LENGTH_BYTES..end)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut at = 0;
        self.ends.iter().map(move |&end| {
            let start = at + LENGTH_BYTES;
            at = end as usize;
            &self.packed[start..at]
        })
    }

    /// The bytes of all records, without what their lengths take.
    pub fn bytes(&self) -> usize {
        self.packed.len() - self.ends.len() * LENGTH_BYTES
    }

    /// A part of one of these records, which shares their memory.
    ///
    /// # Panics
    ///
    /// If it is a part of something else.
    pub fn share(&self, part: &[u8]) -> Bytes {
        self.packed.slice_ref(part)
    }

    /// The one record that `write` writes, behind what is there.
    pub fn one(write: impl FnOnce(&mut Vec<u8>)) -> Records {
        // Room for most events, so that few of them are copied to a larger place.
        let mut packed = Vec::with_capacity(128);
        packed.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut packed);
        let length = (packed.len() - LENGTH_BYTES) as u32;
        packed[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        let ends = vec![packed.len() as u32];
        Records { packed: packed.into(), ends }
    }

    /// The records of all these, one behind the other.
    pub fn joined(mut parts: Vec<Records>) -> Records {
        if parts.len() <= 1 {
            return parts.pop().unwrap_or_default();
        }
        let mut joined = RecordsMut {
            packed: Vec::with_capacity(parts.iter().map(|part| part.packed.len()).sum()),
            ends: Vec::with_capacity(parts.iter().map(Records::len).sum()),
        };
        for part in &parts {
            let before = joined.packed.len() as u32;
            joined.packed.extend_from_slice(&part.packed);
            joined.ends.extend(part.ends.iter().map(|end| before + end));
        }
        joined.freeze()
    }

    /// As a frame stores them.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Reads what a frame stores: so many records, and nothing else.
    pub(crate) fn unpacked(packed: Bytes, count: usize) -> Result<Records, FrameError> {
        // The count is not trusted with memory: each record takes at least its length's bytes.
        let mut ends = Vec::with_capacity(count.min(packed.len() / LENGTH_BYTES));
        let mut rest = &packed[..];
        for _ in 0..count {
            let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
                return Err(FrameError::Malformed("a record's length is cut off"));
            };
            let Some(behind) = behind.get(u32::from_le_bytes(*length) as usize..) else {
                return Err(FrameError::Malformed("a record is cut off"));
            };
            rest = behind;
            ends.push((packed.len() - rest.len()) as u32);
        }
        if !rest.is_empty() {
            return Err(FrameError::Malformed("bytes follow the last record"));
        }
        Ok(Records { packed, ends })
    }
}

impl<R: AsRef<[u8]>> FromIterator<R> for Records {
    fn from_iter<I: IntoIterator<Item = R>>(records: I) -> Self {
        let mut packing = RecordsMut::default();
        for record in records {
            packing.push(record.as_ref());
        }
        packing.freeze()
    }
}

impl<R: AsRef<[u8]>> From<Vec<R>> for Records {
    fn from(records: Vec<R>) -> Self {
        records.into_iter().collect()
    }
}

impl<R: AsRef<[u8]>, const N: usize> From<[R; N]> for Records {
    fn from(records: [R; N]) -> Self {
        records.into_iter().collect()
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|record| self.share(record))).finish()
    }
}

/// Records that are still being gathered.
#[derive(Clone, Debug, Default)]
pub struct RecordsMut {
    packed: Vec<u8>,
    ends: Vec<u32>,
}

impl RecordsMut {
    /// Adds one behind the others.
    pub fn push(&mut self, record: &[u8]) {
        self.packed.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.packed.extend_from_slice(record);
        self.ends.push(self.packed.len() as u32);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes them out. There is room for as many again.
    pub fn take(&mut self) -> Records {
        let next = RecordsMut {
            packed: Vec::with_capacity(self.packed.len()),
            ends: Vec::with_capacity(self.ends.len()),
        };
        std::mem::replace(self, next).freeze()
    }

    /// They are complete.
    pub fn freeze(self) -> Records {
        Records { packed: self.packed.into(), ends: self.ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(records: &Records) -> Vec<Vec<u8>> {
        records.iter().map(<[u8]>::to_vec).collect()
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were(given: Vec<Vec<u8>>) {
            let records = Records::from(given.clone());
            prop_assert_eq!(all(&records), &given[..]);
            prop_assert_eq!(records.len(), given.len());
            prop_assert_eq!(records.bytes(), given.iter().map(Vec::len).sum::<usize>());
            for (at, record) in given.iter().enumerate() {
                prop_assert_eq!(records.get(at), Some(&record[..]));
            }
            prop_assert_eq!(records.get(given.len()), None);
        }

        #[test]
        fn joined_they_stand_one_behind_the_other(given: Vec<Vec<Vec<u8>>>) {
            let joined = Records::joined(given.iter().cloned().map(Records::from).collect());
            prop_assert_eq!(all(&joined), given.concat());
        }
    }

    #[test]
    fn one_is_what_was_written() {
        let written = Records::one(|bytes| bytes.extend_from_slice(b"one"));
        assert_eq!(written, Records::from(["one"]));
        assert_eq!(Records::one(|_| {}), Records::from([""]));
    }

    #[test]
    fn a_part_shares_the_memory_of_its_records() {
        let records = Records::from(["one", "other"]);
        let record = records.get(1).unwrap();
        let part = records.share(&record[1..3]);
        assert_eq!((&part[..], part.as_ptr()), (&b"th"[..], record[1..].as_ptr()));
    }

    #[test]
    fn what_was_taken_is_gone_from_where_it_was() {
        let mut gathering = RecordsMut::default();
        gathering.push(b"one");
        assert_eq!(gathering.take(), Records::from(["one"]));
        assert!(gathering.is_empty());
        gathering.push(b"other");
        assert_eq!((gathering.len(), gathering.freeze()), (1, Records::from(["other"])));
    }
}
