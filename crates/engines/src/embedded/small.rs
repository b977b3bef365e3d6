//! The members that stand in a set's own row, in order. Most sets of a view are small, such as a skier's
//! days, and then adding a member is one row to write and none to look for.

/// Members and bytes beyond which they become a run: the row is written anew with each member.
const MOST_MEMBERS: usize = 32;
const MOST_BYTES: usize = 512;

/// Of each member: its length (2), then its bytes.
pub(super) const LENGTH_BYTES: usize = 2;

/// The members in a row, encoded.
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

    /// Members that are in order, each once; `None` if they are too many.
    pub(super) fn of_few(members: &[&[u8]]) -> Option<SmallSet> {
        let size = members.iter().map(|member| LENGTH_BYTES + member.len()).sum();
        if members.len() > MOST_MEMBERS || size > MOST_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(size);
        for member in members {
            push(&mut bytes, member);
        }
        Some(SmallSet { bytes, count: members.len() })
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &[u8]> {
        members(&self.bytes)
    }
}

/// Writes a member behind others.
pub(super) fn push(bytes: &mut Vec<u8>, member: &[u8]) {
    // A member has at most 4 KiB.
    bytes.extend((member.len() as u16).to_le_bytes());
    bytes.extend_from_slice(member);
}

/// How long the first member is; `None` if there is none.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    (length <= rest.len()).then_some(length)
}

/// The members that stand one behind another.
fn members(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (member, rest) = bytes.get(LENGTH_BYTES..)?.split_at(length(bytes)?);
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
        fn a_small_set_gives_back_what_it_was_made_of(given: BTreeSet<Vec<u8>>) {
            let members: Vec<&[u8]> = given.iter().map(|member| &member[..]).collect();
            if let Some(set) = SmallSet::of_few(&members) {
                let set = SmallSet::read(set.as_bytes());
                prop_assert!(set.members().eq(members.iter().copied()));
                prop_assert_eq!(set.len(), members.len());
            }
        }
    }

    #[test]
    fn members_are_too_many_by_number_and_by_size() {
        assert!(SmallSet::of_few(&[&b"x"[..]; MOST_MEMBERS]).is_some());
        assert!(SmallSet::of_few(&[&b"x"[..]; MOST_MEMBERS + 1]).is_none());
        let long = [0; MOST_BYTES];
        assert!(SmallSet::of_few(&[&long[LENGTH_BYTES..]]).is_some());
        assert!(SmallSet::of_few(&[&long]).is_none());
    }
}
