//! The versions of the formats that this crate stores.

use consort_kernel::FormatVersion;

use crate::stored::{body, head, key_outcome, outcome, pending, record, reject, ring, word};

/// The formats of this crate. A row of the feed is an entry of the format "change".
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "piece",
        version: record::VERSION as u32,
        holds: "A piece of a document, within the records of a frame.",
    },
    FormatVersion {
        name: "document word",
        version: word::VERSION as u32,
        holds: "The end of a gap, a release, a retry or a discard, within a control record.",
    },
    FormatVersion {
        name: "document head",
        version: head::VERSION as u32,
        holds: "A document's life, version, state and numbers of sources.",
    },
    FormatVersion {
        name: "document body",
        version: body::VERSION as u32,
        holds: "A document, with the version that it is of.",
    },
    FormatVersion {
        name: "pending pieces",
        version: pending::VERSION as u32,
        holds: "The held and queued pieces of a document.",
    },
    FormatVersion {
        name: "old version",
        version: ring::VERSION as u32,
        holds: "One of the versions that `history` keeps.",
    },
    FormatVersion {
        name: "piece key",
        version: key_outcome::VERSION as u32,
        holds: "An idempotency key of a piece, with its outcome.",
    },
    FormatVersion {
        name: "piece outcome",
        version: outcome::VERSION as u32,
        holds: "The feed that tells nodes the outcomes of pieces that requests wait for.",
    },
    FormatVersion {
        name: "rejected piece",
        version: reject::VERSION as u32,
        holds: "An entry of the reject list.",
    },
];
