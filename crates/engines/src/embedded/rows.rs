//! How the tables' rows are keyed. Numbers are big-endian, so that rows sort by them.
//!
//! | table | row |
//! | --- | --- |
//! | log | name's length (1), name, partition (4), offset (8) → digest (16), frame: see [`super::packing`] |
//! | feeds | shard (2), name's length (1), name, number (8) → digest (16), entry: the same |
//! | cells | shard (2), kind (1), key → expiry (8, 0 for never), contents: see [`super::cell`] |
//! | members | generation (8), run (8), first member → a block of members: see [`super::runs`] |
//! | expiries | time (8), then the cell's row → nothing |
//! | graves | generation (8), or generation and run (16) → nothing |

use bytes::Bytes;
use consort_kernel::{Cell, Digest, Kind, Name, Partition, Shard};

use super::packing;

/// What all entries of a partition begin with.
pub(super) fn partition(at: &Partition) -> Vec<u8> {
    let mut row = Vec::with_capacity(at.stream.as_str().len() + 13);
    push_name(&mut row, &at.stream);
    row.extend(at.index.to_be_bytes());
    row
}

/// What all entries of a feed begin with.
pub(super) fn feed(shard: Shard, feed: &Name) -> Vec<u8> {
    let mut row = Vec::with_capacity(feed.as_str().len() + 11);
    row.extend(shard.0.to_be_bytes());
    push_name(&mut row, feed);
    row
}

/// One entry of a partition or feed.
pub(super) fn entry(prefix: &[u8], number: u64) -> Vec<u8> {
    [prefix, &number.to_be_bytes()].concat()
}

/// The number of an entry's row.
pub(super) fn entry_number(row: &[u8]) -> u64 {
    row.last_chunk().map_or(0, |number| u64::from_be_bytes(*number))
}

/// What is stored of a partition's entry.
pub(super) fn frame_value(frame: &[u8]) -> Vec<u8> {
    let mut value = Digest::of(frame).0.to_vec();
    packing::pack(&mut value, frame);
    value
}

/// What is stored of a feed's entry. It is made by the writer, which has no time to compress.
pub(super) fn note_value(entry: &[u8]) -> Vec<u8> {
    let mut value = Digest::of(entry).0.to_vec();
    packing::plain(&mut value, entry);
    value
}

/// The digest that was stored with an entry, and its contents; `None` if these are not what was stored.
pub(super) fn entry_parts(value: &Bytes) -> Option<(&[u8], Bytes)> {
    let digest = value.get(..Digest::LENGTH)?;
    Some((digest, packing::unpack(&value.slice(Digest::LENGTH..))?))
}

/// Bytes before a cell's key.
pub(super) const KIND_BYTES: usize = 3;

/// Whether cells of this kind have members, in their row and in runs.
pub(super) fn has_members(kind: Kind) -> bool {
    matches!(kind, Kind::Set | Kind::Distinct)
}

/// A cell's row.
pub(super) fn cell(shard: Shard, cell: &Cell) -> Vec<u8> {
    cell_row(shard, cell.kind, cell.key.as_bytes())
}

/// A cell's row, from its parts.
pub(super) fn cell_row(shard: Shard, of: Kind, key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(KIND_BYTES + key.len());
    row.extend(shard.0.to_be_bytes());
    row.push(of.code());
    row.extend(key);
    row
}

/// A block of a set's run.
pub(super) fn block(generation: u64, run: u64, first: &[u8]) -> Vec<u8> {
    [&generation.to_be_bytes(), &run.to_be_bytes(), first].concat()
}

/// Where the rows that begin with this end.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Generations and runs are counted from 1, and never come to an end: there is a byte to count up.
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// A note that a cell expires.
pub(super) fn expiry(at: u64, cell: &[u8]) -> Vec<u8> {
    [&at.to_be_bytes(), cell].concat()
}

fn push_name(row: &mut Vec<u8>, name: &Name) {
    // A name has at most 100 bytes.
    row.push(name.as_str().len() as u8);
    row.extend(name.as_str().as_bytes());
}
