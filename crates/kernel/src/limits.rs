//! The bounds of the two contracts. They hold on every engine, so that what works on one works on all.

use crate::error::Refusal;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One record of a frame.
pub const RECORD_BYTES: usize = 2 * MIB;
/// One frame, encoded: header and records together.
pub const FRAME_BYTES: usize = 4 * MIB;
/// A cell's key. Engines add a short prefix and keep keys in indexes: they stay small.
pub const KEY_BYTES: usize = 1024;
/// The value of a bytes cell or of a `last` cell.
pub const VALUE_BYTES: usize = 4 * MIB;
/// The rank of a `min`, `max` or `last` cell: an encoded key.
pub const RANK_BYTES: usize = KEY_BYTES;
/// A member of a set or sketch.
pub const MEMBER_BYTES: usize = 4 * KIB;
/// An entry of a feed.
pub const ENTRY_BYTES: usize = 4 * MIB;
/// Steps in one commit: each operation, expectation and set member is one. On Redis a commit is one
/// script call that holds up everybody else, so this bounds their wait to a few milliseconds.
pub const COMMIT_STEPS: usize = 10_000;
/// All bytes of one commit together.
pub const COMMIT_BYTES: usize = 16 * MIB;
/// Cells in one `get`, rows in one page of a scan or of a set's members.
pub const PAGE_ROWS: usize = 1_000;
/// Entries in one read of a log or feed.
pub const READ_ENTRIES: usize = 1_000;
/// Bytes after which a page ends, even if more rows were asked for.
pub const PAGE_BYTES: usize = 8 * MIB;

/// Refuses a `size` above `limit`.
pub fn within(what: &'static str, size: usize, limit: usize) -> Result<(), Refusal> {
    if size > limit {
        return Err(Refusal::TooLarge { what, size, limit });
    }
    Ok(())
}
