//! Loads a snapshot into a new file, and verifies it before a worker uses it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;

use super::chunks::{ChunkError, ChunkName, unpack};
use super::manifest::Manifest;
use crate::hash::ContentHash;
use crate::local::FileState;
use crate::sqlite::connect::open_apply;
use crate::sqlite::scan::content_hash;

/// Why a snapshot could not be loaded. The file is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A chunk is gone: a newer snapshot has replaced this one. Begin again with the newest manifest (H13).
    #[error("chunk {0} is missing")]
    Missing(ChunkName),
    /// A chunk is not the one its name promises.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The file is not of the size that the manifest says.
    #[error("the snapshot has {found} bytes, and its manifest says {expected}")]
    Size {
        /// The size in the manifest.
        expected: u64,
        /// The size of all chunks.
        found: u64,
    },
    /// The file says another state than the manifest.
    #[error("the snapshot is of another index or schema than its manifest says")]
    OtherState,
    /// The rows are not those that the manifest vouches for.
    #[error("the snapshot has contents {found}, and its manifest says {expected}")]
    OtherContents {
        /// The contents in the manifest.
        expected: ContentHash,
        /// The contents of the file.
        found: ContentHash,
    },
    /// The file could not be written.
    #[error("the snapshot could not be written: {0}")]
    Io(#[from] io::Error),
    /// SQLite cannot read the file.
    #[error("the snapshot cannot be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Writes the snapshot to `path`, which must not exist, and verifies all of it. `fetch` gets stored chunks.
pub fn load(
    manifest: &Manifest,
    path: &Path,
    mut fetch: impl FnMut(ChunkName) -> Option<Bytes>,
) -> Result<FileState, LoadError> {
    let mut file = File::create_new(path)?;
    let mut found = 0;
    for name in &manifest.chunks {
        let stored = fetch(*name).ok_or(LoadError::Missing(*name))?;
        let contents = unpack(*name, &stored)?;
        found += contents.len() as u64;
        file.write_all(&contents)?;
    }
    drop(file);
    if found != manifest.file_bytes {
        return Err(LoadError::Size { expected: manifest.file_bytes, found });
    }
    let connection = open_apply(path)?;
    let state = FileState::read(&connection)?.ok_or(LoadError::OtherState)?;
    let is_same = state.position() == manifest.position()
        && state.digest == manifest.digest
        && state.chain == manifest.chain;
    if !is_same {
        return Err(LoadError::OtherState);
    }
    let found = content_hash(&connection)?;
    match found == manifest.content && found == state.content {
        true => Ok(state),
        false => Err(LoadError::OtherContents { expected: manifest.content, found }),
    }
}
