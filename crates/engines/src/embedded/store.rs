//! `Store` on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::limits::{PAGE_BYTES, PAGE_ROWS, within};
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Lane, Most, Name,
    Operation, QueryError, ReadError, Shard, Store, Timestamp, Topic, Value, Wake, read_or_wait,
    sound,
};
use fjall::Readable;
use tokio::sync::oneshot;

use super::cell::Row;
use super::entries::failed;
use super::queue::{Job, WriterLane};
use super::runs::Merge;
use super::{Shared, entries, rows};

/// Shards in a folder.
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    shards: u16,
    /// Whether commits go by the lane of leases, whatever they ask for.
    leases: bool,
}

impl EmbeddedStore {
    pub(super) fn new(shared: Arc<Shared>, shards: u16) -> Self {
        EmbeddedStore { shared, shards, leases: false }
    }

    /// The same store for the cells of leases: its commits wait for no other commit or append.
    pub fn for_leases(&self) -> Self {
        EmbeddedStore { leases: true, ..self.clone() }
    }

    fn lane(&self, commit: &Commit) -> WriterLane {
        match commit.lane {
            _ if self.leases => WriterLane::Leases,
            Lane::Urgent => WriterLane::Urgent,
            Lane::Bulk => WriterLane::Bulk,
        }
    }

    async fn feed_now(
        &self,
        shard: Shard,
        feed: &Name,
        after: Cursor,
        most: Most,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let feed = feed.clone();
        self.shared
            .read(move |shared| {
                let place = format!("feed {feed} of {shard}");
                let prefix = rows::feed(shard, &feed);
                let Shared { tables, published, .. } = shared;
                let stored =
                    entries::read(tables, published, false, &prefix, &after, most, &place)?;
                sound(stored.into_iter().map(|entry| {
                    let (number, contents) = (entry.number, entry.contents);
                    FeedEntry::from_stored(shard, &feed, number, &entry.digest, contents)
                }))
            })
            .await
    }
}

impl Shared {
    /// What a reader is given of a cell, and how many bytes were read for it besides its row.
    fn value(
        &self,
        snapshot: &fjall::Snapshot,
        kind: Kind,
        row: &Row,
    ) -> fjall::Result<(Value, usize)> {
        if let Some(value) = row.value(kind) {
            return Ok((value, 0));
        }
        let counted = self.counts.of(&self.tables, snapshot, row.contents())?;
        let value = match kind {
            Kind::Distinct => Value::Distinct(counted.members),
            _ => Value::Set(counted.members),
        };
        Ok((value, counted.bytes))
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    async fn commit(&self, shard: Shard, mut commit: Commit) -> Result<Committed, CommitError> {
        shard.validate(self.shards)?;
        commit.validate()?;
        sort_members(&mut commit);
        self.shared.healthy().map_err(CommitError::Engine)?;
        let size = commit.memory();
        let (reply, answer) = oneshot::channel();
        let job = Job::Commit { shard, lane: self.lane(&commit), commit, reply };
        if !self.shared.queue.push(job, size).await {
            return Err(CommitError::Engine(self.shared.ended()));
        }
        // Without an answer the writer ended, perhaps by a panic in the middle of this very job.
        answer.await.unwrap_or_else(|_| Err(CommitError::Unknown(self.shared.ended())))
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        shard.validate(self.shards)?;
        within("the cells of one get", cells.len(), PAGE_ROWS)?;
        let cells = cells.to_vec();
        let answer = self.shared.read(move |shared| {
            let (snapshot, now) = (shared.published.snapshot(), shared.clock.now());
            let read = |cell: &Cell| -> fjall::Result<Option<Value>> {
                let row = snapshot.get(&shared.tables.cells, rows::cell(shard, cell))?;
                let alive = row.map(Row::stored).filter(|row| !row.expired(now));
                let value = alive.map(|row| shared.value(&snapshot, cell.kind, &row));
                Ok(value.transpose()?.map(|(value, _)| value))
            };
            let mut bytes = 0;
            let mut values = Vec::with_capacity(cells.len());
            for cell in &cells {
                let value = read(cell)?;
                bytes += value.as_ref().map_or(0, Value::bytes);
                values.push(value);
                if bytes >= PAGE_BYTES {
                    break;
                }
            }
            fjall::Result::Ok(values)
        });
        answer.await.map_err(|error| failed(&error).into())
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        shard.validate(self.shards)?;
        let start = match after {
            Some(after) if after >= prefix => [after.as_bytes(), &[0]].concat(),
            _ => prefix.as_bytes().to_vec(),
        };
        let start = rows::cell_row(shard, kind, &start);
        let end = rows::cell_row(shard, kind, &prefix.end());
        let limit = limit.min(PAGE_ROWS);
        if start >= end {
            return Ok(Vec::new());
        }
        let answer = self.shared.read(move |shared| -> fjall::Result<Vec<(Key, Value)>> {
            let now = shared.clock.now();
            let mut page = Vec::new();
            let mut bytes = 0;
            let snapshot = shared.published.snapshot();
            for row in snapshot.range(&shared.tables.cells, start..end) {
                let (key, row) = row.into_inner()?;
                let row = Row::stored(row);
                if row.expired(now) {
                    continue;
                }
                let (value, read) = shared.value(&snapshot, kind, &row)?;
                bytes += row.contents().len() + read;
                let key = Bytes::copy_from_slice(&key[rows::KIND_BYTES..]);
                page.push((Key::from_stored(key), value));
                if page.len() >= limit || bytes >= PAGE_BYTES {
                    break;
                }
            }
            Ok(page)
        });
        answer.await.map_err(|error| failed(&error).into())
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        shard.validate(self.shards)?;
        let key = rows::cell_row(shard, Kind::Set, key.as_bytes());
        let after = after.map(<[u8]>::to_vec);
        let limit = limit.min(PAGE_ROWS);
        let answer = self.shared.read(move |shared| -> fjall::Result<Vec<Bytes>> {
            let snapshot = shared.published.snapshot();
            let now = shared.clock.now();
            let row = snapshot.get(&shared.tables.cells, key)?.map(Row::stored);
            let Some(row) = row.filter(|row| !row.expired(now)) else { return Ok(Vec::new()) };
            let mut merge =
                Merge::of_set(&shared.tables, &snapshot, &row.as_set(), after.as_deref())?;
            let mut members = Vec::new();
            while members.len() < limit
                && let Some(member) = merge.next()?
            {
                members.push(Bytes::copy_from_slice(member));
            }
            Ok(members)
        });
        answer.await.map_err(|error| failed(&error).into())
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        shard.validate(self.shards)?;
        let listen = || self.shared.wakes.listen(Topic::feed(shard, feed));
        let read = || self.feed_now(shard, feed, *after, most);
        read_or_wait(wait, Duration::MAX, listen, read).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        shard.validate(self.shards)?;
        Ok(self.shared.trim(false, rows::feed(shard, feed), before).await?)
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        Ok(self.shared.clock.now())
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.shared.wakes.listen(Topic::cell(shard, key))
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.shared.healthy()
    }
}

/// Sorts what is shown to sets, as the writer does before it writes a run: what is sorted already costs it little,
/// and callers are many where the writer is one.
fn sort_members(commit: &mut Commit) {
    for operation in &mut commit.operations {
        if let Operation::Insert { members, .. } | Operation::Distinct { members, .. } = operation {
            members.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use consort_kernel::{Note, SystemClock};

    use super::super::{Durability, open};
    use super::*;

    /// Cells of one commit: so many that a flush often ends while they are applied.
    const CELLS: usize = 3_000;
    const COMMITS: u64 = 100;
    const SHARD: Shard = Shard(0);

    fn cell(place: usize) -> Key {
        Key::from(["cell", &format!("{place:04}")])
    }

    fn commit(number: u64, feed: &Name) -> Commit {
        let value = Bytes::copy_from_slice(&number.to_be_bytes());
        let note = Note { feed: feed.clone(), entry: value.clone() };
        let put = |place| Operation::Put { key: cell(place), value: value.clone() };
        Commit::of([Operation::Append(note)].into_iter().chain((0..CELLS).map(put)))
    }

    fn number(value: &[u8]) -> u64 {
        u64::from_be_bytes(value.try_into().unwrap())
    }

    /// The flushes of any table make rows visible at any moment of a batch, see [`super::super::published`].
    fn flush_until(store: &EmbeddedStore, done: &AtomicBool) {
        let tables = &store.shared.tables;
        while !done.load(Ordering::Relaxed) {
            tables.meta.insert("test", "").unwrap();
            tables.meta.rotate_memtable_and_wait().unwrap();
        }
    }

    /// Reads the feed over and over, and after each entry the cells that were changed with it.
    async fn read_all(store: &EmbeddedStore, feed: &Name) {
        let cells = [0, CELLS / 2, CELLS - 1].map(|place| Cell::new(Kind::Bytes, cell(place)));
        let (mut cursor, mut seen) = (Cursor::START, 0);
        while seen < COMMITS {
            let most = Most::default();
            let entries = store.feed(SHARD, feed, &cursor, most, Duration::ZERO).await.unwrap();
            let Some(last) = entries.last() else { continue };
            (cursor, seen) = (last.cursor(), seen + entries.len() as u64);
            for value in store.get(SHARD, &cells).await.unwrap() {
                let Some(Value::Bytes(value)) = value else { panic!("an entry without its cells") };
                let (entry, value) = (number(&last.entry), number(&value));
                assert!(value >= entry, "entry {entry} was seen with the cells of {value}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_entry_of_a_feed_is_never_seen_before_the_cells_of_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::default());
        let (_, store, _) = open(folder.path(), 1, Durability::Process, clock).unwrap();
        let feed = Name::new("changes").unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let flushing = {
            let (store, done) = (store.clone(), Arc::clone(&done));
            tokio::task::spawn_blocking(move || flush_until(&store, &done))
        };
        let reading = {
            let (store, feed) = (store.clone(), feed.clone());
            tokio::spawn(async move { read_all(&store, &feed).await })
        };
        for number in 1..=COMMITS {
            store.commit(SHARD, commit(number, &feed)).await.unwrap();
        }
        let read = reading.await;
        done.store(true, Ordering::Relaxed);
        flushing.await.unwrap();
        read.unwrap();
    }
}
