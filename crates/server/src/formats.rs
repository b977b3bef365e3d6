//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::db::HASH_VERSION;
use crate::ingress::KEYS_VERSION;
use crate::once::ENVELOPE_VERSION;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "once answer",
        version: ENVELOPE_VERSION as u32,
        holds: "The answer of an upstream, as once keeps it.",
    },
    FormatVersion {
        name: "idempotency key",
        version: KEYS_VERSION as u32,
        holds: "The claim of an idempotency key.",
    },
    FormatVersion {
        name: "hash of a database write",
        version: HASH_VERSION as u32,
        holds: "The hash of the statements that an idempotency key was used with.",
    },
];
