//! A store whose calls can be stopped for work in between, and whose commits can fail.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    Commit,
}

/// What happens to one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitFault {
    /// It is carried out.
    None,
    /// It is applied, and its outcome is unknown.
    AppliedUnknown,
    /// It is not applied, and its outcome is unknown.
    LostUnknown,
    /// It is not applied, and the store says so.
    Refused,
}

/// The work that comes before a call, and how many calls of its kind come before that one.
type Hook = (Call, usize, BoxFuture<'static, ()>);

pub(crate) struct HookedStore {
    inner: Arc<dyn Store>,
    hooks: Mutex<Vec<Hook>>,
    faults: Mutex<VecDeque<CommitFault>>,
}

impl HookedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(HookedStore { inner, hooks: Mutex::default(), faults: Mutex::default() })
    }

    /// Does `work` before the call of this kind that follows `calls` others.
    pub(crate) fn before(
        &self,
        call: Call,
        calls: usize,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.hooks.lock().push((call, calls, Box::pin(work)));
    }

    /// How many hooks were not reached yet.
    pub(crate) fn waiting(&self) -> usize {
        self.hooks.lock().len()
    }

    /// The next commits meet these faults, and no other ones.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = CommitFault>) {
        *self.faults.lock() = faults.into_iter().collect();
    }

    async fn run_hooks(&self, call: Call) {
        let due: Vec<BoxFuture<'static, ()>> = {
            let mut hooks = self.hooks.lock();
            let (due, mut waiting): (Vec<Hook>, Vec<Hook>) =
                hooks.drain(..).partition(|(kind, calls, _)| *kind == call && *calls == 0);
            for (_, calls, _) in waiting.iter_mut().filter(|(kind, _, _)| *kind == call) {
                *calls -= 1;
            }
            *hooks = waiting;
            due.into_iter().map(|(_, _, work)| work).collect()
        };
        for work in due {
            work.await;
        }
    }
}

impl fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedStore")
    }
}

#[async_trait]
impl Store for HookedStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        self.run_hooks(Call::Commit).await;
        let fault = self.faults.lock().pop_front().unwrap_or(CommitFault::None);
        let told = Fault::Retryable("told to fail".into());
        match fault {
            CommitFault::None => self.inner.commit(shard, commit).await,
            CommitFault::AppliedUnknown => {
                self.inner.commit(shard, commit).await?;
                Err(CommitError::Unknown(told))
            }
            CommitFault::LostUnknown => Err(CommitError::Unknown(told)),
            CommitFault::Refused => Err(CommitError::Engine(told)),
        }
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.run_hooks(Call::Get).await;
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
        self.inner.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
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
        self.inner.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.inner.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.inner.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.inner.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.inner.ping().await
    }
}
