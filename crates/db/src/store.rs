//! The cells and the feed of one database, as typed reads and commits on the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Cursor, Expect, Fault, FeedEntry, Key, Kind, Most, Name, Note,
    Operation, QueryError, ReadError, Store, Timestamp, Value, Wake,
};

use crate::cells::DbCells;
use crate::entry::entry_digest;
use crate::head::DbHead;
use crate::snapshot::manifest::Manifest;
use crate::supervise::wanted::WantedWorkers;
use crate::wire::{DbFormatError, FieldReader, FieldWriter};
use crate::worker::cell::WorkerCell;
use crate::write::commit::{HeadAnswer, IntendedEntry};
use crate::write::schema_file::AppliedFile;

/// The version of the cell of schema files.
pub(crate) const FILES_VERSION: u8 = 1;

/// One database in the store. All clones are of the same one.
#[derive(Clone, Debug)]
pub struct DatabaseStore {
    store: Arc<dyn Store>,
    cells: DbCells,
}

/// Why a cell of the database could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DbStoreError {
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] Fault),
    /// The cell is of a later release, or damaged.
    #[error(transparent)]
    Format(#[from] DbFormatError),
    /// A call breaks a bound of the store. This is a defect.
    #[error("the store refused a call: {0}")]
    Refused(String),
}

impl From<QueryError> for DbStoreError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Engine(fault) => DbStoreError::Engine(fault),
            QueryError::Refused(refusal) => DbStoreError::Refused(refusal.to_string()),
        }
    }
}

/// The cells that decide on workers, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbSight {
    /// The head.
    pub head: Option<DbHead>,
    /// The wanted workers, and the bytes that a commit expects.
    pub wanted: Option<WantedWorkers>,
}

/// The answer to a commit that expects cells other than the head alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellsAnswer {
    /// Applied.
    Done,
    /// Not applied: a cell holds something else.
    Stale,
    /// Applied, or will be, or nothing: only a repeat of the identical commit tells.
    Unknown(Fault),
    /// Nothing was changed.
    Failed(Fault),
}

impl DatabaseStore {
    /// The database of these cells.
    pub fn new(store: Arc<dyn Store>, cells: DbCells) -> Self {
        DatabaseStore { store, cells }
    }

    /// Where its cells are.
    pub fn cells(&self) -> &DbCells {
        &self.cells
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The store's time.
    pub async fn now(&self) -> Result<Timestamp, Fault> {
        self.store.now().await
    }

    /// Wakes its holder soon after the head changed.
    pub fn watch_head(&self) -> Wake {
        self.store.watch(self.cells.shard(), &self.cells.head())
    }

    /// Wakes its holder soon after the wanted workers changed.
    pub fn watch_wanted(&self) -> Wake {
        self.store.watch(self.cells.shard(), &self.cells.wanted())
    }

    /// The head.
    pub async fn head(&self) -> Result<Option<DbHead>, DbStoreError> {
        let bytes = self.bytes(&[self.cells.head()]).await?.remove(0);
        Ok(bytes.map(|bytes| DbHead::decode(&bytes)).transpose()?)
    }

    /// Head and wanted workers, of one moment.
    pub async fn sight(&self) -> Result<DbSight, DbStoreError> {
        let keys = [self.cells.head(), self.cells.wanted()];
        let mut found = self.bytes(&keys).await?.into_iter();
        let (head, wanted) = (found.next().flatten(), found.next().flatten());
        Ok(DbSight {
            head: head.map(|bytes| DbHead::decode(&bytes)).transpose()?,
            wanted: wanted.map(|bytes| WantedWorkers::decode(&bytes)).transpose()?,
        })
    }

    /// The cells of all workers, the dead ones as well, ordered by id.
    pub async fn workers(&self) -> Result<Vec<WorkerCell>, DbStoreError> {
        let mut workers = Vec::new();
        for (_, value) in self.scan(&self.cells.workers()).await? {
            if let Value::Bytes(bytes) = value {
                workers.push(WorkerCell::decode(&bytes)?);
            }
        }
        Ok(workers)
    }

    /// The two manifests.
    pub async fn manifests(&self) -> Result<[Option<Manifest>; 2], DbStoreError> {
        let mut found = self.bytes(&self.cells.manifests()).await?.into_iter();
        let mut next = || found.next().flatten().map(|bytes| Manifest::decode(&bytes)).transpose();
        Ok([next()?, next()?])
    }

    /// Replaces the head alone: for claims, and for the end of a lead.
    pub async fn replace_head(&self, expect: &DbHead, put: &DbHead) -> HeadAnswer {
        self.append_group(expect, put, &[], &[]).await
    }

    /// Replaces the head, appends `entries` to the feed of the present era, and puts the cells of `beside`.
    pub async fn append_group(
        &self,
        expect: &DbHead,
        put: &DbHead,
        entries: &[Bytes],
        beside: &[(Key, Bytes)],
    ) -> HeadAnswer {
        let Ok(feed) = self.cells.feed(expect.era) else { return HeadAnswer::Fault };
        let append =
            |entry: &Bytes| Operation::Append(Note { feed: feed.clone(), entry: entry.clone() });
        let put = Operation::Put { key: self.cells.head(), value: put.encode() };
        let beside = beside
            .iter()
            .map(|(key, value)| Operation::Put { key: key.clone(), value: value.clone() });
        let commit = Commit::of([put].into_iter().chain(entries.iter().map(append)).chain(beside))
            .expecting(Expect::Bytes(self.cells.head(), Some(expect.encode())));
        // Claims and the end of a lead are short and must not wait behind groups.
        let commit = if entries.is_empty() { commit.urgent() } else { commit };
        match self.store.commit(self.cells.shard(), commit).await {
            Ok(_) => HeadAnswer::Ok,
            Err(CommitError::Stale(values)) => HeadAnswer::Stale(stale_head(values)),
            Err(CommitError::Unknown(fault)) => {
                tracing::debug!(%fault, "a commit on the head has an unknown outcome");
                HeadAnswer::Unknown
            }
            Err(CommitError::Engine(fault)) => {
                tracing::debug!(%fault, "a commit on the head failed");
                HeadAnswer::Fault
            }
            Err(CommitError::Refused(refusal)) => {
                tracing::error!(%refusal, "a commit on the head breaks a bound of the store; this is a defect");
                HeadAnswer::Fault
            }
        }
    }

    /// The schema files that were applied, as the leader noted them beside their entries.
    pub async fn schema_files(&self) -> Result<Vec<AppliedFile>, DbStoreError> {
        let bytes = self.bytes(&[self.cells.schema()]).await?.remove(0);
        Ok(bytes.map(|bytes| decode_files(&bytes)).transpose()?.unwrap_or_default())
    }

    /// Commits `operations` if all of `expect` hold.
    pub async fn commit(
        &self,
        expect: impl IntoIterator<Item = Expect>,
        operations: Vec<Operation>,
    ) -> CellsAnswer {
        let commit = Commit::of(operations);
        let commit = expect.into_iter().fold(commit, Commit::expecting);
        match self.store.commit(self.cells.shard(), commit).await {
            Ok(_) => CellsAnswer::Done,
            Err(CommitError::Stale(_)) => CellsAnswer::Stale,
            Err(CommitError::Unknown(fault)) => CellsAnswer::Unknown(fault),
            Err(CommitError::Engine(fault)) => CellsAnswer::Failed(fault),
            Err(CommitError::Refused(refusal)) => {
                CellsAnswer::Failed(Fault::Fatal(refusal.to_string()))
            }
        }
    }

    /// The entries of an era's feed behind `cursor`.
    pub async fn entries(
        &self,
        era: u64,
        cursor: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let feed = self.feed(era)?;
        self.store.feed(self.cells.shard(), &feed, cursor, most, wait).await
    }

    /// Lets go of the entries of an era's feed below `before`.
    pub async fn trim(&self, era: u64, before: u64) -> Result<(), DbStoreError> {
        let feed = self.feed(era).map_err(|error| DbStoreError::Refused(error.to_string()))?;
        Ok(self.store.trim_feed(self.cells.shard(), &feed, before).await?)
    }

    /// What the feed of `era` has at `index`. `None`: the store failed.
    pub async fn intended_entry(&self, era: u64, index: u64) -> Option<IntendedEntry> {
        let number = index.checked_sub(1)?;
        let read = self.entries(era, &Cursor::at(number), Most::entries(1), Duration::ZERO).await;
        match read {
            Ok(found) => Some(match found.first().filter(|entry| entry.number == number) {
                Some(entry) => IntendedEntry::Present(entry_digest(&entry.entry)),
                None => IntendedEntry::Absent,
            }),
            Err(ReadError::Trimmed { .. }) => Some(IntendedEntry::Trimmed),
            Err(_) => None,
        }
    }

    /// The bytes cells under these keys, of one moment as long as they fit one page.
    pub async fn bytes(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, DbStoreError> {
        let cells: Vec<Cell> = keys.iter().map(|key| Cell::new(Kind::Bytes, key.clone())).collect();
        let values = self.store.get_all(self.cells.shard(), &cells).await?;
        let bytes = |value| match value {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        Ok(values.into_iter().map(bytes).collect())
    }

    /// All bytes cells whose keys begin with `prefix`.
    pub async fn scan(&self, prefix: &Key) -> Result<Vec<(Key, Value)>, DbStoreError> {
        let (mut found, mut after): (Vec<(Key, Value)>, Option<Key>) = (Vec::new(), None);
        loop {
            let page = self.scan_page(prefix, after.as_ref()).await?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after = Some(last.clone());
            found.extend(page);
        }
    }

    /// One page of the bytes cells whose keys begin with `prefix` and come after `after`.
    pub async fn scan_page(
        &self,
        prefix: &Key,
        after: Option<&Key>,
    ) -> Result<Vec<(Key, Value)>, DbStoreError> {
        let limit = consort_kernel::limits::PAGE_ROWS;
        let page = self.store.scan(self.cells.shard(), Kind::Bytes, prefix, after, limit);
        Ok(page.await?)
    }

    fn feed(&self, era: u64) -> Result<Name, ReadError> {
        let feed = self.cells.feed(era);
        feed.map_err(|error| ReadError::Engine(Fault::Fatal(error.to_string())))
    }
}

/// The bytes of the cell of schema files.
pub(crate) fn encode_files(files: &[AppliedFile]) -> Bytes {
    let mut to = FieldWriter::new(FILES_VERSION);
    for (name, hash) in files {
        to.bytes(name.as_bytes()).raw(hash);
    }
    to.finish().into()
}

fn decode_files(bytes: &[u8]) -> Result<Vec<AppliedFile>, DbFormatError> {
    let mut from = FieldReader::new("the schema files of a database", bytes, FILES_VERSION)?;
    let mut files = Vec::new();
    while !from.is_empty() {
        files.push((from.text()?.to_owned(), from.array()?));
    }
    Ok(files)
}

/// The head that a commit found instead of the one that it expects.
fn stale_head(values: Vec<Option<Value>>) -> Option<Box<DbHead>> {
    match values.into_iter().next().flatten() {
        Some(Value::Bytes(bytes)) => DbHead::decode(&bytes).ok().map(Box::new),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_of_the_schema_files_is_read_in_every_release() {
        let files = vec![("1.sql".to_owned(), [7; 32])];
        let mut stored = b"\x01\0\0\0\x051.sql".to_vec();
        stored.extend([7; 32]);
        assert_eq!(encode_files(&files), stored);
        assert_eq!(decode_files(&stored), Ok(files));
        assert!(decode_files(&stored[..9]).is_err());
    }
}
