//! Makes a snapshot of a worker's file: a copy as of one index, cut into chunks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::chunks::{CHUNK_BYTES, ChunkName, pack};
use super::manifest::Manifest;
use crate::local::FileState;

/// Pages that are copied in one step.
const STEP_PAGES: i32 = 1_000;

/// A failure to make a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// SQLite could not copy the file.
    #[error("the file could not be copied: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The copy could not be read.
    #[error("the copy could not be read: {0}")]
    Io(#[from] io::Error),
    /// The file does not say how far it is.
    #[error("the file has no index yet")]
    Empty,
}

/// Copies the file that `source` reads to `copy`, within one read transaction.
pub fn copy_file(source: &Connection, copy: &Path) -> Result<FileState, MakeError> {
    source.execute_batch("BEGIN")?;
    let copied = copy_within(source, copy);
    source.execute_batch("ROLLBACK")?;
    copied
}

fn copy_within(source: &Connection, copy: &Path) -> Result<FileState, MakeError> {
    // The first read fixes the state that the transaction sees, and the copy is of that state.
    let state = FileState::read(source)?.ok_or(MakeError::Empty)?;
    let mut target = Connection::open(copy)?;
    Backup::new(source, &mut target)?.run_to_completion(STEP_PAGES, Duration::ZERO, None)?;
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    Ok(state)
}

/// Cuts a copy into chunks and hands each to `put`, unless `has` says that it is stored already. The manifest
/// is to be stored after all of them (H13).
pub fn cut<E: From<MakeError>>(
    copy: &Path,
    state: &FileState,
    has: impl Fn(ChunkName) -> bool,
    mut put: impl FnMut(ChunkName, Bytes) -> Result<(), E>,
) -> Result<Manifest, E> {
    let mut file = File::open(copy).map_err(MakeError::from)?;
    let mut manifest = Manifest {
        era: state.era,
        index: state.index,
        digest: state.digest,
        chain: state.chain,
        content: state.content,
        sqlite: rusqlite::version_number() as u32,
        page_bytes: 0,
        file_bytes: 0,
        chunks: Vec::new(),
    };
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    loop {
        chunk.clear();
        let limit = CHUNK_BYTES as u64;
        let length = (&mut file).take(limit).read_to_end(&mut chunk).map_err(MakeError::from)?;
        if length == 0 {
            return Ok(manifest);
        }
        if manifest.chunks.is_empty() {
            manifest.page_bytes = page_bytes(&chunk);
        }
        let name = ChunkName::new(&chunk);
        if !has(name) && !manifest.chunks.contains(&name) {
            put(name, pack(&chunk))?;
        }
        manifest.file_bytes += length as u64;
        manifest.chunks.push(name);
    }
}

/// The page size in the header of a file: bytes 16 and 17, where 1 stands for 65,536.
fn page_bytes(header: &[u8]) -> u32 {
    match header.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}
