//! The store as one node sees it: the memory engine, far away.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::memory::MemoryStore;
use consort_kernel::wake::Wake;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Value,
};
use futures::FutureExt;

use crate::faults::{FaultKind, Faults};
use crate::link::Link;
use crate::runtime::NodeRuntime;
use crate::witness::Witness;

/// One node's way to the store that all share.
#[derive(Debug)]
pub struct SimStore {
    inner: Arc<MemoryStore>,
    link: Link,
    witness: Option<Arc<Witness>>,
}

impl SimStore {
    /// The store as the node of `runtime` sees it in this life.
    pub fn new(inner: Arc<MemoryStore>, runtime: NodeRuntime, faults: Arc<Faults>) -> Self {
        SimStore { inner, link: Link::new(runtime, faults), witness: None }
    }

    /// The same store; `witness` sees every commit at the moment it is applied.
    pub fn seen_by(mut self, witness: Arc<Witness>) -> Self {
        self.witness = Some(witness);
        self
    }
}

#[async_trait]
impl Store for SimStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        // A refusal is the caller's mistake: every engine tells it before anything is sent.
        commit.validate()?;
        shard.validate(self.shards())?;
        let what = format!("commit of {} to {shard}", commit.operations.len());
        let (inner, witness) = (Arc::clone(&self.inner), self.witness.clone());
        let effect = async move {
            let changes = witness.map(|witness| (witness, Witness::changes(&commit)));
            let committed = inner.commit(shard, commit).await?;
            if let Some((witness, changes)) = changes {
                witness.saw(shard, changes);
            }
            Ok(committed)
        };
        self.link.write(&what, effect.boxed()).await
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        let what = format!("get of {} from {shard}", cells.len());
        self.link.read(&what, FaultKind::ReadFails, self.inner.get(shard, cells)).await
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        let look = self.inner.scan(shard, kind, prefix, after, limit);
        self.link.read(&format!("scan of {shard}"), FaultKind::ReadFails, look).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        let look = self.inner.members(shard, key, after, limit);
        self.link.read(&format!("members in {shard}"), FaultKind::ReadFails, look).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let what = format!("feed {feed} of {shard} from {}", after.next);
        let listen = || self.inner.listen(shard, feed);
        let look = || self.inner.feed(shard, feed, after, most, Duration::ZERO);
        let look = self.link.look_for(wait, listen, look);
        self.link.read(&what, FaultKind::ReadFails, look).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        let what = format!("trim of feed {feed} of {shard} before {before}");
        let trim = self.inner.trim_feed(shard, feed, before);
        self.link.read(&what, FaultKind::ReadFails, trim).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.link.read("now", FaultKind::ClockFails, self.inner.now()).await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.inner.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.link.read("ping", FaultKind::ReadFails, self.inner.ping()).await
    }
}
