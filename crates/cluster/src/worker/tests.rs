//! The worker on the memory engine: one partition, one owner at a time, and what it must never get wrong.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::memory::{MemoryLog, MemoryStore};
use consort_kernel::{
    AppendError, Cell, Commit, Cursor, Frame, FrameKind, Key, Kind, Log, ManualClock, Most,
    Operation, Partition, Producer, SeededEntropy, Shard, Store, Timestamp, Value, memory,
    shard_of,
};

use super::*;
use crate::role::Role;
use crate::runtime::{Task, TokioRuntime};
use crate::tenure::{Gauge, TenureControl};

const SHARDS: u16 = 4;

/// Counts records by their text, and keeps `id=…` apart.
#[derive(Debug)]
struct Tally {
    ids: bool,
    tick: Option<Duration>,
    awaited: bool,
}

impl Plan for Tally {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        let key = Key::of(["count".into(), (&record.bytes[..]).into()]);
        sheet.add(shard_of(&key, SHARDS), key, 1, None);
    }

    fn ids_for(&self) -> Option<Duration> {
        self.ids.then_some(Duration::from_secs(60))
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        Some(record.bytes.clone())
    }

    fn tick_after(&self) -> Option<Duration> {
        self.tick
    }

    fn awaited(&self) -> Option<(Shard, Key)> {
        self.awaited.then(awaited)
    }
}

/// Where the tests say how far the watermark is awaited.
fn awaited() -> (Shard, Key) {
    (Shard(0), Key::from(["awaited"]))
}

struct Bed {
    log: Arc<MemoryLog>,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    partition: Partition,
    plan: Arc<Tally>,
}

struct Running {
    control: TenureControl,
    task: Task<Ended>,
}

impl Bed {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (log, store) = memory::open(SHARDS, clock.clone());
        let partition = Partition::new("s".parse().unwrap(), 0);
        let plan = Arc::new(Tally { ids: false, tick: None, awaited: false });
        Bed { log: Arc::new(log), store: Arc::new(store), clock, partition, plan }
    }

    fn start(&self) -> Running {
        self.start_on(self.log.clone())
    }

    fn start_on(&self, log: Arc<dyn Log>) -> Running {
        let options = self.options(log);
        let runtime = Arc::clone(&options.runtime);
        let (tenure, control) = Tenure::new(Role::new("worker", "s/0"), 1);
        Running { control, task: Task::spawn(&*runtime, "worker", run(options, tenure)) }
    }

    fn options(&self, log: Arc<dyn Log>) -> Options {
        let runtime: Arc<dyn Runtime> = TokioRuntime::current();
        let store: Arc<dyn Store> = self.store.clone();
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(7));
        let give_up = Duration::from_secs(1);
        let appender =
            Appender::new(log.clone(), store.clone(), runtime.clone(), entropy.clone(), give_up);
        Options {
            log,
            store,
            runtime,
            entropy,
            partition: self.partition.clone(),
            pipeline: "all".parse().unwrap(),
            plan: self.plan.clone(),
            appender: Arc::new(appender),
            batch: Most::entries(3),
            linger: Duration::ZERO,
            yield_after: Duration::from_secs(10),
        }
    }

    async fn append(&self, producer: u64, sequence: u64, records: &[&'static str]) {
        let frame = Frame {
            kind: FrameKind::Events,
            producer: Producer(producer),
            sequence,
            time: self.store.now().await.unwrap(),
            records: records.iter().map(|text| Bytes::from_static(text.as_bytes())).collect(),
        };
        self.log.append(&self.partition, &frame).await.unwrap();
    }

    async fn count(&self, text: &str) -> i64 {
        let key = Key::of(["count".into(), text.as_bytes().into()]);
        let shard = shard_of(&key, SHARDS);
        let cells = self.store.get(shard, &[Cell::new(Kind::Counter, key)]).await.unwrap();
        match cells[0] {
            Some(Value::Counter(number)) => number,
            _ => 0,
        }
    }

    async fn checkpoint(&self) -> Checkpoint {
        let cells = Cells::new(&"all".parse().unwrap(), &self.partition, SHARDS);
        cells.read_checkpoint(&*self.store).await.unwrap()
    }

    /// Waits until everything before `offset` is applied.
    async fn applied(&self, offset: u64) {
        while self.checkpoint().await.stand.next < offset {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Running {
    async fn gauge(&self, wanted: impl Fn(&Gauge) -> bool) -> Gauge {
        loop {
            let gauge = self.control.gauge();
            if wanted(&gauge) {
                return gauge;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn drain(self) {
        self.control.end();
        assert_eq!(self.task.await, Ok(Ended::Drained));
    }
}

#[tokio::test(start_paused = true)]
async fn frames_are_folded_in_order_and_repeats_dropped() {
    let bed = Bed::new();
    let worker = bed.start();
    for sequence in 0..10 {
        bed.append(1, sequence, &["a", "b", "a"]).await;
        bed.append(1, sequence, &["a", "b", "a"]).await;
        bed.append(2, sequence, &["b"]).await;
    }
    bed.applied(30).await;
    assert_eq!((bed.count("a").await, bed.count("b").await), (20, 20));
    worker.gauge(|gauge| gauge.applied == 40 && gauge.lag == Some(Duration::ZERO)).await;
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_anywhere_is_continued_by_the_next() {
    let bed = Bed::new();
    for sequence in 0..200 {
        bed.append(1, sequence, &["a", "b", "c", "d"]).await;
        if sequence % 7 == 0 {
            let worker = bed.start();
            for _ in 0..sequence % 13 {
                tokio::task::yield_now().await;
            }
            drop(worker);
        }
    }
    let worker = bed.start();
    bed.applied(200).await;
    for text in ["a", "b", "c", "d"] {
        assert_eq!(bed.count(text).await, 200, "{text}");
    }
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn two_owners_at_once_are_slow_and_never_wrong() {
    let bed = Bed::new();
    let workers = [bed.start(), bed.start(), bed.start()];
    for sequence in 0..300 {
        bed.append(1, sequence, &["a", "b", "c"]).await;
        if sequence % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    bed.applied(300).await;
    for text in ["a", "b", "c"] {
        assert_eq!(bed.count(text).await, 300, "{text}");
    }
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_stops_the_partition_until_an_operator_decides() {
    let bed = Bed::new();
    let worker = bed.start();
    for sequence in 0..6 {
        bed.append(1, sequence, &["a"]).await;
    }
    bed.applied(6).await;
    bed.log.lose_tail(&bed.partition, 4);
    for sequence in 6..12 {
        bed.append(1, sequence, &["b"]).await;
    }
    let gauge = worker.gauge(|gauge| gauge.stopped.is_some()).await;
    assert!(gauge.stopped.is_some_and(|reason| reason.contains("entry 5 was read as")));
    assert_eq!(bed.count("b").await, 0);

    // The next owner finds the same.
    worker.drain().await;
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;

    let (store, log): (&dyn Store, &dyn Log) = (&*bed.store, &*bed.log);
    let pipeline = "all".parse().unwrap();
    let decided = resolve(store, log, &bed.partition, &pipeline, Resume::Offset(0)).await.unwrap();
    assert_eq!((decided.stand.era, decided.stand.next), (1, 0));
    worker.gauge(|gauge| gauge.stopped.is_none()).await;
    bed.applied(10).await;
    // What was applied before is known by its producer and sequence; what took its place is applied.
    assert_eq!((bed.count("a").await, bed.count("b").await), (6, 6));
    // Nothing is lost any more: the decision said again must not skip what came since.
    for from in [Resume::First, Resume::End] {
        let again = resolve(store, log, &bed.partition, &pipeline, from).await;
        assert_eq!(again, Err(ResolveError::AtWork(bed.partition.clone())));
    }
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_was_applied_but_not_checkpointed_is_missed_too() {
    let bed = Bed::new();
    for sequence in 0..3 {
        bed.append(1, sequence, &["a"]).await;
    }
    let home = Cells::new(&"all".parse().unwrap(), &bed.partition, SHARDS).home();
    let image = bed.store.image(home);
    let worker = bed.start();
    bed.applied(3).await;
    worker.drain().await;
    // As if it had crashed between the shards and the checkpoint, and the log then lost what was applied.
    let counted = shard_of(&Key::of(["count".into(), b"a"[..].into()]), SHARDS);
    assert_ne!(counted, home, "choose another text");
    bed.store.roll_back(home, image);
    bed.log.lose_tail(&bed.partition, 1);
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_is_missed_although_a_shard_was_rolled_back_to_before_it() {
    let bed = Bed::new();
    let counted = shard_of(&Key::of(["count".into(), b"a"[..].into()]), SHARDS);
    let image = bed.store.image(counted);
    let worker = bed.start();
    for sequence in 0..6 {
        bed.append(1, sequence, &["a"]).await;
    }
    bed.applied(6).await;
    worker.drain().await;
    // The worker begins at the shard's mark, where the log is sound; only the checkpoint knows of the end.
    bed.store.roll_back(counted, image);
    bed.log.lose_tail(&bed.partition, 4);
    for sequence in 6..12 {
        bed.append(1, sequence, &["b"]).await;
    }
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;
    assert_eq!(bed.count("b").await, 0);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_cut_off_or_undone_stops_the_partition_until_it_is_repeated() {
    let pipeline = "all".parse().unwrap();
    for undone in (0..SHARDS).map(Shard) {
        let bed = Bed::new();
        bed.append(1, 0, &["a"]).await;
        let worker = bed.start();
        bed.applied(1).await;
        let image = bed.store.image(undone);
        let (store, log): (&dyn Store, &dyn Log) = (&*bed.store, &*bed.log);
        let here = Resume::Offset(1);
        resolve(store, log, &bed.partition, &pipeline, here).await.unwrap();
        // One shard is as it was before: its mark, and of the home shard the checkpoint, are of the old era.
        bed.store.roll_back(undone, image);
        let gauge = worker.gauge(|gauge| gauge.stopped.is_some()).await;
        assert!(gauge.stopped.is_some_and(|reason| reason.contains("decide again")));
        resolve(store, log, &bed.partition, &pipeline, Resume::End).await.unwrap();
        worker.gauge(|gauge| gauge.stopped.is_none()).await;
        bed.append(1, 1, &["b"]).await;
        bed.applied(2).await;
        assert_eq!((bed.count("a").await, bed.count("b").await), (1, 1), "{undone}");
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_rolled_back_is_applied_again_from_its_mark() {
    for shard in (0..SHARDS).map(Shard) {
        let bed = Bed::new();
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let worker = bed.start();
        bed.append(1, 0, &texts).await;
        bed.append(1, 0, &texts).await;
        bed.applied(2).await;
        let image = bed.store.image(shard);
        // A repeat stands on each side of the image: what was passed must be known as it was then.
        bed.append(1, 1, &texts).await;
        bed.append(2, 0, &texts).await;
        bed.append(1, 1, &texts).await;
        bed.append(1, 2, &texts).await;
        bed.applied(6).await;
        bed.store.roll_back(shard, image);
        bed.append(2, 0, &texts).await;
        bed.applied(7).await;
        while bed.count("a").await + bed.count("h").await < 8 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(2 * LOAD_EVERY).await;
        for text in texts {
            assert_eq!(bed.count(text).await, 4, "{text} with {shard} rolled back");
        }
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_with_an_id_counts_once() {
    let bed = Bed { plan: Arc::new(Tally { ids: true, tick: None, awaited: false }), ..Bed::new() };
    let worker = bed.start();
    bed.append(1, 0, &["a", "b", "a"]).await;
    bed.append(2, 0, &["b", "c"]).await;
    bed.applied(2).await;
    let counts = (bed.count("a").await, bed.count("b").await, bed.count("c").await);
    assert_eq!(counts, (1, 1, 1));
    bed.clock.advance(Duration::from_secs(61));
    bed.append(2, 1, &["a"]).await;
    bed.applied(3).await;
    assert_eq!(bed.count("a").await, 2);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_ticks_and_its_watermark_moves() {
    let tick = Some(Duration::from_millis(500));
    let bed = Bed { plan: Arc::new(Tally { ids: false, tick, awaited: false }), ..Bed::new() };
    let worker = bed.start();
    bed.append(1, 0, &["a"]).await;
    bed.applied(1).await;
    bed.clock.advance(Duration::from_secs(5));
    bed.applied(2).await;
    let stand = bed.checkpoint().await.stand;
    assert_eq!(stand.watermark(), bed.store.now().await.unwrap());
    assert_eq!(bed.count("a").await, 1);
    worker.drain().await;
}

/// A log whose reads fail.
#[derive(Debug)]
struct Unreadable;

#[async_trait::async_trait]
impl Log for Unreadable {
    async fn append(&self, _: &Partition, _: &Frame) -> Result<(), AppendError> {
        Err(AppendError::Engine(Fault::Retryable("no".into())))
    }

    async fn read(
        &self,
        _: &Partition,
        _: &Cursor,
        _: Most,
        _: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        Err(ReadError::Engine(Fault::Retryable("the disk hums".into())))
    }

    async fn first(&self, _: &Partition) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn trim(&self, _: &Partition, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    async fn ping(&self) -> Result<(), Fault> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_gets_nowhere_yields_and_says_why() {
    let bed = Bed::new();
    match bed.start_on(Arc::new(Unreadable)).task.await {
        Ok(Ended::Yielded { reason }) => {
            assert!(reason.contains("stood still") && reason.contains("hums"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_ticks_only_while_its_watermark_is_awaited() {
    let mut bed = Bed::new();
    let tick = Some(Duration::from_millis(500));
    bed.plan = Arc::new(Tally { ids: false, tick, awaited: true });
    let worker = bed.start();
    bed.append(1, 0, &["a"]).await;
    bed.applied(1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.checkpoint().await.stand.next, 1, "nobody waits, and nothing is appended");
    bed.clock.advance(Duration::from_secs(60));
    let now = bed.store.now().await.unwrap();
    let (shard, key) = awaited();
    let rank = Bytes::copy_from_slice(&now.0.to_be_bytes());
    let wait = Commit::of([Operation::Max { key, rank }]);
    bed.store.commit(shard, wait).await.unwrap();
    bed.applied(2).await;
    assert!(bed.checkpoint().await.stand.watermark() >= now, "one tick is enough");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.checkpoint().await.stand.next, 2, "and it is the only one");
    worker.drain().await;
}

/// A log that gives one entry at a time, as a broker gives few.
#[derive(Debug)]
struct Sparing(Arc<MemoryLog>);

#[async_trait::async_trait]
impl Log for Sparing {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.0.append(at, frame).await
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        _: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.0.read(at, after, Most::entries(1), wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.0.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.0.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.0.ping().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_filled_from_a_log_that_gives_little_at_once() {
    let bed = Bed::new();
    for sequence in 0..5 {
        bed.append(1, sequence, &["a"]).await;
    }
    let sparing: Arc<dyn Log> = Arc::new(Sparing(bed.log.clone()));
    let batches = async |linger| {
        let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
        let options = Options { linger, ..bed.options(sparing.clone()) };
        let worker = Worker::new(options, tenure);
        let (mut stand, mut batches) = (Stand::default(), Vec::new());
        while stand.next < 5 {
            let entries = worker.read(&stand).await.unwrap().unwrap();
            for entry in &entries {
                assert!(stand.pass(entry, Timestamp(0)), "no frame is a repeat");
            }
            batches.push(entries.len());
        }
        batches
    };
    assert_eq!(batches(Duration::from_millis(400)).await, [3, 2], "a batch has three at most");
    assert_eq!(batches(Duration::ZERO).await, [1; 5]);
}
