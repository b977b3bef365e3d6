//! A store whose commits are late at times: as if the process was held up between deciding and writing.
//!
//! The thread is blocked, not the task. So a process that is paused just then goes on, when it wakes, by
//! writing what it decided long ago, before anything else in it could notice how late it is: a zombie.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};

/// One commit in so many is late.
const LATE_ONE_IN: u32 = 4;

/// By how much: with a node's partitions together, a good part of the time some commit is held up.
const LATE_BY: Duration = Duration::from_millis(20);

/// `store`, with late commits.
#[derive(Debug)]
pub struct LateStore(Arc<dyn Store>);

impl LateStore {
    /// Holds up some of the commits of `store`.
    pub fn over(store: &Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(LateStore(Arc::clone(store)))
    }
}

#[async_trait]
impl Store for LateStore {
    fn shards(&self) -> u16 {
        self.0.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        if rand::random_ratio(1, LATE_ONE_IN) {
            std::thread::sleep(LATE_BY);
        }
        self.0.commit(shard, commit).await
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.0.get(shard, cells).await
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        self.0.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.0.members(shard, key, after, limit).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        self.0.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.0.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.0.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.0.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.0.ping().await
    }
}
