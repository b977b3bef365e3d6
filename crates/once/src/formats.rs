//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::{news, state};

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "once state",
        version: state::VERSION as u32,
        holds: "The state of a key of once.",
    },
    FormatVersion {
        name: "once news",
        version: news::VERSION as u32,
        holds: "The feed that tells nodes which answers to drop from their caches.",
    },
];
