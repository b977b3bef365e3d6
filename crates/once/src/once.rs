//! The handle: what callers hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_cluster::runtime::within;
use consort_kernel::{Entropy, Name, Shard, Store};
use futures::FutureExt;

use crate::answer::{Answer, OnceError, Source};
use crate::fence::Generation;
use crate::figures::{Figures, count};
use crate::inner::Inner;
use crate::key::OnceKey;
use crate::terms::{Computed, Failure, Terms};
use crate::{news, purge};

/// How long a shutdown waits for the leases to be given up. They lapse by themselves otherwise.
const LAND_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of values that a node keeps in memory, unless told otherwise.
pub const CACHE_BYTES: usize = 64 * 1024 * 1024;
/// Requests that may wait for one key on a node, unless told otherwise.
pub const WAITERS_PER_KEY: usize = 10_000;
/// Requests that may wait on a node in all, unless told otherwise.
pub const WAITERS: usize = 50_000;

/// What a handle is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where answers are kept: all handles over one store are one.
    pub store: Arc<dyn Store>,
    /// Where computations run.
    pub runtime: Arc<dyn Runtime>,
    /// Where fences and the moments of early refreshes come from.
    pub entropy: Arc<dyn Entropy>,
    /// Bytes of values that this node keeps in memory; 0 for none.
    pub cache_bytes: usize,
    /// Requests that may wait for one key on this node; more are turned away.
    pub waiters_per_key: usize,
    /// Requests that may wait on this node in all.
    pub waiters: usize,
    /// That nobody else has this store open, so that a lease of another process is one of a dead process.
    pub sole: bool,
}

impl Options {
    /// The usual bounds.
    pub fn new(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Options {
            store,
            runtime,
            entropy,
            cache_bytes: CACHE_BYTES,
            waiters_per_key: WAITERS_PER_KEY,
            waiters: WAITERS,
            sole: false,
        }
    }
}

/// A handle, cheap to clone. One per node: it holds the node's flights and its cache.
#[derive(Clone, Debug)]
pub struct Once {
    inner: Arc<Inner>,
}

impl Once {
    /// A handle over a store.
    pub fn new(options: Options) -> Self {
        Once { inner: Arc::new(Inner::new(options)) }
    }

    /// The first caller computes, all others wait for that answer, on every handle over the same store.
    ///
    /// The computation runs apart from this call: dropping the call ends nothing. It is called once, and
    /// again only if the key was purged, or its lease was lost, before its value could be published.
    pub async fn get<F, C>(
        &self,
        key: &OnceKey,
        terms: &Terms,
        mut compute: F,
    ) -> Result<Answer, OnceError>
    where
        F: FnMut() -> C + Send + 'static,
        C: Future<Output = Result<Computed, Failure>> + Send + 'static,
    {
        let inner = &self.inner;
        if let Some(hit) = inner.hit(key, Some(terms)) {
            if let Some(generation) = hit.refresh {
                inner.refresh(key, terms, generation, Box::new(move || compute().boxed()));
            }
            return Ok(self.counted(hit.answer));
        }
        let compute = Box::new(move || compute().boxed());
        let travelling = inner.travel(key, terms, compute);
        match within(&*inner.options.runtime, terms.wait, travelling).await {
            Some(Ok(answer)) => Ok(self.counted(answer)),
            Some(Err(error)) => {
                if matches!(error, OnceError::Unavailable { .. }) {
                    count(&inner.tallies.unavailable);
                }
                Err(error)
            }
            None => {
                count(&inner.tallies.deadlines);
                Err(OnceError::Deadline)
            }
        }
    }

    /// What is kept, without computing; `None` if nothing usable is there.
    pub async fn peek(&self, key: &OnceKey) -> Result<Option<Answer>, OnceError> {
        Ok(self.inner.kept(key).await?.map(|answer| self.counted(answer)))
    }

    /// Only this generation will do: [`OnceError::Gone`] if it is not there any more. It never computes.
    pub async fn get_generation(
        &self,
        key: &OnceKey,
        generation: &Generation,
    ) -> Result<Answer, OnceError> {
        let here = self.inner.hit(key, None).map(|hit| hit.answer);
        let here = here.filter(|answer| answer.generation == *generation);
        let answer = match here {
            Some(answer) => Some(answer),
            // Another generation in this node's cache may be an older one.
            None => self.inner.stored(key).await?,
        };
        let answer = answer.filter(|answer| answer.generation == *generation);
        answer.map(|answer| self.counted(answer)).ok_or(OnceError::Gone)
    }

    /// Removes what is kept for this key, and fences off whoever computes it. Tells whether there was
    /// anything. Other nodes' caches hear of it at once, and serve it for no more than three seconds
    /// even if they cannot hear.
    pub async fn purge(&self, key: &OnceKey) -> Result<bool, OnceError> {
        let there = purge::purge(&self.inner, key).await?;
        self.inner.tallies.purged.fetch_add(u64::from(there), Ordering::Relaxed);
        Ok(there)
    }

    /// Removes everything in `space` that has `tag`, and refuses what is being computed and turns out to
    /// have it. Tells how many keys had it. If it fails, some may be gone already: purge again.
    pub async fn purge_tag(&self, space: &Name, tag: &str) -> Result<u64, OnceError> {
        let purged = purge::purge_tag(&self.inner, space, tag).await?;
        self.inner.tallies.purged.fetch_add(purged, Ordering::Relaxed);
        Ok(purged)
    }

    /// What was counted.
    pub fn figures(&self) -> Figures {
        self.inner.figures()
    }

    /// Follows the news of purges, which this node's cache needs in order to serve anything, until
    /// `shutdown` resolves. Then it gives up the leases that are held, so that other nodes take over at
    /// once, and tells everybody who waits here. A handle computes nothing after that.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let inner = &self.inner;
        let shards = (0..inner.options.store.shards()).map(Shard);
        let following = shards.map(|shard| news::follow(&inner.desk, &inner.cache, shard));
        tokio::select! {
            biased;
            () = shutdown => {}
            _ = futures::future::join_all(following) => {}
        }
        inner.close();
        let landed = inner.flights.all_landed();
        if within(&*inner.options.runtime, LAND_WITHIN, landed).await.is_none() {
            tracing::warn!("some computations did not end in time; their leases will lapse");
        }
    }

    fn counted(&self, answer: Answer) -> Answer {
        let tallies = &self.inner.tallies;
        match answer.source {
            Source::Node => count(&tallies.from_node),
            Source::Store => count(&tallies.from_store),
            Source::Joined => count(&tallies.joined),
            Source::Computed => {}
        }
        if answer.stale {
            count(&tallies.stale);
        }
        answer
    }
}
