//! Applies entries to a follower's file.

use std::path::Path;

use bytes::Bytes;
use rusqlite::Connection;

use crate::entry::{EntryGroup, EntryPart, GroupJoiner, JoinError, SetValues, entry_digest};
use crate::hash::{ContentHash, SchemaChain};
use crate::local::FileState;
use crate::sqlite::connect::open_apply;
use crate::sqlite::scan::{add_changes, content_hash};
use crate::sqlite::session::{self, SessionError};

/// Most entries that are applied in one local transaction: a follower that is behind applies a small entry in
/// 14 µs this way, and one by one in 32 µs.
pub const APPLY_ENTRIES: usize = 100;

/// A follower's file.
#[derive(Debug)]
pub struct Follower {
    connection: Connection,
    at: FileState,
    /// The highest epoch it has seen on the feed.
    epoch: u64,
}

/// Why entries could not be applied. The file is as it was before them.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An entry cannot be read, or does not follow the one before it.
    #[error("entry {index}: {error}")]
    Join {
        /// Its index.
        index: u64,
        /// What does not fit.
        error: JoinError,
    },
    /// The entry was made on another schema than the file has (T6).
    #[error("entry {index} was made on schema {expected}, and this file has {found}")]
    OtherSchema {
        /// The index of its group.
        index: u64,
        /// The schema it needs.
        expected: SchemaChain,
        /// The schema of the file.
        found: SchemaChain,
    },
    /// The entry comes from a leader that was deposed before.
    #[error("entry {index} has epoch {found}, after one of epoch {before}")]
    OlderEpoch {
        /// The index of its group.
        index: u64,
        /// Its epoch.
        found: u64,
        /// The epoch before it.
        before: u64,
    },
    /// A statement of DDL needs a newer SQLite (H30).
    #[error(
        "entry {index} was written by SQLite {needed}, and this node cannot apply it: upgrade this node"
    )]
    OlderSqlite {
        /// The index of its group.
        index: u64,
        /// The version that wrote it.
        needed: u32,
    },
    /// The changes do not fit the file.
    #[error("entry {index} does not fit this file: {error}")]
    Changes {
        /// The index of its group.
        index: u64,
        /// What does not fit.
        error: SessionError,
    },
    /// The contents differ from the leader's.
    #[error("after entry {index} this file has contents {found}, and the leader had {expected}")]
    Diverged {
        /// The index of its group.
        index: u64,
        /// The leader's contents.
        expected: ContentHash,
        /// The contents here.
        found: ContentHash,
    },
    /// SQLite failed.
    #[error("the follower's file failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

impl Follower {
    /// Opens the file for applying. `era` counts if the file is new.
    pub fn open(path: &Path, era: u64) -> rusqlite::Result<Self> {
        let connection = open_apply(path)?;
        let at = FileState::read(&connection)?.unwrap_or(FileState::empty(era));
        Ok(Follower { connection, at, epoch: 0 })
    }

    /// The committed state of the file.
    pub fn state(&self) -> &FileState {
        &self.at
    }

    /// Scans the file for its content hash.
    pub fn scan(&self) -> rusqlite::Result<ContentHash> {
        content_hash(&self.connection)
    }

    /// Applies the entries behind the file's index in one local transaction, up to [`APPLY_ENTRIES`] and the
    /// end of a group. Returns how many were applied: a group that is not complete waits for the next call.
    pub fn apply(&mut self, entries: &[Bytes]) -> Result<usize, ApplyError> {
        let groups = self.join(entries)?;
        let applied = groups.last().map_or(0, |group| group.entries);
        if applied == 0 {
            return Ok(0);
        }
        let before = (self.at, self.epoch);
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let outcome = groups.iter().try_for_each(|group| self.apply_group(before.0.index, group));
        let outcome = outcome.and_then(|()| {
            self.at.write(&self.connection)?;
            Ok(self.connection.execute_batch("COMMIT")?)
        });
        if let Err(error) = outcome {
            (self.at, self.epoch) = before;
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.connection.flush_prepared_statement_cache();
            return Err(error);
        }
        Ok(applied)
    }

    fn join(&self, entries: &[Bytes]) -> Result<Vec<JoinedGroup>, ApplyError> {
        let mut joiner = GroupJoiner::default();
        let mut groups = Vec::new();
        for (n, entry) in entries.iter().enumerate() {
            if n >= APPLY_ENTRIES && !joiner.is_open() {
                break;
            }
            let index = self.at.index + n as u64 + 1;
            let joined = joiner.push(entry).map_err(|error| ApplyError::Join { index, error })?;
            if let Some(group) = joined {
                groups.push(JoinedGroup { group, entries: n + 1, digest: entry_digest(entry) });
            }
        }
        Ok(groups)
    }

    fn apply_group(&mut self, start: u64, joined: &JoinedGroup) -> Result<(), ApplyError> {
        let group = &joined.group;
        let index = start + joined.entries as u64;
        if group.chain_before != self.at.chain {
            let (expected, found) = (group.chain_before, self.at.chain);
            return Err(ApplyError::OtherSchema { index, expected, found });
        }
        if group.epoch < self.epoch {
            return Err(ApplyError::OlderEpoch { index, found: group.epoch, before: self.epoch });
        }
        let mut content = self.at.content;
        let mut changes_schema = false;
        for part in &group.parts {
            match part {
                EntryPart::Rows(changeset) => {
                    let applied = session::apply(&self.connection, changeset);
                    applied
                        .and_then(|()| add_changes(&mut content, changeset))
                        .map_err(|error| ApplyError::Changes { index, error })?;
                }
                EntryPart::Ddl(text) => {
                    changes_schema = true;
                    self.run_ddl(index, group, text)?;
                }
                EntryPart::Set(values) => self.set(values)?,
            }
        }
        if changes_schema {
            self.connection.flush_prepared_statement_cache();
            content = content_hash(&self.connection)?;
        }
        if content != group.content_after {
            let (expected, found) = (group.content_after, content);
            return Err(ApplyError::Diverged { index, expected, found });
        }
        self.epoch = group.epoch;
        self.at = FileState {
            index,
            digest: Some(joined.digest),
            chain: group.chain_after(),
            content,
            ..self.at
        };
        Ok(())
    }

    fn run_ddl(&self, index: u64, group: &EntryGroup, text: &str) -> Result<(), ApplyError> {
        let own = rusqlite::version_number() as u32;
        self.connection.execute_batch(text).map_err(|error| match group.sqlite > own {
            true => ApplyError::OlderSqlite { index, needed: group.sqlite },
            false => ApplyError::Sqlite(error),
        })
    }

    fn set(&self, values: &SetValues) -> rusqlite::Result<()> {
        for (table, counter) in &values.sequences {
            let delete = "DELETE FROM sqlite_sequence WHERE name = ?1";
            self.connection.prepare_cached(delete)?.execute([table])?;
            if let Some(counter) = counter {
                let insert = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
                self.connection.prepare_cached(insert)?.execute((table, counter))?;
            }
        }
        match values.user_version {
            Some(version) => self.connection.pragma_update(None, "user_version", version),
            None => Ok(()),
        }
    }
}

struct JoinedGroup {
    group: EntryGroup,
    /// How many entries there are up to its end.
    entries: usize,
    /// The digest of its last entry.
    digest: consort_kernel::Digest,
}
