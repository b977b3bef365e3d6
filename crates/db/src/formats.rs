//! The versions of the formats that this crate stores.

use consort_kernel::FormatVersion;

use crate::snapshot::{chunks, manifest, sweep_list};
use crate::supervise::{wanted, window};
use crate::worker::cell;
use crate::write::job;
use crate::{entry, head, store};

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "database head",
        version: head::format::VERSION as u32,
        holds: "Era, index, leader and hashes of a database: the cell that every write replaces.",
    },
    FormatVersion {
        name: "database entry",
        version: entry::VERSION as u32,
        holds: "The changes of one group of writes, in at most three entries of a feed.",
    },
    FormatVersion {
        name: "database worker",
        version: cell::VERSION as u32,
        holds: "A worker's slot, node, state and index.",
    },
    FormatVersion {
        name: "wanted workers",
        version: wanted::VERSION as u32,
        holds: "The slots that a database should have, and the next worker id.",
    },
    FormatVersion {
        name: "window of reads",
        version: window::VERSION as u32,
        holds: "The running window in which reads are counted, and the counts of each process.",
    },
    FormatVersion {
        name: "snapshot manifest",
        version: manifest::VERSION as u32,
        holds: "The index, the hashes and the chunks of a snapshot.",
    },
    FormatVersion {
        name: "snapshot chunk",
        version: chunks::VERSION as u32,
        holds: "256 KiB of a database file, compressed, under their SHA-256.",
    },
    FormatVersion {
        name: "chunks to sweep",
        version: sweep_list::VERSION as u32,
        holds: "Chunks that may belong to no snapshot, and since when.",
    },
    FormatVersion {
        name: "applied schema files",
        version: store::FILES_VERSION as u32,
        holds: "The names and hashes of the schema files that a database has.",
    },
    FormatVersion {
        name: "kept database answer",
        version: job::ANSWER_VERSION as u32,
        holds: "The answer of a write under its idempotency key, in the database itself.",
    },
];
