//! What the worker's tests stand on: a plan that counts, a partition in memory, and logs that are difficult.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::memory::{MemoryLog, MemoryStore};
use consort_kernel::{
    AppendError, Cell, Cursor, Fault, Frame, FrameKind, Key, Kind, Log, ManualClock, Most,
    Partition, Producer, ReadError, SeededEntropy, Shard, Store, Timestamp, Value, memory,
    shard_of,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::*;
use crate::role::Role;
use crate::runtime::{Task, TokioRuntime};
use crate::tenure::{Gauge, TenureControl};

pub(super) const SHARDS: u16 = 4;

/// Counts records by their text, and keeps `id=…` apart.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) ids: bool,
    pub(super) tick: Option<Duration>,
    pub(super) awaited: bool,
}

impl Plan for Tally {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        let key = Key::of(["count".into(), record.bytes.into()]);
        sheet.add(shard_of(&key, SHARDS), key, 1, None);
    }

    fn ids_for(&self) -> Option<Duration> {
        self.ids.then_some(Duration::from_secs(60))
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        Some(record.share(record.bytes))
    }

    fn tick_after(&self) -> Option<Duration> {
        self.tick
    }

    fn awaited(&self) -> Option<(Shard, Key)> {
        self.awaited.then(awaited)
    }
}

/// Fills a commit with every record, and sees meanwhile how far behind the worker says it is.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) gauges: watch::Receiver<Gauge>,
    pub(super) seen: Mutex<Vec<Option<Duration>>>,
}

impl Plan for Large {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        self.seen.lock().push(self.gauges.borrow().lag);
        let key = Key::of([record.position.offset, record.position.record.into()].map(Into::into));
        sheet.put(Shard(0), key, vec![0; FULL_BYTES].into());
    }
}

/// Where the tests say how far the watermark is awaited.
pub(super) fn awaited() -> (Shard, Key) {
    (Shard(0), Key::from(["awaited"]))
}

pub(super) struct Bed {
    pub(super) log: Arc<MemoryLog>,
    pub(super) store: Arc<MemoryStore>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) partition: Partition,
    pub(super) plan: Arc<Tally>,
}

pub(super) struct Running {
    pub(super) control: TenureControl,
    pub(super) task: Task<Ended>,
}

impl Bed {
    pub(super) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (log, store) = memory::open(SHARDS, clock.clone());
        let partition = Partition::new("s".parse().unwrap(), 0);
        let plan = Arc::new(Tally { ids: false, tick: None, awaited: false });
        Bed { log: Arc::new(log), store: Arc::new(store), clock, partition, plan }
    }

    pub(super) fn start(&self) -> Running {
        self.start_on(self.log.clone())
    }

    pub(super) fn start_on(&self, log: Arc<dyn Log>) -> Running {
        self.start_with(self.options(log))
    }

    pub(super) fn start_with(&self, options: Options) -> Running {
        let runtime = Arc::clone(&options.runtime);
        let (tenure, control) = Tenure::new(Role::new("worker", "s/0"), 1);
        Running { control, task: Task::spawn(&*runtime, "worker", run(options, tenure)) }
    }

    pub(super) fn options(&self, log: Arc<dyn Log>) -> Options {
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

    pub(super) async fn append(&self, producer: u64, sequence: u64, records: &[&'static str]) {
        let records = records.iter().map(|record| Bytes::from_static(record.as_bytes()));
        self.append_frame(FrameKind::Events, producer, sequence, records.collect()).await;
    }

    pub(super) async fn append_frame(
        &self,
        kind: FrameKind,
        producer: u64,
        sequence: u64,
        records: Vec<Bytes>,
    ) {
        let frame = Frame {
            kind,
            producer: Producer(producer),
            sequence,
            time: self.store.now().await.unwrap(),
            records: records.into(),
        };
        self.log.append(&self.partition, &frame).await.unwrap();
    }

    pub(super) async fn count(&self, text: &str) -> i64 {
        let key = Key::of(["count".into(), text.as_bytes().into()]);
        let shard = shard_of(&key, SHARDS);
        let cells = self.store.get(shard, &[Cell::new(Kind::Counter, key)]).await.unwrap();
        match cells[0] {
            Some(Value::Counter(number)) => number,
            _ => 0,
        }
    }

    pub(super) async fn checkpoint(&self) -> Checkpoint {
        let cells = Cells::new(&"all".parse().unwrap(), &self.partition, SHARDS);
        cells.read_checkpoint(&*self.store).await.unwrap()
    }

    /// Waits until everything before `offset` is applied.
    pub(super) async fn applied(&self, offset: u64) {
        while self.checkpoint().await.stand.next < offset {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Running {
    pub(super) async fn gauge(&self, wanted: impl Fn(&Gauge) -> bool) -> Gauge {
        loop {
            let gauge = self.control.gauge();
            if wanted(&gauge) {
                return gauge;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn drain(self) {
        self.control.end();
        assert_eq!(self.task.await, Ok(Ended::Drained));
    }
}

/// A log whose reads fail.
#[derive(Debug)]
pub(super) struct Unreadable;

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

/// A log that gives one entry at a time, as a broker gives few.
#[derive(Debug)]
pub(super) struct Sparing(pub(super) Arc<MemoryLog>);

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
