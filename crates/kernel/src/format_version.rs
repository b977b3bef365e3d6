//! The versions of stored and wire formats, as data: each crate lists its own, and the reference page shows them all.

use crate::{change, frame};

/// A format that outlives the process that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatVersion {
    pub name: &'static str,
    pub version: u32,
    /// One sentence: what has this format, and which other versions are read.
    pub holds: &'static str,
}

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "frame",
        version: frame::VERSION as u32,
        holds: "The records of a stream, as the log keeps them.",
    },
    FormatVersion {
        name: "change",
        version: change::VERSION as u32,
        holds: "The entries of feeds. Version 1, the row of a view, is still read.",
    },
];
