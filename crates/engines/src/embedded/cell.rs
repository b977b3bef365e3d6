//! What a cell's row holds: when it expires, and its contents by kind.

use bytes::Bytes;
use consort_kernel::{Kind, Sketch, Timestamp, Value};

use super::sets::SetRow;

const EXPIRY_BYTES: usize = 8;

/// A cell's row, read or to be written. Contents by kind: bytes and extremes as they are; a counter as
/// 8 bytes little-endian; `last` as the rank's length (2), rank, value; sets and sketches as they encode
/// themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row(fjall::Slice);

impl Row {
    pub(super) fn stored(value: fjall::Slice) -> Self {
        Row(value)
    }

    pub(super) fn new(expires: Option<Timestamp>, contents: &[u8]) -> Self {
        let expires = expires.map_or(0, |at| at.0.max(1));
        Row(fjall::Slice::from([&expires.to_le_bytes(), contents].concat()))
    }

    pub(super) fn counter(expires: Option<Timestamp>, number: i64) -> Self {
        let expires = expires.map_or(0, |at| at.0.max(1));
        let mut row = [0; EXPIRY_BYTES + 8];
        row[..EXPIRY_BYTES].copy_from_slice(&expires.to_le_bytes());
        row[EXPIRY_BYTES..].copy_from_slice(&number.to_le_bytes());
        Row(fjall::Slice::from(row))
    }

    pub(super) fn last(expires: Option<Timestamp>, rank: &[u8], value: &[u8]) -> Self {
        // A rank has at most 1024 bytes.
        let length = (rank.len() as u16).to_le_bytes();
        Row::new(expires, &[&length, rank, value].concat())
    }

    pub(super) fn set(expires: Option<Timestamp>, set: &SetRow) -> Self {
        Row::new(expires, &set.encode())
    }

    pub(super) fn into_slice(self) -> fjall::Slice {
        self.0
    }

    pub(super) fn expires(&self) -> Option<Timestamp> {
        match self.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) {
            0 => None,
            at => Some(Timestamp(at)),
        }
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.expires().is_some_and(|at| at <= now)
    }

    pub(super) fn contents(&self) -> &[u8] {
        self.0.get(EXPIRY_BYTES..).unwrap_or_default()
    }

    pub(super) fn as_counter(&self) -> i64 {
        self.contents().first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }

    pub(super) fn as_set(&self) -> SetRow {
        SetRow::read(self.contents())
    }

    /// The rank of a `last` cell, and what came with it.
    pub(super) fn as_last(&self) -> (&[u8], &[u8]) {
        let contents = self.contents();
        let length = contents.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let rest = contents.get(2..).unwrap_or_default();
        rest.split_at_checked(usize::from(length)).unwrap_or_default()
    }

    /// What a reader is given; `None` for members, which have to be counted.
    pub(super) fn value(&self, kind: Kind) -> Option<Value> {
        let contents = || Bytes::copy_from_slice(self.contents());
        Some(match kind {
            Kind::Bytes => Value::Bytes(contents()),
            Kind::Counter => Value::Counter(self.as_counter()),
            Kind::Min => Value::Min(contents()),
            Kind::Max => Value::Max(contents()),
            Kind::Last => {
                let (rank, value) = self.as_last();
                Value::Last {
                    rank: Bytes::copy_from_slice(rank),
                    value: Bytes::copy_from_slice(value),
                }
            }
            Kind::Set | Kind::Distinct => return None,
            Kind::Sketch => {
                Value::Sketch(Sketch::decode(self.contents()).unwrap_or_default().estimate())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::small::SmallSet;

    #[test]
    fn rows_give_back_what_they_were_made_of() {
        let at = Some(Timestamp(77));
        assert_eq!(Row::counter(at, i64::MIN).value(Kind::Counter), Some(Value::Counter(i64::MIN)));
        assert_eq!(Row::counter(at, 1).expires(), at);
        assert_eq!(Row::new(None, b"x").value(Kind::Bytes), Some(Value::Bytes("x".into())));
        let last = Row::last(None, b"rank", b"value");
        assert_eq!(last.as_last(), (&b"rank"[..], &b"value"[..]));
        let mut set = SetRow { generation: 9, ..SetRow::default() };
        set.tail = SmallSet::of_few(&[b"x"]).unwrap();
        assert_eq!(Row::set(at, &set).as_set(), set);
        assert_eq!(Row::set(at, &set).value(Kind::Set), None);
    }

    #[test]
    fn a_cell_is_gone_from_its_time_on() {
        let row = Row::new(Some(Timestamp(5)), b"");
        assert!(!row.expired(Timestamp(4)));
        assert!(row.expired(Timestamp(5)));
        assert!(!Row::new(None, b"").expired(Timestamp(u64::MAX)));
        assert!(Row::new(Some(Timestamp(0)), b"").expired(Timestamp(1)), "the epoch is a time too");
    }
}
