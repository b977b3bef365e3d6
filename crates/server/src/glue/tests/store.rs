//! A store that does not answer, or changes while it is read, where a test says so.

use std::sync::atomic::{AtomicBool, Ordering};

use consort_kernel::memory::MemoryStore;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, FeedEntry, Key, Kind, QueryError, Shard, Timestamp,
    Value, Wake,
};

use super::*;

/// The memory engine's store.
#[derive(Debug)]
pub(super) struct WatchedStore {
    store: MemoryStore,
    fails: AtomicBool,
    /// Committed before the next scan is answered.
    before_scan: Mutex<Option<(Shard, Commit)>>,
}

impl WatchedStore {
    pub(super) fn new(store: MemoryStore) -> WatchedStore {
        WatchedStore { store, fails: AtomicBool::new(false), before_scan: Mutex::default() }
    }

    /// No read is answered from now on.
    pub(super) fn fail(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    pub(super) fn commit_before_scan(&self, shard: Shard, commit: Commit) {
        *self.before_scan.lock() = Some((shard, commit));
    }

    fn is_up(&self) -> Result<(), Fault> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(Fault::Retryable("on purpose".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Store for WatchedStore {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        self.is_up().map_err(CommitError::Engine)?;
        self.store.commit(shard, commit).await
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.is_up().map_err(QueryError::Engine)?;
        self.store.get(shard, cells).await
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        self.is_up().map_err(QueryError::Engine)?;
        let change = self.before_scan.lock().take();
        if let Some((shard, commit)) = change {
            self.store.commit(shard, commit).await.expect("the change is committed");
        }
        self.store.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<bytes::Bytes>, QueryError> {
        self.store.members(shard, key, after, limit).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        self.is_up()?;
        self.store.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.store.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.store.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.store.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.is_up()
    }
}
