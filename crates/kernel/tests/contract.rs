//! The memory engine under the contract suites: the model must keep its own rules.

use std::sync::Arc;

use async_trait::async_trait;
use consort_kernel::contract::{LogHarness, StoreHarness};
use consort_kernel::memory::{MemoryLog, MemoryStore};
use consort_kernel::{
    Commit, Cursor, Log, Most, Name, Note, Operation, Partition, Shard, Store, SystemClock,
};

struct Memory {
    log: Arc<MemoryLog>,
    store: Arc<MemoryStore>,
}

fn open() -> Memory {
    let (log, store) = consort_kernel::memory::open(2, Arc::new(SystemClock::default()));
    Memory { log: Arc::new(log), store: Arc::new(store) }
}

#[async_trait]
impl LogHarness for Memory {
    fn log(&self) -> Arc<dyn Log> {
        self.log.clone()
    }

    async fn lose_tail(&self, at: &Partition, from: u64) {
        self.log.lose_tail(at, from);
    }

    async fn corrupt(&self, at: &Partition, offset: u64) {
        self.log.corrupt(at, offset);
    }
}

#[async_trait]
impl StoreHarness for Memory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn elsewhere(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn lose_feed_tail(&self, shard: Shard, feed: &Name, from: u64) {
        let kept =
            self.store.feed(shard, feed, &Cursor::START, Most::default(), Default::default());
        let kept = kept.await.expect("feed");
        let empty = MemoryStore::new(2, Arc::new(SystemClock::default()));
        self.store.roll_back(shard, empty.image(shard));
        for entry in kept.into_iter().filter(|entry| entry.number < from) {
            let note = Note { feed: feed.clone(), entry: entry.entry };
            let commit = Commit::of([Operation::Append(note)]);
            self.store.commit(shard, commit).await.expect("commit");
        }
    }
}

mod memory {
    use super::*;
    consort_kernel::log_suite!(open());
    consort_kernel::store_suite!(open());
}
