//! What the tests stand on: nodes over one memory store whose time is tokio's, and a store that fails
//! when it is told to.

#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::TokioRuntime;
use consort_kernel::memory::MemoryStore;
use consort_kernel::*;
use consort_once::{Answer, Computed, Failure, Once, OnceError, OnceKey, Options, Terms};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// Tokio's clock as the store's: paused time moves both.
#[derive(Debug)]
pub struct TokioClock(pub Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.0.elapsed().as_millis() as u64)
    }
}

/// What happens to the next commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Applied, but nobody learns it.
    AppliedUnknown,
    /// Not applied, and nobody learns it.
    LostUnknown,
    /// The store says that it is full.
    Full,
    /// As usual.
    Fine,
}

/// A store with faults, as one node sees it.
#[derive(Debug)]
pub struct Faulty {
    pub inner: Arc<MemoryStore>,
    pub fates: Mutex<Vec<Fate>>,
    pub down: Mutex<bool>,
    pub feeds_down: Mutex<bool>,
    pub gets: AtomicUsize,
    pub commits: AtomicUsize,
    /// A `get` that takes a permit after it read, if it was told to.
    pub slow_gets: Mutex<Option<Arc<Semaphore>>>,
}

impl Faulty {
    pub fn over(inner: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Faulty {
            inner,
            fates: Mutex::default(),
            down: Mutex::new(false),
            feeds_down: Mutex::new(false),
            gets: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            slow_gets: Mutex::default(),
        })
    }

    pub fn next(&self, fates: &[Fate]) {
        *self.fates.lock() = fates.iter().rev().copied().collect();
    }

    pub fn set_down(&self, down: bool) {
        *self.down.lock() = down;
    }

    pub fn set_feeds_down(&self, down: bool) {
        *self.feeds_down.lock() = down;
    }

    fn up(&self) -> Result<(), Fault> {
        match *self.down.lock() {
            true => Err(Fault::Retryable("the store is down".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        self.up().map_err(CommitError::Engine)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        let unknown = || CommitError::Unknown(Fault::Retryable("no answer in time".into()));
        let fate = self.fates.lock().pop().unwrap_or(Fate::Fine);
        match fate {
            Fate::Fine => self.inner.commit(shard, commit).await,
            Fate::AppliedUnknown => {
                self.inner.commit(shard, commit).await?;
                Err(unknown())
            }
            Fate::LostUnknown => Err(unknown()),
            Fate::Full => Err(CommitError::Engine(Fault::Retryable("out of memory".into()))),
        }
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.up()?;
        self.gets.fetch_add(1, Ordering::Relaxed);
        let values = self.inner.get(shard, cells).await;
        let slow = self.slow_gets.lock().clone();
        if let Some(slow) = slow {
            slow.acquire().await.unwrap().forget();
        }
        values
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        self.up()?;
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
        self.up()?;
        let entries = self.inner.feed(shard, feed, after, most, wait).await;
        if *self.feeds_down.lock() {
            return Err(Fault::Retryable("the feed is down".into()).into());
        }
        entries
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.inner.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.up()?;
        self.inner.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.inner.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.up()
    }
}

/// Nodes over one store.
pub struct Bed {
    pub memory: Arc<MemoryStore>,
    pub stores: Vec<Arc<Faulty>>,
    pub nodes: Vec<Once>,
}

impl Bed {
    pub fn new(nodes: usize) -> Self {
        Bed::with(nodes, |_| ())
    }

    pub fn with(nodes: usize, change: impl Fn(&mut Options)) -> Self {
        let memory = Arc::new(MemoryStore::new(4, Arc::new(TokioClock(Instant::now()))));
        let stores: Vec<_> = (0..nodes).map(|_| Faulty::over(memory.clone())).collect();
        let make = |(n, store): (usize, &Arc<Faulty>)| {
            let entropy = Arc::new(SeededEntropy::new(n as u64 + 1));
            let mut options = Options::new(store.clone(), TokioRuntime::current(), entropy);
            change(&mut options);
            Once::new(options)
        };
        let nodes = stores.iter().enumerate().map(make).collect();
        Bed { memory, stores, nodes }
    }

    /// Runs node `n` in the background; the sender shuts it down.
    pub fn run(&self, n: usize) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let (stop, stopped) = oneshot::channel();
        let node = self.nodes[n].clone();
        let running = tokio::spawn(async move {
            node.run(async move {
                let _ = stopped.await;
            })
            .await;
        });
        (stop, running)
    }
}

/// A computation that counts its runs, and ends when it is let.
#[derive(Clone, Debug)]
pub struct Work {
    pub runs: Arc<AtomicUsize>,
    pub gate: Arc<Semaphore>,
    pub make: fn(usize) -> Result<Computed, Failure>,
}

impl Work {
    /// Ends at once with "value N" of its run N, from 1.
    pub fn free() -> Self {
        let work = Work::gated();
        work.open();
        work
    }

    /// Ends when it is let.
    pub fn gated() -> Self {
        Work { runs: Arc::default(), gate: Arc::new(Semaphore::new(0)), make: plain }
    }

    pub fn giving(self, make: fn(usize) -> Result<Computed, Failure>) -> Self {
        Work { make, ..self }
    }

    /// Lets all runs end, those to come as well.
    pub fn open(&self) {
        self.gate.add_permits(1_000_000);
    }

    /// Lets one run end.
    pub fn let_one(&self) {
        self.gate.add_permits(1);
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub async fn started(&self, runs: usize) {
        eventually(|| self.runs() >= runs).await;
    }

    pub async fn get(&self, node: &Once, terms: &Terms) -> Result<Answer, OnceError> {
        self.get_key(node, &key("k"), terms).await
    }

    pub async fn get_key(
        &self,
        node: &Once,
        key: &OnceKey,
        terms: &Terms,
    ) -> Result<Answer, OnceError> {
        let work = self.clone();
        node.get(key, terms, move || {
            let work = work.clone();
            async move {
                let run = work.runs.fetch_add(1, Ordering::SeqCst) + 1;
                work.gate.acquire().await.unwrap().forget();
                (work.make)(run)
            }
        })
        .await
    }

    /// The same as a task.
    pub fn ask(
        &self,
        node: &Once,
        terms: &Terms,
    ) -> tokio::task::JoinHandle<Result<Answer, OnceError>> {
        let (work, node, terms) = (self.clone(), node.clone(), terms.clone());
        tokio::spawn(async move { work.get(&node, &terms).await })
    }
}

fn plain(run: usize) -> Result<Computed, Failure> {
    Ok(Computed::new(format!("value {run}")))
}

pub fn space() -> Name {
    Name::new("items").unwrap()
}

pub fn key(part: &str) -> OnceKey {
    OnceKey::new(&space(), &[part.as_bytes()])
}

/// Terms without chance.
pub fn terms() -> Terms {
    Terms { refresh_early: false, ..Terms::default() }
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Waits for a condition, in tokio's time, which passes at once while everybody waits.
pub async fn eventually(mut condition: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(millis(1)).await;
    }
    panic!("it did not come to pass");
}

pub fn text(answer: &Result<Answer, OnceError>) -> String {
    match answer {
        Ok(answer) => String::from_utf8_lossy(&answer.value).into_owned(),
        Err(error) => format!("{error}"),
    }
}
