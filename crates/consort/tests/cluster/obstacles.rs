//! Obstacles for a node: a store that stalls, and threads that are held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::{Ended, Part, Role, Tenure};
use consort_engines::Engine;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};

/// The engine, whose store for everything but leases stalls while this is so.
pub(crate) fn stalling(engine: Engine, stalls: watch::Receiver<bool>) -> Engine {
    let store = StallingStore { store: Arc::clone(&engine.store), stalls };
    Engine { store: Arc::new(store), ..engine }
}

#[derive(Debug)]
struct StallingStore {
    store: Arc<dyn Store>,
    stalls: watch::Receiver<bool>,
}

impl StallingStore {
    async fn pass(&self) {
        let mut stalls = self.stalls.clone();
        // An error says that the test is over.
        let _ = stalls.wait_for(|stalls| !stalls).await;
    }
}

#[async_trait]
impl Store for StallingStore {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        self.pass().await;
        self.store.commit(shard, commit).await
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.pass().await;
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
        self.pass().await;
        self.store.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.pass().await;
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
        self.pass().await;
        self.store.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.pass().await;
        self.store.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.pass().await;
        self.store.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.store.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.pass().await;
        self.store.ping().await
    }
}

/// Roles whose work holds the thread that it runs on, as long as it is told to. With more roles than threads, no
/// thread is left for other work.
#[derive(Debug)]
pub(crate) struct ThreadHolders {
    roles: usize,
    hold: AtomicBool,
    told: Notify,
    held: Mutex<usize>,
    released: Condvar,
}

impl ThreadHolders {
    pub(crate) fn new(roles: usize) -> Arc<ThreadHolders> {
        Arc::new(ThreadHolders {
            roles,
            hold: AtomicBool::new(false),
            told: Notify::new(),
            held: Mutex::new(0),
            released: Condvar::new(),
        })
    }

    pub(crate) fn hold(&self) {
        self.hold.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    pub(crate) fn release(&self) {
        let _held = self.held.lock();
        self.hold.store(false, Ordering::SeqCst);
        self.released.notify_all();
    }

    /// How many threads are held now.
    pub(crate) fn held(&self) -> usize {
        *self.held.lock()
    }

    /// Keeps this very thread, as work does that never yields.
    fn keep_thread(&self) {
        let mut held = self.held.lock();
        *held += 1;
        while self.hold.load(Ordering::SeqCst) {
            self.released.wait(&mut held);
        }
        *held -= 1;
    }
}

/// The roles of [`ThreadHolders`] as a part.
#[derive(Debug)]
pub(crate) struct HoldersPart(pub(crate) Arc<ThreadHolders>);

impl Part for HoldersPart {
    fn roles(&self) -> Vec<Role> {
        (0..self.0.roles).map(|n| Role::new("holder", format!("h/{n}"))).collect()
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        let holders = Arc::clone(&self.0);
        async move {
            tenure.ready();
            tokio::select! {
                () = holders.told.notified() => holders.keep_thread(),
                _ = tenure.ending() => return Ended::Drained,
            }
            tenure.ending().await;
            Ended::Drained
        }
        .boxed()
    }
}
