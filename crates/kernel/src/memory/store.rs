//! `Store` in memory: a lock around each shard, held for one step at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::shard::MemoryShard;
use crate::clock::{Clock, Timestamp};
use crate::commit::{Cell, Commit, Committed, Kind, Value};
use crate::cursor::Cursor;
use crate::error::{CommitError, Fault, QueryError, ReadError};
use crate::key::Key;
use crate::limits::{PAGE_BYTES, PAGE_ROWS, within};
use crate::name::Name;
use crate::store::{FeedEntry, Most, Shard, Store};
use crate::wake::{Topic, Wake, Wakes, read_or_wait};

/// Shards in memory.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Vec<Mutex<MemoryShard>>,
    clock: Arc<dyn Clock>,
    wakes: Wakes,
}

/// A shard as it was at one moment.
#[derive(Clone, Debug)]
pub struct ShardImage(MemoryShard);

impl MemoryStore {
    /// An empty store.
    pub fn new(shards: u16, clock: Arc<dyn Clock>) -> Self {
        assert!(shards > 0, "a store has at least one shard");
        MemoryStore {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            clock,
            wakes: Wakes::default(),
        }
    }

    /// What a shard holds now, to be rolled back to. For tests and simulations.
    pub fn image(&self, shard: Shard) -> ShardImage {
        ShardImage(self.shards[usize::from(shard.0)].lock().clone())
    }

    /// Makes a shard what it was, as an engine does that lost what came after. For tests and simulations.
    pub fn roll_back(&self, shard: Shard, image: ShardImage) {
        *self.shards[usize::from(shard.0)].lock() = image.0;
        self.wakes.wake_all();
    }

    /// Wakes its holder when the feed is appended to: a waiting read without tokio's timers, for tests
    /// and simulations.
    pub fn listen(&self, shard: Shard, feed: &Name) -> Wake {
        self.wakes.listen(Topic::feed(shard, feed))
    }

    fn shard(&self, shard: Shard) -> Result<&Mutex<MemoryShard>, crate::Refusal> {
        shard.validate(self.shards())?;
        Ok(&self.shards[usize::from(shard.0)])
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn shards(&self) -> u16 {
        self.shards.len() as u16
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        commit.validate()?;
        let committed = self.shard(shard)?.lock().commit(&commit, self.clock.now())?;
        for topic in commit.topics(shard) {
            self.wakes.wake(topic);
        }
        Ok(committed)
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        within("the cells of one get", cells.len(), PAGE_ROWS)?;
        let held = self.shard(shard)?.lock();
        let now = self.clock.now();
        let mut bytes = 0;
        let mut values = Vec::with_capacity(cells.len());
        for cell in cells {
            let value = held.get(cell, now);
            bytes += value.as_ref().map_or(0, Value::bytes);
            values.push(value);
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(values)
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        let held = self.shard(shard)?.lock();
        Ok(held.scan(kind, prefix, after, limit, self.clock.now()))
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        let held = self.shard(shard)?.lock();
        Ok(held.members(key, after, limit, self.clock.now()))
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let held = self.shard(shard)?;
        let listen = || self.listen(shard, feed);
        let read = async || held.lock().feed(feed, after, most);
        read_or_wait(wait, Duration::MAX, listen, read).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.shard(shard)?.lock().trim_feed(feed, before);
        Ok(())
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        Ok(self.clock.now())
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.wakes.listen(Topic::cell(shard, key))
    }

    async fn ping(&self) -> Result<(), Fault> {
        Ok(())
    }
}
