//! An engine that takes a fixed time for each record that this process folds, whatever the partition: it stands for a
//! sink or a store of which each node gets so much and no more.
//!
//! The log counts the records that are read, and bulk commits pay for them, one after another. So records wait as a
//! batch in hand, as they do where a store is slow, and leases and heartbeats wait for nothing. A worker that waits long
//! for its turn reads its next frames again: each record is charged once in a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_engines::Engine;
use consort_kernel::{
    AppendError, Cell, Commit, CommitError, Committed, Cursor, Expect, Fault, FeedEntry, Frame,
    Key, Kind, Lane, Log, LogEntry, Most, Name, Partition, QueryError, ReadError, Shard, Store,
    Timestamp, Value, Wake,
};
use tokio::sync::Mutex;

/// The environment variable with the cost of a record, in microseconds.
pub const COST_VARIABLE: &str = "CAPPED_COST_MICROS";

/// What the keys of claims begin with.
const CLAIMS: &str = "idempotency-key";

/// Records that one commit pays for at most: it must not wait so long that its worker cannot hand over in time.
const PAID_AT_ONCE: u64 = 50;

/// `engine`, with this cost of each record.
pub fn capped(engine: Engine, cost: Duration) -> Engine {
    let till = Arc::new(Till::new(cost));
    let log = CappedLog { log: Arc::clone(&engine.log), till: Arc::clone(&till) };
    let store = CappedStore { store: Arc::clone(&engine.store), till };
    Engine { log: Arc::new(log), store: Arc::new(store), ..engine }
}

#[derive(Debug)]
struct Till {
    cost: Duration,
    /// Of each partition, the next offset that was not charged.
    uncharged: parking_lot::Mutex<HashMap<Partition, u64>>,
    /// Records that were charged and are not paid for.
    owed: AtomicU64,
    turn: Mutex<()>,
}

impl Till {
    fn new(cost: Duration) -> Till {
        Till { cost, uncharged: Default::default(), owed: AtomicU64::new(0), turn: Mutex::new(()) }
    }

    /// Charges the records of frames that were not read before.
    fn charge(&self, at: &Partition, entries: &[LogEntry]) {
        let Some(last) = entries.last() else { return };
        let mut uncharged = self.uncharged.lock();
        let next = uncharged.entry(at.clone()).or_default();
        let fresh = entries.iter().filter(|entry| entry.offset >= *next);
        let records: usize = fresh.map(|entry| entry.frame.records.len()).sum();
        *next = (*next).max(last.offset + 1);
        self.owed.fetch_add(records as u64, Ordering::Relaxed);
    }

    async fn pay(&self) {
        let _turn = self.turn.lock().await;
        let owed = self.owed.load(Ordering::Relaxed).min(PAID_AT_ONCE);
        if owed > 0 {
            self.owed.fetch_sub(owed, Ordering::Relaxed);
            tokio::time::sleep(self.cost * owed as u32).await;
        }
    }
}

#[derive(Debug)]
struct CappedLog {
    log: Arc<dyn Log>,
    till: Arc<Till>,
}

#[async_trait]
impl Log for CappedLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.log.append(at, frame).await
    }

    async fn append_all(&self, frames: &[(Partition, Frame)]) -> Vec<Result<(), AppendError>> {
        self.log.append_all(frames).await
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let entries = self.log.read(at, after, most, wait).await?;
        self.till.charge(at, &entries);
        Ok(entries)
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.log.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.log.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.log.ping().await
    }
}

/// Whether a post claims its idempotency key: it must not wait for the workers, or clients would slow down by themselves.
fn is_claim(commit: &Commit) -> bool {
    let claims = Key::from([CLAIMS]);
    matches!(commit.expects.first(), Some(Expect::Bytes(key, _)) if key.starts_with(&claims))
}

#[derive(Debug)]
struct CappedStore {
    store: Arc<dyn Store>,
    till: Arc<Till>,
}

#[async_trait]
impl Store for CappedStore {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        if commit.lane == Lane::Bulk && !is_claim(&commit) {
            self.till.pay().await;
        }
        self.store.commit(shard, commit).await
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
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
        self.store.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.store.members(shard, key, after, limit).await
    }

    async fn cardinality(&self, shard: Shard, key: &Key) -> Result<u64, QueryError> {
        self.store.cardinality(shard, key).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        self.store.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.store.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.store.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.store.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.store.ping().await
    }
}

#[cfg(test)]
mod tests {
    use consort_kernel::memory;
    use consort_kernel::{FrameKind, Producer, Records, SystemClock};

    use super::*;

    #[tokio::test]
    async fn frames_that_are_read_twice_are_paid_for_once() {
        let (log, _) = memory::open(1, Arc::new(SystemClock::default()));
        let till = Arc::new(Till::new(Duration::ZERO));
        let log = CappedLog { log: Arc::new(log), till: Arc::clone(&till) };
        let at = |index| Partition::new("rides".parse().unwrap(), index);
        let append = async |index, sequence| {
            let records = Records::one(|buffer| buffer.extend_from_slice(b"{}"));
            let (kind, producer, time) = (FrameKind::Events, Producer(1), Timestamp(0));
            let frame = Frame { kind, producer, sequence, time, records };
            log.append(&at(index), &frame).await.unwrap();
        };
        // How many frames are there, and how many records are charged for them.
        let read = async |index| {
            let (start, most) = (&Cursor::START, Most::default());
            let frames = log.read(&at(index), start, most, Duration::ZERO).await.unwrap();
            (frames.len(), till.owed.load(Ordering::Relaxed))
        };
        for sequence in 0..3 {
            append(0, sequence).await;
        }
        assert_eq!(read(0).await, (3, 3));
        assert_eq!(read(0).await, (3, 3));
        till.pay().await;
        assert_eq!(read(0).await, (3, 0));
        append(0, 3).await;
        assert_eq!(read(0).await, (4, 1));
        append(1, 0).await;
        assert_eq!(read(1).await, (1, 2), "another partition has offsets of its own");
    }
}
