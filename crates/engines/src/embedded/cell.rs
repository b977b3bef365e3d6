//! What a cell's row holds: when it expires, and its contents by kind.

use bytes::Bytes;
use consort_kernel::{Kind, Sketch, Timestamp, Value};

use super::small::SmallSet;

const EXPIRY_BYTES: usize = 8;

/// A cell's row, read or to be written. Contents by kind: bytes and extremes as they are; a counter as
/// 8 bytes little-endian; `last` as the rank's length (2), rank, value; a set as generation and count
/// (8 each), and a small one's members behind them; a sketch as it encodes itself.
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

    pub(super) fn set(expires: Option<Timestamp>, set: SetRow) -> Self {
        let contents = [set.generation.to_le_bytes(), set.count.to_le_bytes()].concat();
        Row::new(expires, &contents)
    }

    pub(super) fn small_set(expires: Option<Timestamp>, set: &SmallSet) -> Self {
        let head = [SMALL.to_le_bytes(), (set.len() as u64).to_le_bytes()].concat();
        Row::new(expires, &[&head, set.as_bytes()].concat())
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
        let number = |at: usize| {
            let bytes = self.contents().get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        SetRow { generation: number(0), count: number(8) }
    }

    /// The members of a small set, encoded.
    pub(super) fn small_members(&self) -> &[u8] {
        self.contents().get(2 * size_of::<u64>()..).unwrap_or_default()
    }

    /// The rank of a `last` cell, and what came with it.
    pub(super) fn as_last(&self) -> (&[u8], &[u8]) {
        let contents = self.contents();
        let length = contents.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let rest = contents.get(2..).unwrap_or_default();
        rest.split_at_checked(usize::from(length)).unwrap_or_default()
    }

    /// What a reader is given.
    pub(super) fn value(&self, kind: Kind) -> Value {
        let contents = || Bytes::copy_from_slice(self.contents());
        match kind {
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
            Kind::Set => Value::Set(self.as_set().count),
            Kind::Sketch => {
                Value::Sketch(Sketch::decode(self.contents()).unwrap_or_default().estimate())
            }
        }
    }
}

/// The generation of a set whose members stand in its own row.
const SMALL: u64 = 0;

/// Where a set's members are, and how many. A set that is deleted and made again gets a new generation,
/// so that deleting is one row and its members can be cleared away later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetRow {
    pub(super) generation: u64,
    pub(super) count: u64,
}

impl SetRow {
    /// Whether its members stand in its own row.
    pub(super) fn is_small(self) -> bool {
        self.generation == SMALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_give_back_what_they_were_made_of() {
        let at = Some(Timestamp(77));
        assert_eq!(Row::counter(at, i64::MIN).value(Kind::Counter), Value::Counter(i64::MIN));
        assert_eq!(Row::counter(at, 1).expires(), at);
        assert_eq!(Row::new(None, b"x").value(Kind::Bytes), Value::Bytes("x".into()));
        let last = Row::last(None, b"rank", b"value");
        assert_eq!(last.as_last(), (&b"rank"[..], &b"value"[..]));
        let set = SetRow { generation: 9, count: 3 };
        assert_eq!(Row::set(at, set).as_set(), set);
        let mut small = SmallSet::default();
        small.insert(b"x");
        let row = Row::small_set(at, &small);
        assert!(row.as_set().is_small() && row.value(Kind::Set) == Value::Set(1));
        assert_eq!(SmallSet::read(row.small_members()), small);
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
