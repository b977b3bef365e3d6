//! The versions of the formats that this crate stores or sends.

use consort_kernel::FormatVersion;

use crate::embedded::FORMAT as FOLDER;
use crate::layout;

/// The formats of this crate.
pub const FORMATS: &[FormatVersion] = &[
    FormatVersion {
        name: "embedded folder",
        version: folder_version(),
        holds: "The tables of the embedded engine. A folder of another version is refused.",
    },
    FormatVersion {
        name: "store",
        version: layout::FORMAT,
        holds: "The layout of cells, feeds and streams on every engine. A store of another version is refused.",
    },
];

/// The folder stores its version as one digit.
const fn folder_version() -> u32 {
    assert!(FOLDER.len() == 1, "the version is one digit");
    (FOLDER[0] - b'0') as u32
}
