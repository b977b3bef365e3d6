//! The tables of the folder: fjall's keyspaces, by what they hold.

use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};

use super::entries::Firsts;
use super::folder::FolderError;

/// The layout of rows, see [`super::rows`]. Another number means another release wrote the folder.
const FORMAT: &[u8] = b"1";
const FORMAT_ROW: &[u8] = b"format";

/// How much memory fjall may use to keep blocks that were read.
const BLOCK_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// How much of the write-ahead journal may stand before tables are flushed: it bounds the time to open.
const JOURNAL_BYTES: u64 = 512 * 1024 * 1024;

/// Handles to all tables; cheap to clone.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) db: Database,
    /// Frames by stream, partition and offset.
    pub(super) log: Keyspace,
    /// Cells by shard, kind and key.
    pub(super) cells: Keyspace,
    /// Members of sets by the set's generation.
    pub(super) members: Keyspace,
    /// Entries of feeds by shard, feed and number.
    pub(super) feeds: Keyspace,
    /// Cells that will expire, by time.
    pub(super) expiries: Keyspace,
    /// Generations of sets whose members are to be cleared away.
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
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let unreadable =
            |reason: String| FolderError::Unreadable { path: path.to_path_buf(), reason };
        let open = || -> fjall::Result<Tables> {
            let db = Database::builder(path)
                .cache_size(BLOCK_CACHE_BYTES)
                .max_journaling_size(JOURNAL_BYTES)
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
        };
        let tables = open().map_err(|error| unreadable(explain(&error)))?;
        match tables.meta.get(FORMAT_ROW).map_err(|error| unreadable(explain(&error)))? {
            None => {
                let mut batch = tables.db.batch().durability(Some(fjall::PersistMode::SyncAll));
                batch.insert(&tables.meta, FORMAT_ROW, FORMAT);
                batch.commit().map_err(|error| unreadable(explain(&error)))?;
            }
            Some(format) if *format == *FORMAT => {}
            Some(format) => {
                return Err(unreadable(format!(
                    "it has format {}, and this release reads format {}",
                    String::from_utf8_lossy(&format),
                    String::from_utf8_lossy(FORMAT)
                )));
            }
        }
        Ok(tables)
    }
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
