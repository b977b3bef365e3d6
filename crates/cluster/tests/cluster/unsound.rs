//! A store that can be told to misbehave: a decorator around a sound one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};
use tokio::sync::watch;

/// How the store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Sound,
    /// Calls get no answer until the store behaves otherwise; then they are carried out.
    Silent,
    /// Reads are answered; commits wait until the store behaves otherwise.
    Withholding,
    /// Every commit takes so long.
    Slow(Duration),
    /// Calls fail and change nothing.
    Failing,
    /// Every other commit is applied and every other is not; of all of them nobody knows.
    Unknowing,
}

#[derive(Debug)]
pub(crate) struct UnsoundStore {
    inner: Arc<dyn Store>,
    mode: watch::Sender<Mode>,
    commits: AtomicU64,
    scans: AtomicU64,
    /// Whether watches stay silent.
    deaf: bool,
}

impl UnsoundStore {
    pub(crate) fn new(inner: Arc<dyn Store>, deaf: bool) -> Arc<Self> {
        Arc::new(UnsoundStore {
            inner,
            mode: watch::Sender::new(Mode::Sound),
            commits: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            deaf,
        })
    }

    pub(crate) fn behave(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many scans were asked for.
    pub(crate) fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }

    async fn answer(&self) -> Result<Mode, Fault> {
        let mut mode = self.mode.subscribe();
        let mode = *mode.wait_for(|mode| *mode != Mode::Silent).await.expect("the store lives");
        if mode == Mode::Failing {
            return Err(Fault::Retryable("told to fail".into()));
        }
        Ok(mode)
    }
}

#[async_trait]
impl Store for UnsoundStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        let mut mode = self.mode.subscribe();
        let _ = mode.wait_for(|mode| *mode != Mode::Withholding).await;
        let mode = self.answer().await.map_err(CommitError::Engine)?;
        if let Mode::Slow(time) = mode {
            tokio::time::sleep(time).await;
        }
        if mode != Mode::Unknowing {
            return self.inner.commit(shard, commit).await;
        }
        let unknown = CommitError::Unknown(Fault::Retryable("nobody knows".into()));
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Err(unknown);
        }
        match self.inner.commit(shard, commit).await {
            Ok(_) => Err(unknown),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.answer().await?;
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
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.answer().await?;
        self.inner.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.answer().await?;
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
        self.answer().await?;
        self.inner.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.answer().await?;
        self.inner.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.answer().await?;
        self.inner.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        let silent = Key::from(["nobody puts this"]);
        self.inner.watch(shard, if self.deaf { &silent } else { key })
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.answer().await.map(|_| ())
    }
}
