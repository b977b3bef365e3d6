//! An ingress without any part: bulk order, keys, and a post's deadline.

use super::*;

use std::collections::BTreeMap;

use async_trait::async_trait;
use consort_cluster::{Appender, FramesInFlight, NotStored, TokioRuntime};
use consort_kernel::memory::{MemoryLog, MemoryStore};
use consort_kernel::{
    AppendError, Cell, Commit, CommitError, Committed, Cursor, Digest, Fault, FeedEntry, Frame,
    Key, Kind, Log, LogEntry, ManualClock, Most, QueryError, ReadError, RecordsMut, SeededEntropy,
    Shard, Timestamp, Value, Wake, memory,
};
use futures::future::join_all;

/// The frames of a partition that fail, by their numbers.
type Failing = BTreeMap<(u32, u64), AppendError>;

/// A log that fails chosen frames for good, and may stand still.
#[derive(Debug)]
struct Faulty {
    log: MemoryLog,
    failing: Failing,
    appended: Mutex<BTreeMap<u32, u64>>,
    stands_still: Mutex<bool>,
}

#[async_trait]
impl Log for Faulty {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        if *self.stands_still.lock() {
            std::future::pending::<()>().await;
        }
        let number = {
            let mut appended = self.appended.lock();
            let next = appended.entry(at.index).or_default();
            *next += 1;
            *next - 1
        };
        match self.failing.get(&(at.index, number)) {
            Some(error) => Err(error.clone()),
            None => self.log.append(at, frame).await,
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.log.read(at, after, most, wait).await
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

/// A store whose next commits are applied, but have an unknown outcome.
#[derive(Debug)]
struct Unsure {
    store: MemoryStore,
    unknown: Mutex<u32>,
    commits: Mutex<u32>,
}

#[async_trait]
impl Store for Unsure {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        *self.commits.lock() += 1;
        let committed = self.store.commit(shard, commit).await?;
        let mut unknown = self.unknown.lock();
        if *unknown > 0 {
            *unknown -= 1;
            return Err(CommitError::Unknown(Fault::Retryable("on purpose".into())));
        }
        Ok(committed)
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
    ) -> Result<Vec<bytes::Bytes>, QueryError> {
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

struct Bed {
    log: Arc<Faulty>,
    store: Arc<Unsure>,
    clock: Arc<ManualClock>,
    ingress: Ingress,
}

const KEYS_FOR: Duration = Duration::from_secs(3600);

fn bed(failing: Failing) -> Bed {
    gated(failing, GateKind::Off)
}

fn gated(failing: Failing, gate: GateKind) -> Bed {
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let (log, store) = memory::open(4, clock.clone());
    let (appended, stands_still) = (Mutex::default(), Mutex::default());
    let log = Arc::new(Faulty { log, failing, appended, stands_still });
    let (unknown, commits) = (Mutex::default(), Mutex::default());
    let store = Arc::new(Unsure { store, unknown, commits });
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let give_up = Duration::from_secs(8);
    let appender =
        Appender::new(log.clone(), store.clone(), runtime.clone(), entropy.clone(), give_up);
    let linger = Duration::ZERO;
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), linger, FramesInFlight::Unbounded);
    let metrics = &mut Metrics::new("0");
    let ingresses = Ingresses::new(IngressOptions {
        collector,
        store: store.clone(),
        runtime,
        entropy,
        metrics,
    });
    let ingress = ingresses.open(IngressSpec {
        stream: "pieces".parse().unwrap(),
        partitions: 2,
        gate,
        keys_for: KEYS_FOR,
    });
    Bed { log, store, clock, ingress }
}

impl Bed {
    async fn stored(&self, index: u32) -> Vec<u8> {
        let (mut numbers, mut cursor) = (Vec::new(), Cursor::START);
        loop {
            let at = Partition::new("pieces".parse().unwrap(), index);
            let page = self.log.read(&at, &cursor, Most::default(), Duration::ZERO).await.unwrap();
            let Some(last) = page.last() else { return numbers };
            cursor = last.cursor();
            for entry in page {
                numbers.extend(entry.frame.records.iter().map(|record| record[0]));
            }
        }
    }

    /// Posts an event with a key.
    async fn keyed(&self, key: &str, event: &[u8]) -> Result<(), IngressError> {
        let keyed = Some(Keyed { key, digest: Digest::of(event) });
        let deadline = Instant::now() + POST_WITHIN;
        self.ingress.append(0, [event].into(), keyed, deadline).await.map(|_| ())
    }

    /// Lets the store's time and the local one go on together.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::sleep(time).await;
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_failed_frame_of_a_bulk_request_nothing_of_its_partition_is_stored() {
    let fatal = || Fault::Fatal("on purpose".into());
    for error in [AppendError::Engine(fatal()), AppendError::Unknown(fatal())] {
        let bed = bed(BTreeMap::from([((0, 1), error.clone())]));
        let mut bulk = bed.ingress.bulk();
        // A frame of partition 0 holds one of its records. All three are queued before the first is answered.
        for number in 0..3 {
            bulk.push(0, &[&[number][..], &vec![0; 2_097_000]].concat());
            bulk.push(1, &[number]);
            assert!(bulk.is_full());
            bulk.flush().await;
        }
        let outcome = bulk.finish().await;
        assert_eq!(bed.stored(0).await, [0], "{error:?}");
        assert_eq!(bed.stored(1).await, [0, 1, 2], "the other partition is unaffected");
        assert_eq!(outcome.stored, 4);
        assert_eq!(outcome.failure, Some(BulkFailure::Append(error.clone().into())));
        assert_eq!(bed.ingress.metrics().accepted.get(), 4);
        assert_eq!(bed.ingress.metrics().unappended.get(), 2);
        // Other requests go on.
        let deadline = Instant::now() + POST_WITHIN;
        assert!(bed.ingress.append(0, [[9]].into(), None, deadline).await.is_ok());
        assert_eq!(bed.stored(0).await.last(), Some(&9));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_its_first_event_and_costs_one_commit() {
    let bed = bed(Failing::default());
    bed.keyed("a", b"one").await.unwrap();
    assert_eq!(*bed.store.commits.lock(), 1);
    bed.keyed("a", b"one").await.unwrap();
    assert_eq!(*bed.store.commits.lock(), 2, "a repeat costs no more");
    assert_eq!(bed.keyed("a", b"two").await, Err(ClaimError::Reused.into()));
    bed.keyed("b", b"two").await.unwrap();
    assert_eq!(bed.stored(0).await, b"oot", "the refused event is not stored");
    assert_eq!(bed.ingress.metrics().rejected.get(), 1);
    let commits = *bed.store.commits.lock();
    let deadline = Instant::now() + POST_WITHIN;
    bed.ingress.append(0, [[9]].into(), None, deadline).await.unwrap();
    assert_eq!(*bed.store.commits.lock(), commits, "a post without a key needs no commit");
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_with_its_event_although_the_append_failed() {
    let fault = AppendError::Engine(Fault::Fatal("on purpose".into()));
    let bed = bed(BTreeMap::from([((0, 0), fault)]));
    let failed = bed.keyed("a", b"one").await;
    assert!(matches!(failed, Err(IngressError::Append(SubmitError::NotStored(_)))), "{failed:?}");
    assert_eq!(bed.keyed("a", b"two").await, Err(ClaimError::Reused.into()));
    assert_eq!(bed.stored(0).await, b"", "no event was accepted with the key");
    bed.pass(Duration::from_secs(60)).await;
    bed.keyed("a", b"one").await.unwrap();
    assert_eq!(bed.stored(0).await, b"o");
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_an_unknown_outcome_is_repeated_until_it_is_definite() {
    let bed = bed(Failing::default());
    *bed.store.unknown.lock() = 3;
    bed.keyed("a", b"one").await.unwrap();
    // It stays unknown for longer than a post may take.
    *bed.store.unknown.lock() = u32::MAX;
    let began = Instant::now();
    let repeated = bed.keyed("a", b"one").await;
    assert!(repeated.is_ok(), "what is stored needs no commit: {repeated:?}");
    assert_eq!(bed.keyed("a", b"two").await, Err(ClaimError::Reused.into()));
    assert!(began.elapsed() < POST_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_free_again_when_workers_have_forgotten_it_and_not_before() {
    let bed = bed(Failing::default());
    bed.keyed("a", b"one").await.unwrap();
    // The append of a repeat may be the first that succeeded: the claim is renewed with it.
    bed.pass(Duration::from_secs(1800)).await;
    bed.keyed("a", b"one").await.unwrap();
    bed.pass(KEYS_FOR).await;
    assert_eq!(bed.keyed("a", b"two").await, Err(ClaimError::Reused.into()));
    bed.pass(Duration::from_secs(61)).await;
    bed.keyed("a", b"two").await.unwrap();
    assert_eq!(bed.keyed("a", b"one").await, Err(ClaimError::Reused.into()));
}

#[tokio::test(start_paused = true)]
async fn what_the_gate_refuses_or_delays_counts_as_demand() {
    let bed = gated(Failing::new(), GateKind::Adaptive);
    let (demand, deadline) = (bed.ingress.demand(), Instant::now() + POST_WITHIN);
    let records = |count: usize| {
        let mut records = RecordsMut::default();
        (0..count).for_each(|_| records.push(b"{}"));
        records.freeze()
    };
    assert!(bed.ingress.append(0, records(3), None, deadline).await.is_ok());
    assert_eq!((demand.refused(), demand.delayed()), (0, 0));
    // Nothing is applied: the gate paces posts, delays some and refuses the rest.
    for seconds in 1..=20 {
        bed.ingress.gate().lag(Duration::from_secs(3 + seconds));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let soon = Instant::now() + POST_WITHIN;
    let posts = (0..100).map(|_| bed.ingress.append(0, records(5), None, soon));
    let outcomes = join_all(posts).await;
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
    assert!(refused > 0 && refused < 100, "{refused}");
    assert_eq!(demand.refused(), 5 * refused);
    assert!(demand.delayed() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_a_repeat_leaves_as_it_is_outlives_what_workers_know_of_the_repeat() {
    let bed = bed(Failing::default());
    bed.keyed("a", b"one").await.unwrap();
    bed.pass(Duration::from_secs(29)).await;
    bed.keyed("a", b"one").await.unwrap();
    bed.pass(KEYS_FOR + Duration::from_secs(20)).await;
    assert_eq!(bed.keyed("a", b"two").await, Err(ClaimError::Reused.into()));
    bed.pass(Duration::from_secs(12)).await;
    bed.keyed("a", b"two").await.unwrap();
    // A later repeat renews it.
    bed.pass(Duration::from_secs(31)).await;
    bed.keyed("a", b"two").await.unwrap();
    bed.pass(KEYS_FOR + Duration::from_secs(55)).await;
    assert_eq!(bed.keyed("a", b"one").await, Err(ClaimError::Reused.into()));
}

#[tokio::test(start_paused = true)]
async fn a_post_behind_a_log_that_stands_still_hears_at_its_deadline_that_it_is_not_stored() {
    let bed = bed(Failing::default());
    *bed.log.stands_still.lock() = true;
    let (began, deadline) = (Instant::now(), Instant::now() + POST_WITHIN);
    // More than a frame holds: the second waits behind the first.
    let append = |number: u8| {
        let record = [vec![number], vec![0; 2_097_000]].concat();
        bed.ingress.append(0, [record].into(), None, deadline)
    };
    let (sent, queued) = tokio::join!(append(1), append(2));
    assert!(matches!(sent, Err(IngressError::Append(SubmitError::Unknown(_)))), "{sent:?}");
    assert_eq!(queued, Err(SubmitError::from(NotStored::Late).into()));
    assert!(began.elapsed() < POST_WITHIN + Duration::from_secs(1));
}
