//! A store whose minimum is a read and then a put, as it would be without the operation: to prove that the
//! difference is noticed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::wake::Wake;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    Operation, QueryError, ReadError, Shard, Store, Timestamp, Value,
};

/// The same store, but for its minimum.
#[derive(Debug)]
pub(crate) struct ReadThenPutMin(pub(crate) Arc<dyn Store>);

impl ReadThenPutMin {
    async fn held(&self, shard: Shard, key: &Key) -> Result<Option<Bytes>, CommitError> {
        let cell = Cell::new(Kind::Min, key.clone());
        match self.0.get(shard, &[cell]).await {
            Ok(values) => Ok(values.into_iter().flatten().find_map(|value| match value {
                Value::Min(rank) => Some(rank),
                _ => None,
            })),
            Err(QueryError::Refused(refusal)) => Err(CommitError::Refused(refusal)),
            Err(QueryError::Engine(fault)) => Err(CommitError::Engine(fault)),
        }
    }
}

#[async_trait]
impl Store for ReadThenPutMin {
    fn shards(&self) -> u16 {
        self.0.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        let mut operations = Vec::new();
        for operation in commit.operations {
            match operation {
                Operation::Min { key, rank } => {
                    let held = self.held(shard, &key).await?;
                    let rank = held.map_or(rank.clone(), |held| held.min(rank));
                    // The cell is made anew, so that it holds just this, whatever came between.
                    operations.push(Operation::Delete(Cell::new(Kind::Min, key.clone())));
                    operations.push(Operation::Min { key, rank });
                }
                other => operations.push(other),
            }
        }
        self.0.commit(shard, Commit { operations, ..commit }).await
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
