//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::agreement::VERSION as AGREEMENT;
use crate::format;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "cluster cell",
        version: format::VERSION as u32,
        holds: "Leases, members and other cells of the cluster: one byte, then JSON.",
    },
    FormatVersion {
        name: "definitions",
        version: AGREEMENT as u32,
        holds: "The definitions that all nodes agree on. Version 1 is still read.",
    },
];
