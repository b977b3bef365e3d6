//! Entries of a feed, joined into the groups that were appended together.

use bytes::Bytes;

use super::{EntryGroup, EntryHeader, EntrySlice, parts};
use crate::wire::DbFormatError;

/// Joins entries as they are read, in order. It holds at most one group that is not complete.
#[derive(Debug, Default)]
pub struct GroupJoiner {
    open: Option<(EntryHeader, Vec<Bytes>)>,
}

/// An entry that cannot follow the entries before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The entry itself cannot be read.
    #[error(transparent)]
    Format(#[from] DbFormatError),
    /// It is not the next slice of the group that has begun, or begins in the middle of one.
    #[error("entry {found} of a group of {of} came where entry {expected} belongs")]
    OutOfOrder {
        /// The number within its group.
        found: u8,
        /// The size of its group.
        of: u8,
        /// The number that was due.
        expected: usize,
    },
    /// It has the right number and belongs to another group.
    #[error("entry {0} belongs to another group than the one before it")]
    OtherGroup(u8),
}

impl GroupJoiner {
    /// Takes the next entry; returns the group that it completes.
    pub fn push(&mut self, entry: &Bytes) -> Result<Option<EntryGroup>, JoinError> {
        let EntrySlice { header, k, slice } = EntrySlice::decode(entry)?;
        let (begun, mut slices) = self.open.take().unwrap_or((header, Vec::new()));
        let expected = slices.len() + 1;
        if usize::from(k) != expected {
            return Err(JoinError::OutOfOrder { found: k, of: header.m, expected });
        }
        if begun != header {
            return Err(JoinError::OtherGroup(k));
        }
        slices.push(slice);
        if k < header.m {
            self.open = Some((header, slices));
            return Ok(None);
        }
        let joined = match <[Bytes; 1]>::try_from(slices) {
            Ok([only]) => only,
            Err(slices) => slices.concat().into(),
        };
        Ok(Some(EntryGroup {
            epoch: header.epoch,
            time: header.time,
            sqlite: header.sqlite,
            chain_before: header.chain_before,
            content_after: header.content_after,
            parts: parts::decode(&joined)?,
        }))
    }

    /// Whether a group has begun and is not complete.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::tests::{group_with, rows};
    use crate::entry::{EntryPart, SLICE_BYTES, SetValues};

    #[test]
    fn h14_a_slice_that_is_missing_repeated_or_of_another_group_is_refused() {
        let entries = group_with(vec![rows(2 * SLICE_BYTES)]).encode().unwrap();
        let other = EntryGroup { epoch: 4, ..group_with(vec![rows(2 * SLICE_BYTES)]) };
        let other = other.encode().unwrap();
        let out_of_order = |found, expected| Err(JoinError::OutOfOrder { found, of: 3, expected });
        let cases = [
            ("begun in the middle", vec![&entries[1]], out_of_order(2, 1)),
            ("one missing", vec![&entries[0], &entries[2]], out_of_order(3, 2)),
            ("one repeated", vec![&entries[0], &entries[0]], out_of_order(1, 2)),
            ("another group", vec![&entries[0], &other[1]], Err(JoinError::OtherGroup(2))),
        ];
        for (what, given, expected) in cases {
            let mut joiner = GroupJoiner::default();
            let outcome = given.into_iter().try_fold(None, |_, entry| joiner.push(entry));
            assert_eq!(outcome, expected, "{what}");
        }
    }

    fn any_part() -> impl Strategy<Value = EntryPart> {
        let sequences = proptest::collection::vec((".{0,9}", any::<Option<i64>>()), 0..4);
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..99).prop_map(|b| EntryPart::Rows(b.into())),
            ".{0,40}".prop_map(EntryPart::Ddl),
            (sequences, any::<Option<i64>>()).prop_map(|(sequences, user_version)| {
                EntryPart::Set(SetValues { sequences, user_version })
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_group_is_read_back(parts in proptest::collection::vec(any_part(), 0..6)) {
            let group = group_with(parts);
            let entries = group.encode().unwrap();
            let mut joiner = GroupJoiner::default();
            prop_assert_eq!(joiner.push(&entries[0]), Ok(Some(group)));
            prop_assert!(!joiner.is_open());
        }

        #[test]
        fn bytes_that_are_no_entry_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = 1;
            }
            let _ = GroupJoiner::default().push(&bytes.into());
        }
    }
}
