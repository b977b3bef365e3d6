//! Loads a snapshot into a new file, and verifies it before a worker uses it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

/// A file that is made from the chunks of one snapshot, in their order. If it is dropped before it is finished,
/// its file is not to be used.
#[derive(Debug)]
pub struct SnapshotFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl SnapshotFile {
    /// Begins the file at `path`, where none may be.
    pub fn create(path: &Path) -> Result<Self, LoadError> {
        Ok(SnapshotFile { file: File::create_new(path)?, path: path.to_owned(), bytes: 0 })
    }

    /// Adds the next chunk, as it is stored; `None` if the store does not have it.
    pub fn push(&mut self, name: ChunkName, stored: Option<&[u8]>) -> Result<(), LoadError> {
        let contents = unpack(name, stored.ok_or(LoadError::Missing(name))?)?;
        self.bytes += contents.len() as u64;
        Ok(self.file.write_all(&contents)?)
    }

    /// Verifies all of the file, once it has every chunk of `manifest`.
    pub fn finish(self, manifest: &Manifest) -> Result<FileState, LoadError> {
        drop(self.file);
        let (expected, found) = (manifest.file_bytes, self.bytes);
        if found != expected {
            return Err(LoadError::Size { expected, found });
        }
        let connection = open_apply(&self.path)?;
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
}
