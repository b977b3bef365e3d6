//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::event;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[FormatVersion {
    name: "event",
    version: event::VERSION as u32,
    holds: "An event, within the records of a frame.",
}];
