//! Waits for the outcomes of pieces: one reader of the outcome feed for each shard, and all requests that wait there.
//!
//! A request registers before its append, and tells the key of its piece after it. The owner may have appended the
//! outcome in between, so the reader keeps every outcome that it reads while a request has yet to tell its key. The
//! reader runs while requests wait and a little longer; the next one goes on where it ended.

mod tail;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_kernel::{Name, Shard, Store};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::stored::{OutcomeEntry, OutcomeKey};
use tail::ShardTail;

/// The outcomes of one collection; all clones are of the same ones.
#[derive(Clone)]
pub struct OutcomeWaiters(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    feed: Name,
    tails: Mutex<BTreeMap<Shard, Arc<ShardTail>>>,
}

/// A request that waits for the outcome of its piece. Dropping it ends the wait.
pub struct OutcomeWait {
    tail: Arc<ShardTail>,
    id: u64,
    runtime: Arc<dyn Runtime>,
    answered: oneshot::Receiver<OutcomeEntry>,
}

impl OutcomeWaiters {
    /// Waiters for the outcomes in this feed.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, feed: Name) -> OutcomeWaiters {
        OutcomeWaiters(Arc::new(Shared { store, runtime, feed, tails: Mutex::default() }))
    }

    /// Begins to wait for an outcome in this shard. To be called before the piece is appended: every outcome that is
    /// written from now on is seen.
    pub fn register(&self, shard: Shard) -> OutcomeWait {
        let tail = Arc::clone(self.0.tails.lock().entry(shard).or_default());
        let (id, answered, must_start) = tail.register();
        if must_start {
            tail::start(Arc::clone(&self.0), shard, Arc::clone(&tail));
        }
        OutcomeWait { tail, id, runtime: Arc::clone(&self.0.runtime), answered }
    }
}

impl OutcomeWait {
    /// The outcome of the piece with this key; none if it does not come in time.
    pub async fn outcome(mut self, key: OutcomeKey, within: Duration) -> Option<OutcomeEntry> {
        if let Some(entry) = self.tail.tell(self.id, key) {
            return Some(entry);
        }
        let sleep = self.runtime.sleep(within);
        tokio::select! {
            biased;
            answered = &mut self.answered => answered.ok(),
            () = sleep => None,
        }
    }
}

impl Drop for OutcomeWait {
    fn drop(&mut self) {
        self.tail.leave(self.id);
    }
}

impl fmt::Debug for OutcomeWaiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeWaiters").field("feed", &self.0.feed).finish_non_exhaustive()
    }
}

impl fmt::Debug for OutcomeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeWait").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
