//! Makes a snapshot of a worker's file: a copy as of one index, cut into chunks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
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
    /// The copy was written to while its chunks were read.
    #[error("chunk {0} of the copy has changed")]
    Changed(ChunkName),
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
    copy_pages(source, copy)?;
    Ok(state)
}

/// Copies the pages of a file to a new one, which is one file without a log beside it.
pub(crate) fn copy_pages(source: &Connection, copy: &Path) -> rusqlite::Result<()> {
    let mut target = Connection::open(copy)?;
    Backup::new(source, &mut target)?.run_to_completion(STEP_PAGES, Duration::ZERO, None)?;
    target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
}

/// Names the chunks of a copy. The manifest is to be stored after all of them (H13).
pub fn describe(copy: &Path, state: &FileState) -> Result<Manifest, MakeError> {
    let mut file = File::open(copy)?;
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
    loop {
        let chunk = next_chunk(&mut file)?;
        if chunk.is_empty() {
            return Ok(manifest);
        }
        if manifest.chunks.is_empty() {
            manifest.page_bytes = page_bytes(&chunk);
        }
        manifest.file_bytes += chunk.len() as u64;
        manifest.chunks.push(ChunkName::new(&chunk));
    }
}

/// The bytes to store for chunk `number` of a copy. It must still have the name that it was given.
pub fn read_chunk(copy: &mut File, number: u64, name: ChunkName) -> Result<Bytes, MakeError> {
    copy.seek(SeekFrom::Start(number * CHUNK_BYTES as u64))?;
    let chunk = next_chunk(copy)?;
    match ChunkName::new(&chunk) == name {
        true => Ok(pack(&chunk)),
        false => Err(MakeError::Changed(name)),
    }
}

fn next_chunk(file: &mut File) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
    Ok(chunk)
}

/// The page size in the header of a file: bytes 16 and 17, where 1 stands for 65,536.
fn page_bytes(header: &[u8]) -> u32 {
    match header.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}
