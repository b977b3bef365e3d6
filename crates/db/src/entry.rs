//! Entries: one committed group of changes as it stands on the feed.
//!
//! A group's parts form one byte string. It is cut anywhere into at most [`GROUP_ENTRIES`] entries, which
//! are appended by one commit and applied in one local transaction (H14).

mod join;
mod parts;

use bytes::Bytes;
use consort_kernel::limits::ENTRY_BYTES;
use consort_kernel::{Digest, Timestamp};

use crate::hash::{ContentHash, SchemaChain};
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub use join::{GroupJoiner, JoinError};
pub use parts::{EntryPart, SetValues};

/// Most entries of one group. With the store's bound of 16 MiB on a commit, three entries of 4 MiB leave
/// room for both heads.
pub const GROUP_ENTRIES: usize = 3;
/// Most bytes of a group's parts: about 12 MiB.
pub const GROUP_BYTES: usize = GROUP_ENTRIES * SLICE_BYTES;

pub(crate) const VERSION: u8 = 1;
/// The fields before a slice of the parts: version, epoch, time, SQLite, part k of m, chain, content.
const HEADER_BYTES: usize = 1 + 8 + 8 + 4 + 1 + 1 + SchemaChain::LENGTH + 16;
const SLICE_BYTES: usize = ENTRY_BYTES - HEADER_BYTES;

/// A group of changes, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryGroup {
    /// The epoch of the leader that wrote it.
    pub epoch: u64,
    /// The store's time when it was written.
    pub time: Timestamp,
    /// The leader's version of SQLite, such as 3054001 (H30).
    pub sqlite: u32,
    /// The schema before it.
    pub chain_before: SchemaChain,
    /// The contents after it.
    pub content_after: ContentHash,
    /// The changes, in order.
    pub parts: Vec<EntryPart>,
}

/// One entry of the feed: a slice of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntrySlice {
    header: EntryHeader,
    /// Which slice this is, from 1.
    k: u8,
    slice: Bytes,
}

/// The fields that all entries of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    epoch: u64,
    time: Timestamp,
    sqlite: u32,
    /// How many entries the group has.
    m: u8,
    chain_before: SchemaChain,
    content_after: ContentHash,
}

/// A group with more changes than its entries can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the changes have {size} bytes, and one write may have {GROUP_BYTES}: split the request into smaller ones"
)]
pub struct GroupTooLarge {
    /// The bytes of its parts.
    pub size: usize,
}

impl EntryGroup {
    /// The entries to append, in order.
    pub fn encode(&self) -> Result<Vec<Bytes>, GroupTooLarge> {
        let parts = parts::encode(&self.parts);
        if parts.len() > GROUP_BYTES {
            return Err(GroupTooLarge { size: parts.len() });
        }
        // A group without parts is one entry, too.
        let m = parts.len().div_ceil(SLICE_BYTES).max(1);
        let slice = |k: usize| {
            let end = parts.len().min((k + 1) * SLICE_BYTES);
            self.encode_slice(k + 1, m, &parts[k * SLICE_BYTES..end])
        };
        Ok((0..m).map(slice).collect())
    }

    /// The schema after the group.
    pub fn chain_after(&self) -> SchemaChain {
        self.parts.iter().fold(self.chain_before, |chain, part| match part {
            EntryPart::Ddl(text) => chain.then(text),
            EntryPart::Rows(_) | EntryPart::Set(_) => chain,
        })
    }

    fn encode_slice(&self, k: usize, m: usize, slice: &[u8]) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.epoch).u64(self.time.0).u32(self.sqlite);
        // Both are at most GROUP_ENTRIES.
        to.u8(k as u8).u8(m as u8);
        to.raw(&self.chain_before.0).u128(self.content_after.0).raw(slice);
        to.finish().into()
    }
}

impl EntrySlice {
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("an entry", bytes, VERSION)?;
        let epoch = from.u64()?;
        let time = Timestamp(from.u64()?);
        let sqlite = from.u32()?;
        let (k, m) = (from.u8()?, from.u8()?);
        if k == 0 || k > m || usize::from(m) > GROUP_ENTRIES {
            return Err(from.malformed("its number does not fit its group"));
        }
        let chain_before = SchemaChain(from.array()?);
        let content_after = ContentHash(from.u128()?);
        let slice = bytes.slice_ref(from.remainder());
        let header = EntryHeader { epoch, time, sqlite, m, chain_before, content_after };
        Ok(EntrySlice { header, k, slice })
    }
}

/// The digest of an entry's stored bytes, as the feed and the head name it.
pub fn entry_digest(entry: &[u8]) -> Digest {
    Digest::of(entry)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn group_with(parts: Vec<EntryPart>) -> EntryGroup {
        EntryGroup {
            epoch: 3,
            time: Timestamp(1000),
            sqlite: 3_054_001,
            chain_before: SchemaChain::START,
            content_after: ContentHash(9),
            parts,
        }
    }

    pub(crate) fn rows(length: usize) -> EntryPart {
        EntryPart::Rows((0..length).map(|n| n as u8).collect::<Vec<u8>>().into())
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let set = SetValues {
            sequences: vec![("t".into(), Some(5)), ("u".into(), None)],
            user_version: Some(2),
        };
        let parts = vec![rows(2), EntryPart::Ddl("DROP TABLE x".into()), EntryPart::Set(set)];
        let group = group_with(parts);
        let stored = b"\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x03\xe8\x00\x2e\x99\xb1\x01\x01\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\
            \x01\0\0\0\x02\0\x01\
            \x02\0\0\0\x0cDROP TABLE x\
            \x03\0\0\0\x21\0\0\0\x02\0\0\0\x01t\x01\0\0\0\0\0\0\0\x05\0\0\0\x01u\0\
            \x01\0\0\0\0\0\0\0\x02";
        assert_eq!(group.encode().unwrap(), [Bytes::from_static(stored)]);
        let mut joiner = GroupJoiner::default();
        assert_eq!(joiner.push(&Bytes::from_static(stored)), Ok(Some(group)));
    }

    #[test]
    fn h14_a_group_is_cut_into_at_most_three_entries_of_4_mib() {
        // A tag and a length stand before the rows.
        let overhead = 5;
        let cases = [
            (0, 1),
            (SLICE_BYTES - overhead, 1),
            (SLICE_BYTES - overhead + 1, 2),
            (2 * SLICE_BYTES - overhead, 2),
            (2 * SLICE_BYTES - overhead + 1, 3),
            (GROUP_BYTES - overhead, 3),
        ];
        for (length, entries) in cases {
            let group = group_with(vec![rows(length)]);
            let encoded = group.encode().unwrap();
            assert_eq!(encoded.len(), entries, "{length}");
            assert!(encoded.iter().all(|entry| entry.len() <= ENTRY_BYTES), "{length}");
            let mut joiner = GroupJoiner::default();
            let joined: Vec<_> = encoded.iter().map(|e| joiner.push(e).unwrap()).collect();
            assert!(joined[..entries - 1].iter().all(Option::is_none));
            assert_eq!(joined[entries - 1], Some(group));
        }
        let error = group_with(vec![rows(GROUP_BYTES - overhead + 1)]).encode().unwrap_err();
        assert_eq!(error.size, GROUP_BYTES + 1);
        assert!(error.to_string().contains("split the request"), "{error}");
    }

    #[test]
    fn the_chain_after_a_group_counts_its_ddl_in_order() {
        let ddl = |text: &str| EntryPart::Ddl(text.into());
        let group = group_with(vec![ddl("a"), rows(1), ddl("b")]);
        assert_eq!(group.chain_after(), SchemaChain::START.then("a").then("b"));
        assert_eq!(group_with(vec![rows(1)]).chain_after(), SchemaChain::START);
    }

    #[test]
    fn a_cut_damaged_or_later_entry_is_refused() {
        let entry = group_with(vec![rows(9)]).encode().unwrap().remove(0);
        for length in 0..entry.len() {
            let pushed = GroupJoiner::default().push(&entry.slice(..length));
            // Without its parts it is an entry that changes nothing.
            assert!(pushed.is_err() || length == HEADER_BYTES, "{length}");
        }
        let with = |place: usize, byte: u8| {
            let mut bytes = entry.to_vec();
            bytes[place] = byte;
            GroupJoiner::default().push(&bytes.into()).unwrap_err().to_string()
        };
        assert!(with(0, 2).contains("upgrade this node"));
        assert!(with(21, 0).contains("number"));
        assert!(with(22, 9).contains("number"));
        assert!(with(HEADER_BYTES, 9).contains("part"));
    }
}
