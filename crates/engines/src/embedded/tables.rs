//! The tables of the folder: fjall's keyspaces, by what they hold.

use std::fs::{File, remove_dir_all, remove_file};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};

use super::entries::Firsts;
use super::folder::FolderError;
use super::journal;

/// The layout of rows, see [`super::rows`]. Another number means another release wrote the folder.
pub(crate) const FORMAT: &[u8] = b"4";
const FORMAT_ROW: &[u8] = b"format";

/// Where the tables are, within the data folder.
const TABLES: &str = "tables";
/// A file that is there while they are made. A process that is killed meanwhile leaves files that fjall can
/// neither open nor make again: tables beside this file are thrown away, and nothing was written to them.
///
/// They are not made elsewhere and moved here, since they would have to be closed for that. fjall makes
/// journals with room in them, but cuts those that it opens to what they hold, and then every write makes
/// the file longer: that has to be put on the disk too, and takes almost half as long again.
const UNFINISHED: &str = "tables.unfinished";

/// How much memory fjall may use to keep blocks that were read.
const BLOCK_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// How much of the write-ahead journal may stand before tables are flushed: it bounds the time to open.
const JOURNAL_BYTES: u64 = 512 * 1024 * 1024;

/// Handles to all tables; cheap to clone.
#[derive(Clone)]
pub(super) struct Tables {
    /// Where fjall keeps them, and its journals.
    pub(super) folder: PathBuf,
    pub(super) db: Database,
    /// Frames by stream, partition and offset.
    pub(super) log: Keyspace,
    /// Cells by shard, kind and key.
    pub(super) cells: Keyspace,
    /// Members of sets in blocks, by the set's generation and the run.
    pub(super) members: Keyspace,
    /// Entries of feeds by shard, feed and number.
    pub(super) feeds: Keyspace,
    /// Cells that will expire, by time.
    pub(super) expiries: Keyspace,
    /// Generations and runs of sets whose members are to be cleared away.
    pub(super) graves: Keyspace,
    /// The format, and the last generation given out.
    pub(super) meta: Keyspace,
    /// Where partitions and feeds begin.
    pub(super) firsts: Arc<Firsts>,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl Tables {
    /// Opens the tables of a data folder, making them if there are none.
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let io = |error| FolderError::Io { path: path.to_path_buf(), error };
        let unreadable =
            |reason: String| FolderError::Unreadable { path: path.to_path_buf(), reason };
        let (finished, unfinished) = (path.join(TABLES), path.join(UNFINISHED));
        let there = finished.try_exists().map_err(io)?;
        if !there || unfinished.try_exists().map_err(io)? {
            File::create(&unfinished).map_err(io)?;
            sync(path).map_err(io)?;
            if there {
                remove_dir_all(&finished).map_err(io)?;
            }
            let tables = Tables::make(&finished).map_err(|error| unreadable(explain(&error)))?;
            sync(path).map_err(io)?;
            remove_file(&unfinished).map_err(io)?;
            // Nothing is acknowledged before it is certain that the tables stay.
            sync(path).map_err(io)?;
            return Ok(tables);
        }
        if let Some(damage) = journal::damage(&finished).map_err(io)? {
            return Err(unreadable(damage));
        }
        let tables = Tables::at(&finished).map_err(|error| unreadable(explain(&error)))?;
        let format = tables.meta.get(FORMAT_ROW).map_err(|error| unreadable(explain(&error)))?;
        if format.as_deref() != Some(FORMAT) {
            return Err(unreadable(format!(
                "it has format '{}', and this release reads format '{}'",
                String::from_utf8_lossy(&format.unwrap_or_default()),
                String::from_utf8_lossy(FORMAT)
            )));
        }
        Ok(tables)
    }

    /// Makes empty tables.
    fn make(path: &Path) -> fjall::Result<Self> {
        let tables = Tables::at(path)?;
        let mut batch = tables.db.batch().durability(Some(fjall::PersistMode::SyncAll));
        batch.insert(&tables.meta, FORMAT_ROW, FORMAT);
        batch.commit()?;
        Ok(tables)
    }

    fn at(path: &Path) -> fjall::Result<Self> {
        // The journal is not compressed: fjall checks a batch by compressing it again, which another
        // release of the compressor may do otherwise, and it takes a value that does not decompress for
        // the torn end of the journal.
        let db = Database::builder(path)
            .cache_size(BLOCK_CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .journal_compression(CompressionType::None)
            .open()?;
        let small = |name: &str| db.keyspace(name, KeyspaceCreateOptions::default);
        // Frames and entries are large and never change: kept apart from their keys they are not
        // written again by every compaction.
        let large = |name: &str| {
            let separated = || {
                let options = KeyspaceCreateOptions::default();
                options.with_kv_separation(Some(KvSeparationOptions::default()))
            };
            db.keyspace(name, separated)
        };
        Ok(Tables {
            folder: path.to_path_buf(),
            log: large("log")?,
            cells: small("cells")?,
            members: small("members")?,
            feeds: large("feeds")?,
            expiries: small("expiries")?,
            graves: small("graves")?,
            meta: small("meta")?,
            db: db.clone(),
            firsts: Arc::default(),
        })
    }
}

/// Makes what was made and removed in a folder certain.
fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What fjall's errors mean to whoever runs the node.
pub(super) fn explain(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            "the disk is full: free some space and start again; nothing acknowledged was lost".into()
        }
        fjall::Error::Io(error) => format!("the disk failed: {error}"),
        fjall::Error::JournalRecovery(error) => format!(
            "its journal is damaged ({error}): a disk fault, or another program wrote to it; restore the folder from a backup"
        ),
        fjall::Error::Poisoned => "an earlier write failed, so nothing more is written: free disk space or replace the disk, and start again".into(),
        fjall::Error::Storage(error) => format!("its tables cannot be read: {error}"),
        other => other.to_string(),
    }
}
