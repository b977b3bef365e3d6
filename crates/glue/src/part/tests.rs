//! The part on the memory engine: deadlines and retention.

use bytes::Bytes;
use consort_cluster::tenure::TenureControl;
use consort_cluster::worker::Control;
use consort_cluster::{FramesInFlight, Task, TokioRuntime};
use consort_kernel::memory::{MemoryLog, MemoryStore};
use consort_kernel::{
    Cell, Commit, Cursor, Frame, FrameKind, Kind, ManualClock, Note, Operation, Producer,
    ReadError, SeededEntropy, Shard, Timestamp, Value, memory,
};

use super::feed_bound::FeedBound;
use super::timer::AppendedWords;
use super::*;
use crate::stored::SourceNumber;
use crate::{DocumentFormat, PieceForm, PieceRecord};

struct Bed {
    log: Arc<MemoryLog>,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    appender: Arc<Appender>,
    part: GluePart,
}

impl Bed {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (log, store) = memory::open(2, clock.clone());
        let (log, store) = (Arc::new(log), Arc::new(store));
        let runtime: Arc<dyn Runtime> = TokioRuntime::current();
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(7));
        let appender = Arc::new(Appender::new(
            log.clone(),
            store.clone(),
            Arc::clone(&runtime),
            Arc::clone(&entropy),
            Duration::from_secs(1),
        ));
        let collector = Collector::new(
            Arc::clone(&appender),
            Arc::clone(&runtime),
            Duration::from_millis(1),
            FramesInFlight::Unbounded,
        );
        let options = GlueOptions {
            log: log.clone(),
            store: store.clone(),
            runtime,
            entropy,
            appender: Arc::clone(&appender),
            collector,
            queues: Vec::new(),
            cache: 1 << 20,
        };
        let collection = Collection {
            gap_for: Duration::from_secs(30),
            retain: Duration::from_secs(60),
            ..Collection::new("content", DocumentFormat::Json, 1)
        };
        let part = GluePart::new(&[Arc::new(collection)], options).unwrap();
        Bed { log, store, clock, appender, part }
    }

    fn partition(&self) -> Partition {
        Partition::new("glue.content".parse().unwrap(), 0)
    }

    async fn send(&self, seq: u64, content: &str) {
        let piece = PieceRecord {
            tenant: "t",
            id: "d",
            form: PieceForm::MergePatch,
            key: None,
            source: Some(SourceNumber { source: "s", seq }),
            condition: None,
            wanted: false,
            content: content.as_bytes(),
        };
        let record = Bytes::from(piece.encode());
        self.appender.events(&self.partition(), vec![record]).await.unwrap();
    }

    /// Starts the work of a role; it ends when the task is dropped.
    fn start(&self, kind: &str) -> (Task<Ended>, TenureControl) {
        let roles = self.part.roles();
        let role = roles.into_iter().find(|role| role.kind() == kind).unwrap();
        let (tenure, control) = Tenure::new(role, 1);
        (Task::spawn(&*TokioRuntime::current(), kind, self.part.work(tenure)), control)
    }

    async fn log_entries(&self) -> usize {
        let partition = self.partition();
        let first = self.log.first(&partition).await.unwrap();
        let cursor = Cursor { next: first, last: None };
        let read = self.log.read(&partition, &cursor, Most::default(), Duration::ZERO).await;
        read.unwrap().len()
    }

    async fn applied(&self, entries: u64) {
        let cells = worker::Cells::new(&PIPELINE, &self.partition(), 2);
        while cells.read_checkpoint(&*self.store).await.unwrap().stand.next < entries {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_ends_at_its_deadline_and_is_announced_once_until_the_word_is_passed() {
    let bed = Bed::new();
    let worker = bed.start(worker::KIND);
    bed.send(1, r#"{"a": 1}"#).await;
    bed.send(3, r#"{"c": 3}"#).await;
    bed.applied(2).await;
    drop(worker);
    let timer = bed.part.timer(&bed.part.collections[0]);
    let mut appended = AppendedWords::default();
    bed.clock.advance(Duration::from_secs(29));
    timer.round(&mut appended).await.unwrap();
    assert_eq!(bed.log_entries().await, 2, "the number may still come");
    bed.clock.advance(Duration::from_secs(2));
    for _ in 0..3 {
        timer.round(&mut appended).await.unwrap();
    }
    assert_eq!(bed.log_entries().await, 3, "one word, although the worker has not taken it yet");
    let worker = bed.start(worker::KIND);
    bed.applied(3).await;
    timer.round(&mut appended).await.unwrap();
    assert_eq!(bed.log_entries().await, 3, "the gap is over");
    let key = bed.part.collections[0].cells.body("t", "d");
    let cell = Cell::new(Kind::Bytes, key);
    let body = bed.store.get(Shard(0), &[cell]).await.unwrap().remove(0).unwrap();
    let Value::Bytes(body) = body else { panic!("{body:?}") };
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains(r#""a":1"#) && text.contains(r#""c":3"#), "{text}");
    drop(worker);
}

#[tokio::test(start_paused = true)]
async fn applied_pieces_leave_the_log_when_they_are_old_enough() {
    let bed = Bed::new();
    let _worker = bed.start(worker::KIND);
    // The appender would stamp all frames with the store time that it read last.
    for sequence in 0..4 {
        let frame = Frame {
            kind: FrameKind::Control,
            producer: Producer(1),
            sequence,
            time: bed.store.now().await.unwrap(),
            records: vec![Control::Tick.encode()].into(),
        };
        bed.log.append(&bed.partition(), &frame).await.unwrap();
        bed.clock.advance(Duration::from_secs(20));
    }
    bed.applied(4).await;
    let retention = bed.part.retention(&bed.part.collections[0]);
    retention.round(&mut retention.feeds(), false).await.unwrap();
    assert_eq!(bed.log_entries().await, 4, "not in this round");
    retention.round(&mut retention.feeds(), true).await.unwrap();
    assert_eq!(bed.log_entries().await, 3, "one is older than a minute");
}

#[tokio::test(start_paused = true)]
async fn a_feed_is_bounded_in_rows_and_in_bytes() {
    let bed = Bed::new();
    let feed: Name = "f".parse().unwrap();
    let append = async |bytes: usize| {
        let entry = Bytes::from(vec![0; bytes]);
        let note = Operation::Append(Note { feed: feed.clone(), entry });
        bed.store.commit(Shard(1), Commit::of([note])).await.unwrap();
    };
    let mut bound = FeedBound::new(Shard(1), feed.clone(), Most { entries: 3, bytes: 100 });
    let rows = async || {
        let read = async |cursor: Cursor| {
            bed.store.feed(Shard(1), &feed, &cursor, Most::default(), Duration::ZERO).await
        };
        match read(Cursor::START).await {
            Err(ReadError::Trimmed { first, .. }) => {
                read(Cursor { next: first, last: None }).await.unwrap().len()
            }
            read => read.unwrap().len(),
        }
    };
    for _ in 0..5 {
        append(10).await;
    }
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 3);
    append(75).await;
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 3, "95 bytes");
    append(10).await;
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 3);
    append(60).await;
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 2, "75 bytes had to go");
    append(200).await;
    let image = bed.store.image(Shard(1));
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 1, "the last row stays");
    // The shard is rolled back and grows again: other rows under the old numbers.
    append(1).await;
    bound.round(&*bed.store).await.unwrap();
    bed.store.roll_back(Shard(1), image);
    append(2).await;
    bound.round(&*bed.store).await.unwrap();
    assert_eq!(rows().await, 1);
}

#[tokio::test(start_paused = true)]
async fn partitions_share_the_cache_while_they_are_owned() {
    let bed = Bed::new();
    assert_eq!(bed.part.cache.bytes(), 1 << 20);
    let first = bed.start(worker::KIND);
    let second = bed.start(worker::KIND);
    assert_eq!(bed.part.cache.bytes(), 1 << 19);
    drop((first, second));
    while bed.part.cache.bytes() < 1 << 20 {
        tokio::task::yield_now().await;
    }
}
