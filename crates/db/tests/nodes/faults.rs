//! A store that fails as it is told: the next commits that append to a feed get these answers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    Operation, QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};
use parking_lot::Mutex;

/// What happens to one commit of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupFault {
    /// It is applied, and its outcome is unknown.
    AppliedUnknown,
    /// It is not applied, and its outcome is unknown.
    LostUnknown,
    /// It is not applied, and the store says so.
    Refused,
    /// It is applied, and the answer comes late.
    Slow(Duration),
}

/// A store with faults. One for each node.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<GroupFault>>,
    is_cut_off: AtomicBool,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(FaultyStore {
            inner,
            faults: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
        })
    }

    /// The next commits of groups meet these faults.
    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = GroupFault>) {
        self.faults.lock().extend(faults);
    }

    /// How many planned faults were not met yet.
    pub(crate) fn planned(&self) -> usize {
        self.faults.lock().len()
    }

    /// From now on the node reaches the store, or does not.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), Fault> {
        match self.is_cut_off.load(Ordering::SeqCst) {
            true => Err(Fault::Retryable("the store is out of reach".into())),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

fn unknown() -> CommitError {
    CommitError::Unknown(Fault::Retryable("no answer came".into()))
}

#[async_trait]
impl Store for FaultyStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        self.check().map_err(CommitError::Engine)?;
        let is_group = commit.operations.iter().any(|o| matches!(o, Operation::Append(_)));
        let fault = is_group.then(|| self.faults.lock().pop_front()).flatten();
        match fault {
            None => self.inner.commit(shard, commit).await,
            Some(GroupFault::AppliedUnknown) => {
                self.inner.commit(shard, commit).await?;
                Err(unknown())
            }
            Some(GroupFault::LostUnknown) => Err(unknown()),
            Some(GroupFault::Refused) => {
                Err(CommitError::Engine(Fault::Retryable("the store is full".into())))
            }
            Some(GroupFault::Slow(time)) => {
                let done = self.inner.commit(shard, commit).await;
                tokio::time::sleep(time).await;
                done
            }
        }
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.check()?;
        self.inner.get(shard, cells).await
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        self.check()?;
        self.inner.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.check()?;
        self.inner.members(shard, key, after, limit).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        self.check()?;
        self.inner.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.check()?;
        self.inner.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.check()?;
        self.inner.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.inner.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.check()
    }
}
