//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::subscription;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[FormatVersion {
    name: "cursor",
    version: subscription::VERSION as u32,
    holds: "The cursor of a feed, in `Consort-Cursor`.",
}];
