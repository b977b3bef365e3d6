//! The handle: what callers hold.

use std::sync::Arc;

use consort_cluster::Runtime;
use consort_kernel::{Entropy, Name, Store};

use crate::answer::{Answer, OnceError};
use crate::fence::Generation;
use crate::figures::Figures;
use crate::key::OnceKey;
use crate::terms::{Computed, Failure, Terms};

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

/// A handle, cheap to clone. One per node.
#[derive(Clone, Debug)]
pub struct Once {
    options: Arc<Options>,
}

impl Once {
    /// A handle over a store.
    pub fn new(options: Options) -> Self {
        Once { options: Arc::new(options) }
    }

    /// The first caller computes, all others wait for that answer.
    pub async fn get<F, C>(
        &self,
        _key: &OnceKey,
        _terms: &Terms,
        _compute: F,
    ) -> Result<Answer, OnceError>
    where
        F: FnMut() -> C + Send + 'static,
        C: Future<Output = Result<Computed, Failure>> + Send + 'static,
    {
        Err(OnceError::unavailable("not there yet"))
    }

    /// What is kept, without computing; `None` if nothing usable is there.
    pub async fn peek(&self, _key: &OnceKey) -> Result<Option<Answer>, OnceError> {
        Ok(None)
    }

    /// Like [`get`](Self::get), but only this generation will do: [`OnceError::Gone`] if it is not there any more.
    pub async fn get_generation(
        &self,
        _key: &OnceKey,
        _generation: &Generation,
    ) -> Result<Answer, OnceError> {
        Err(OnceError::Gone)
    }

    /// Removes what is kept for this key. Tells whether there was anything.
    pub async fn purge(&self, _key: &OnceKey) -> Result<bool, OnceError> {
        Ok(false)
    }

    /// Removes everything in `space` that has `tag`. Tells how many values there were.
    pub async fn purge_tag(&self, _space: &Name, _tag: &str) -> Result<u64, OnceError> {
        Ok(0)
    }

    /// What was counted.
    pub fn figures(&self) -> Figures {
        Figures::default()
    }

    /// Works in the background until `shutdown` resolves.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        shutdown.await;
    }
}
