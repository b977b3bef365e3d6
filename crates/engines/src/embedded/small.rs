//! Small sets: their members stand in the set's own row, in order. Most sets of a view are small, such as a
//! skier's days, and then adding a member is one row to write and none to look for.

/// Members and bytes beyond which a set's members get rows of their own: the row of a small set is written
/// anew with each member.
const MOST_MEMBERS: usize = 32;
const MOST_BYTES: usize = 512;

/// Of each member: its length (2), then its bytes.
const LENGTH_BYTES: usize = 2;

/// The members of a small set, encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SmallSet {
    bytes: Vec<u8>,
    count: usize,
}

impl SmallSet {
    /// Reads what [`as_bytes`](SmallSet::as_bytes) gave.
    pub(super) fn read(bytes: &[u8]) -> SmallSet {
        SmallSet { bytes: bytes.to_vec(), count: members(bytes).count() }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether its members must get rows of their own.
    pub(super) fn is_too_large(&self) -> bool {
        self.count > MOST_MEMBERS || self.bytes.len() > MOST_BYTES
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &[u8]> {
        members(&self.bytes)
    }

    /// Puts a member in its place; false if it is there already.
    pub(super) fn insert(&mut self, member: &[u8]) -> bool {
        let mut at = 0;
        for held in members(&self.bytes) {
            match held.cmp(member) {
                std::cmp::Ordering::Less => at += LENGTH_BYTES + held.len(),
                std::cmp::Ordering::Equal => return false,
                std::cmp::Ordering::Greater => break,
            }
        }
        // A member has at most 4 KiB.
        let length = (member.len() as u16).to_le_bytes();
        self.bytes.splice(at..at, length.into_iter().chain(member.iter().copied()));
        self.count += 1;
        true
    }
}

/// The members that stand in a row, in order.
pub(super) fn members(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (member, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some(member)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_small_set_holds_what_was_put_into_it_in_order(given: Vec<Vec<u8>>) {
            let mut set = SmallSet::default();
            let mut expected = BTreeSet::new();
            for member in &given {
                prop_assert_eq!(set.insert(member), expected.insert(&member[..]));
            }
            let set = SmallSet::read(set.as_bytes());
            prop_assert!(set.members().eq(expected.iter().copied()));
            prop_assert_eq!(set.len(), expected.len());
        }
    }

    #[test]
    fn it_becomes_too_large_by_number_and_by_size() {
        let mut many = SmallSet::default();
        for n in 0..MOST_MEMBERS as u8 {
            many.insert(&[n]);
            assert!(!many.is_too_large());
        }
        many.insert(&[MOST_MEMBERS as u8]);
        assert!(many.is_too_large());
        let mut long = SmallSet::default();
        long.insert(&[0; MOST_BYTES]);
        assert!(long.is_too_large());
    }
}
