//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::feed_cursor;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "cursor",
        version: feed_cursor::ALL_SHARDS as u32,
        holds: "The cursor of a feed, in `Consort-Cursor`.",
    },
    FormatVersion {
        name: "cursor of one shard",
        version: feed_cursor::ONE_SHARD as u32,
        holds: "The cursor of one document's rows in a feed, in `Consort-Cursor`.",
    },
];
