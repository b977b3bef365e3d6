//! The RabbitMQ engine while its broker dies, hangs or forgets, and its network fails.
//!
//! Every call ends, as a passing fault or an unknown outcome; the engine comes back by itself; what was
//! acknowledged is there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_engines::rabbitmq::RabbitLog;
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, FrameKind, Log, LogEntry, Most, Name, Partition, Producer,
    ReadError, Timestamp,
};
use consort_testbed::{Direction, Proxy, RabbitOptions, RabbitServer, eventually};
use lapin::options::QueueDeleteOptions;
use lapin::{Connection, ConnectionProperties};
use tokio::time::timeout;

/// Bounds a hang; the engine's own time-outs are far shorter.
const PATIENCE: Duration = Duration::from_secs(60);

fn namespace() -> String {
    format!("faults-{:016x}", rand::random::<u64>())
}

async fn open(url: &str) -> RabbitLog {
    RabbitLog::open(url, &namespace(), None).await.expect("the broker")
}

/// A broker of one's own that can be killed without losing its streams, and a log on it with these
/// partitions.
///
/// RabbitMQ 3.10 writes down with some delay that it has streams at all; killed before, it never starts
/// any of them again. It does not tell when it has done so, but an end in good order makes it do so.
async fn start_with(partitions: u32) -> (RabbitServer, RabbitLog) {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let log = open(&server.url()).await;
    for index in 0..partitions {
        append_until_stored(&log, &partition(index), &frame(99, 0)).await;
    }
    server.stop().await;
    server.restart().await;
    (server, log)
}

/// A log that reaches the broker through a proxy.
async fn open_through_proxy(server: &RabbitServer) -> (RabbitLog, Proxy) {
    let mut url = url::Url::parse(&server.url()).expect("the broker's address");
    let port = url.port().expect("the broker's port");
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await;
    url.set_port(Some(proxy.address().port())).expect("a port");
    (open(url.as_str()).await, proxy)
}

fn partition(index: u32) -> Partition {
    Partition::new(Name::new("faults").expect("a name"), index)
}

fn frame(producer: u64, sequence: u64) -> Frame {
    frame_of(producer, sequence, 100)
}

fn frame_of(producer: u64, sequence: u64, bytes: usize) -> Frame {
    Frame {
        kind: FrameKind::Events,
        producer: Producer(producer),
        sequence,
        time: Timestamp(1_700_000_000_000),
        records: vec![Bytes::from(vec![sequence as u8; bytes])].into(),
    }
}

/// An append that must end. `Ok` for one that was stored, else whether it may be there.
async fn append(log: &RabbitLog, at: &Partition, frame: &Frame) -> Result<(), bool> {
    let ended = timeout(PATIENCE, log.append(at, frame)).await.expect("an append ends");
    match ended {
        Ok(()) => Ok(()),
        Err(AppendError::Unknown(Fault::Retryable(_))) => Err(true),
        Err(AppendError::Engine(Fault::Retryable(_))) => Err(false),
        Err(other) => panic!("neither passing nor unknown: {other}"),
    }
}

/// Appends until it is stored. Whether it may be there more than once.
async fn append_until_stored(log: &RabbitLog, at: &Partition, frame: &Frame) -> bool {
    let mut doubtful = false;
    let stored = async {
        while let Err(unknown) = append(log, at, frame).await {
            doubtful |= unknown;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, stored).await.expect("the engine recovers");
    doubtful
}

/// Reads from `cursor` until `enough`, through passing faults.
async fn read_until(
    log: &RabbitLog,
    at: &Partition,
    mut cursor: Cursor,
    enough: impl Fn(&[LogEntry]) -> bool,
) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    let reading = async {
        while !enough(&entries) {
            match log.read(at, &cursor, Most::default(), Duration::from_secs(1)).await {
                Ok(page) => {
                    cursor = page.last().map_or(cursor, LogEntry::cursor);
                    entries.extend(page);
                }
                Err(ReadError::Engine(Fault::Retryable(_))) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("what was acknowledged is there");
    entries
}

/// The cursor behind the last of the first `count` entries.
async fn read_behind(log: &RabbitLog, at: &Partition, count: usize) -> Cursor {
    let entries = read_until(log, at, Cursor::START, |entries| entries.len() >= count).await;
    entries[count - 1].cursor()
}

/// One producer's work: frame after frame, each until it is stored, until told to stop.
struct Worker {
    stored: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<u64>>,
}

impl Worker {
    fn start(log: &RabbitLog, at: Partition, producer: u64) -> Worker {
        let (stored, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn({
            let (log, stored, stop) = (log.clone(), stored.clone(), stop.clone());
            async move {
                let mut doubtful = Vec::new();
                let mut sequence = 0;
                while !stop.load(Ordering::Acquire) {
                    if append_until_stored(&log, &at, &frame(producer, sequence)).await {
                        doubtful.push(sequence);
                    }
                    sequence += 1;
                    stored.store(sequence, Ordering::Release);
                }
                doubtful
            }
        });
        Worker { stored, stop, task }
    }

    fn stored(&self) -> u64 {
        self.stored.load(Ordering::Acquire)
    }

    /// Waits until this many more are stored.
    async fn goes_on(&self, more: u64) {
        let goal = self.stored() + more;
        eventually("the producer goes on", PATIENCE, || async { self.stored() >= goal }).await;
    }

    /// How many were stored, and which of them may be there twice.
    async fn end(self) -> (u64, Vec<u64>) {
        self.stop.store(true, Ordering::Release);
        let doubtful = self.task.await.expect("the producer");
        (self.stored.load(Ordering::Acquire), doubtful)
    }
}

/// Each stored sequence is there, in order; only doubtful ones may be there again.
fn assert_complete(entries: &[LogEntry], producer: u64, stored: u64, doubtful: &[u64]) {
    let own = entries.iter().filter(|entry| entry.frame.producer.0 == producer);
    let mut next = 0;
    for sequence in own.map(|entry| entry.frame.sequence) {
        if sequence < next {
            assert!(doubtful.contains(&sequence), "{sequence} is there twice and was no doubt");
            continue;
        }
        assert_eq!(sequence, next, "of producer {producer}");
        next += 1;
    }
    assert!(next >= stored, "{next} of {stored} of producer {producer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_missing_after_the_broker_was_killed() {
    let (mut server, log) = start_with(3).await;
    let workers: Vec<Worker> = (0..6)
        .map(|producer| Worker::start(&log, partition((producer % 3) as u32), producer))
        .collect();
    // Several times, for much of what can go wrong does so in the first moments after a start.
    for _ in 0..3 {
        for worker in &workers {
            worker.goes_on(30).await;
        }
        server.kill().await;
        server.restart().await;
    }
    for worker in &workers {
        worker.goes_on(30).await;
    }
    for (producer, worker) in (0..).zip(workers) {
        let (stored, doubtful) = worker.end().await;
        let at = partition((producer % 3) as u32);
        let entries = read_until(&log, &at, Cursor::START, |entries| {
            entries.iter().any(|entry| {
                (entry.frame.producer.0, entry.frame.sequence) == (producer, stored - 1)
            })
        })
        .await;
        assert_complete(&entries, producer, stored, &doubtful);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_goes_on_over_a_restart_of_the_broker() {
    let (mut server, log) = start_with(1).await;
    let at = partition(0);
    let cursor = read_behind(&log, &at, 1).await;
    let waiting = tokio::spawn({
        let (log, at) = (log.clone(), at.clone());
        async move { log.read(&at, &cursor, Most::default(), PATIENCE).await }
    });
    server.restart().await;
    let ended = timeout(PATIENCE, waiting).await.expect("the read ends").expect("the read");
    assert!(matches!(ended, Err(ReadError::Engine(Fault::Retryable(_)))), "{ended:?}");
    append_until_stored(&log, &at, &frame(1, 5)).await;
    let entries = read_until(&log, &at, cursor, |entries| !entries.is_empty()).await;
    assert_eq!(entries[0].frame, frame(1, 5));

    // A broker that hangs keeps its connections.
    server.pause();
    assert_eq!(append(&log, &at, &frame(1, 6)).await, Err(true));
    assert!(timeout(PATIENCE, log.ping()).await.expect("a ping ends").is_err());
    server.resume();
    append_until_stored(&log, &at, &frame(1, 6)).await;
    eventually("the engine answers", PATIENCE, || async { log.ping().await }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_forgot_everything_is_noticed() {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let (log, at) = (open(&server.url()).await, partition(0));
    for sequence in 0..5 {
        append_until_stored(&log, &at, &frame(1, sequence)).await;
    }
    let entries = read_until(&log, &at, Cursor::START, |entries| entries.len() == 5).await;
    let cursor = entries[4].cursor();
    server.restart_empty().await;
    let lost = lost(&log, &at, cursor).await;
    assert_eq!(
        lost,
        ReadError::Lost { number: entries[4].offset, expected: entries[4].digest, found: None }
    );

    // Others grow past the place meanwhile. The anchors of the search stand there too.
    for sequence in 0..8 {
        append_until_stored(&log, &at, &frame(2, sequence)).await;
    }
    let other = read_until(&log, &at, Cursor::START, |entries| entries.len() == 8).await;
    assert!(other.iter().all(|entry| entry.frame.producer == Producer(2)));
    assert!(matches!(self::lost(&log, &at, cursor).await, ReadError::Lost { .. }));
}

/// The loss that a read from `cursor` tells, once it tells one.
async fn lost(log: &RabbitLog, at: &Partition, cursor: Cursor) -> ReadError {
    eventually("the loss is told", PATIENCE, || async {
        match log.read(at, &cursor, Most::default(), Duration::from_secs(1)).await {
            Err(error @ ReadError::Lost { .. }) => Some(error),
            Err(ReadError::Engine(Fault::Retryable(_))) => None,
            other => panic!("a reader went on over a loss: {other:?}"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_made_again_and_its_loss_told() {
    let server = RabbitServer::shared().await;
    let namespace = namespace();
    let log = RabbitLog::open(&server.url(), &namespace, None).await.expect("the broker");
    let (at, other) = (partition(0), partition(1));
    for sequence in 0..3 {
        append_until_stored(&log, &at, &frame(1, sequence)).await;
        append_until_stored(&log, &other, &frame(1, sequence)).await;
    }
    let (cursor, others) = (read_behind(&log, &at, 3).await, read_behind(&log, &other, 3).await);
    let url = server.url();
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let queue = format!("consort.{namespace}.faults.0");
    channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();

    // No queue takes it, and the broker confirms it all the same.
    assert_eq!(append(&log, &at, &frame(2, 0)).await, Err(false));
    append_until_stored(&log, &at, &frame(3, 0)).await;
    append_until_stored(&log, &other, &frame(3, 0)).await;
    assert!(matches!(lost(&log, &at, cursor).await, ReadError::Lost { .. }));
    let anew = read_until(&log, &at, Cursor::START, |entries| !entries.is_empty()).await;
    assert_eq!(anew[0].frame, frame(3, 0));
    let goes_on = read_until(&log, &other, others, |entries| !entries.is_empty()).await;
    assert_eq!(goes_on[0].frame, frame(3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_a_call_ends_it() {
    let server = RabbitServer::shared().await;
    let (log, proxy) = open_through_proxy(&server).await;
    let at = partition(0);
    append_until_stored(&log, &at, &frame(1, 0)).await;
    let cursor = read_behind(&log, &at, 1).await;

    // In the middle of the frame's own bytes, and just before the confirm comes back.
    proxy.cut_after(Direction::ToServer, 100_000);
    let large = frame_of(1, 1, 1_000_000);
    assert!(append(&log, &at, &large).await.is_err());
    append_until_stored(&log, &at, &large).await;
    proxy.cut_after(Direction::ToClient, 1);
    assert_eq!(append(&log, &at, &frame(1, 2)).await, Err(true));
    append_until_stored(&log, &at, &frame(1, 2)).await;

    // While a read waits.
    let quiet = partition(1);
    append_until_stored(&log, &quiet, &frame(1, 0)).await;
    let behind = read_behind(&log, &quiet, 1).await;
    let waiting = tokio::spawn({
        let (log, at) = (log.clone(), quiet.clone());
        async move { log.read(&at, &behind, Most::default(), 2 * PATIENCE).await }
    });
    // It may not have begun yet, so it is cut off until it is.
    eventually("the read ends", PATIENCE, || async {
        proxy.cut();
        waiting.is_finished()
    })
    .await;
    let ended = waiting.await.expect("the read");
    assert!(matches!(ended, Err(ReadError::Engine(Fault::Retryable(_)))), "{ended:?}");

    proxy.refuse(true);
    proxy.cut();
    eventually("a ping finds nobody", PATIENCE, || async {
        matches!(log.ping().await, Err(Fault::Retryable(_)))
    })
    .await;
    proxy.heal();
    append_until_stored(&log, &at, &frame(1, 3)).await;
    let ends = |entries: &[LogEntry]| entries.iter().any(|entry| entry.frame == frame(1, 3));
    let entries = read_until(&log, &at, Cursor::START, ends).await;
    assert_complete(&entries, 1, 4, &[1, 2]);
    assert_eq!(entries[0].cursor(), cursor);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_swallows_everything_is_left() {
    let server = RabbitServer::shared().await;
    let (log, proxy) = open_through_proxy(&server).await;
    let at = partition(0);
    append_until_stored(&log, &at, &frame(1, 0)).await;
    let cursor = read_behind(&log, &at, 1).await;
    for (sequence, direction) in [(1, Direction::ToServer), (2, Direction::ToClient)] {
        proxy.swallow(direction);
        assert_eq!(append(&log, &at, &frame(1, sequence)).await, Err(true));
        assert_eq!(append(&log, &at, &frame(1, sequence)).await, Err(false), "not connected");
        let pinged = timeout(PATIENCE, log.ping()).await.expect("a ping ends");
        assert!(matches!(pinged, Err(Fault::Retryable(_))), "{pinged:?}");
        proxy.heal();
        append_until_stored(&log, &at, &frame(1, sequence)).await;
    }
    let ends = |entries: &[LogEntry]| entries.iter().any(|entry| entry.frame.sequence == 2);
    let entries = read_until(&log, &at, cursor, ends).await;
    assert!(entries[0].frame == frame(1, 1), "a reader goes on behind its cursor");
    let entries = read_until(&log, &at, Cursor::START, ends).await;
    assert_complete(&entries, 1, 3, &[1, 2]);
}
