//! That frames are full, bounded, in order, and that nothing is left behind.

use super::*;
use crate::runtime::TokioRuntime;
use bytes::Bytes;
use consort_kernel::{
    AppendError, Cursor, Frame, Log, LogEntry, ManualClock, Most, ReadError, SeededEntropy,
    Timestamp, memory,
};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio::sync::Semaphore;

struct Bed {
    log: Arc<dyn Log>,
    collector: Collector,
    at: Partition,
}

fn bed() -> Bed {
    bed_with(FramesInFlight::Unbounded)
}

fn bed_with(in_flight: FramesInFlight) -> Bed {
    bed_of(in_flight, Duration::from_millis(1))
}

fn bed_of(in_flight: FramesInFlight, linger: Duration) -> Bed {
    let (log, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
    let (log, runtime) = (Arc::new(log), TokioRuntime::current());
    let entropy = Arc::new(SeededEntropy::new(7));
    let give_up = Duration::from_secs(1);
    let appender = Appender::new(log.clone(), Arc::new(store), runtime.clone(), entropy, give_up);
    let collector = Collector::new(Arc::new(appender), runtime, linger, in_flight);
    Bed { log, collector, at: Partition::new("s".parse().unwrap(), 0) }
}

async fn frames(bed: &Bed) -> Vec<Records> {
    let (mut frames, mut cursor) = (Vec::new(), Cursor::START);
    loop {
        let page = bed.log.read(&bed.at, &cursor, Most::default(), Duration::ZERO).await.unwrap();
        let Some(last) = page.last() else { return frames };
        cursor = last.cursor();
        frames.extend(page.into_iter().map(|entry| entry.frame.records));
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_together_is_one_frame_in_its_order() {
    let bed = bed();
    let record = |n: u8| Bytes::from(vec![n]);
    let submissions = (0..10).map(|n| bed.collector.submit(&bed.at, vec![record(n); 2]));
    let places = join_all(submissions).await;
    assert!(places.iter().all(|place| place.as_ref().is_ok_and(|place| place.sequence == 0)));
    let expected: Records = (0..10).flat_map(|n| [record(n), record(n)]).collect();
    assert_eq!(frames(&bed).await, [expected]);
    let later = bed.collector.submit(&bed.at, vec![record(9)]).await.unwrap();
    assert_eq!(later.sequence, 1);
}

#[tokio::test(start_paused = true)]
async fn frames_stay_within_their_bound_and_nothing_is_left_behind() {
    for in_flight in [FramesInFlight::Unbounded, FramesInFlight::Joined, FramesInFlight::Few(1)] {
        let bed = bed_with(in_flight);
        let record = Bytes::from(vec![0; 1 << 20]);
        let submissions = (0..10).map(|_| bed.collector.submit(&bed.at, vec![record.clone()]));
        assert!(join_all(submissions).await.iter().all(Result::is_ok));
        let sizes: Vec<usize> = frames(&bed).await.iter().map(Records::len).collect();
        assert_eq!(sizes, [3, 3, 3, 1]);
    }
}

/// The partition whose appends panic.
const DEFECT: u32 = 9;

/// The partition whose appends wait to be let go by themselves.
const STUCK: u32 = 8;

/// A log that takes frames when it is told to.
#[derive(Debug)]
struct Held {
    log: memory::MemoryLog,
    begun: Mutex<Vec<(u32, usize)>>,
    go: Semaphore,
    unstuck: Semaphore,
}

struct Bench {
    log: Arc<Held>,
    collector: Collector,
}

fn bench(in_flight: FramesInFlight) -> Bench {
    let (log, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
    let (go, unstuck) = (Semaphore::new(0), Semaphore::new(0));
    let log = Arc::new(Held { log, begun: Mutex::default(), go, unstuck });
    let runtime = TokioRuntime::current();
    let (entropy, give_up) = (Arc::new(SeededEntropy::new(7)), Duration::from_secs(1));
    let appender = Appender::new(log.clone(), Arc::new(store), runtime.clone(), entropy, give_up);
    let collector = Collector::new(Arc::new(appender), runtime, Duration::ZERO, in_flight);
    Bench { log, collector }
}

fn partition(index: u32) -> Partition {
    Partition::new("s".parse().unwrap(), index)
}

/// So that what can begin has begun.
async fn moment() {
    tokio::time::sleep(Duration::from_millis(4)).await;
}

#[async_trait::async_trait]
impl Log for Held {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        assert_ne!(at.index, DEFECT, "on purpose");
        self.begun.lock().push((at.index, frame.records.len()));
        let go = if at.index == STUCK { &self.unstuck } else { &self.go };
        go.acquire().await.unwrap().forget();
        self.log.append(at, frame).await
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

#[tokio::test(start_paused = true)]
async fn joined_frames_of_all_partitions_go_in_rounds() {
    let Bench { log, collector } = bench(FramesInFlight::Joined);
    let enqueue = |index| collector.enqueue(&partition(index), ["x"].into()).unwrap();

    let first: Vec<Appending> = [0, 1, 1, 2].map(enqueue).into();
    moment().await;
    assert_eq!(*log.begun.lock(), [(0, 1), (1, 2), (2, 1)]);
    let second: Vec<Appending> = [0, 3, 0].map(enqueue).into();
    log.go.add_permits(2);
    moment().await;
    assert_eq!(log.begun.lock().len(), 3, "one frame of the round is still on its way");
    log.go.add_permits(1);
    assert!(join_all(first).await.iter().all(Result::is_ok));
    moment().await;
    let mut next = log.begun.lock()[3..].to_vec();
    next.sort_unstable();
    assert_eq!(next, [(0, 2), (3, 1)]);
    log.go.add_permits(2);
    assert!(join_all(second).await.iter().all(Result::is_ok));
    // After a silence there is a round again, and behind one with a panic as well.
    log.go.add_permits(2);
    let panicked = join_all([enqueue(3), enqueue(DEFECT)]).await;
    let unknown = |result: &Result<_, _>| matches!(result, Err(SubmitError::Unknown(_)));
    assert!(panicked.iter().all(unknown), "{panicked:?}");
    assert!(enqueue(3).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn more_than_may_wait_is_refused_at_once() {
    let bed = bed();
    let record = Bytes::from(vec![0; 1 << 20]);
    let submissions = (0..20).map(|_| bed.collector.submit(&bed.at, vec![record.clone()]));
    let refused = join_all(submissions).await.iter().filter(|result| result.is_err()).count();
    assert_eq!(refused, 5);
    let too_large = bed.collector.submit(&bed.at, vec![Bytes::from(vec![0; 3 << 20])]).await;
    assert!(matches!(too_large, Err(SubmitError::Refused(_))), "{too_large:?}");
}

#[tokio::test(start_paused = true)]
async fn rounds_of_few_lanes_take_those_that_have_waited_longest() {
    let Bench { log, collector } = bench(FramesInFlight::Few(2));
    let enqueue = |index| collector.enqueue(&partition(index), ["x"].into()).unwrap();
    let all: Vec<Appending> = [5, 3, 4, 5, 3].map(enqueue).into();
    moment().await;
    assert_eq!(*log.begun.lock(), [(5, 2), (3, 2)]);
    let late = enqueue(5);
    log.go.add_permits(2);
    moment().await;
    assert_eq!(log.begun.lock()[2..], [(4, 1), (5, 1)]);
    log.go.add_permits(2);
    assert!(join_all(all.into_iter().chain([late])).await.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_round_waits_for_those_who_were_answered_and_its_frames_are_full() {
    let Bench { log, collector } = bench(FramesInFlight::Few(2));
    log.go.add_permits(1_000);
    // Ten clients, each of which posts again soon after it is answered, to one partition or the other.
    let client = |number: u32| {
        let collector = collector.clone();
        async move {
            for turn in 0..20 {
                collector.submit(&partition((number + turn) % 2), ["x"]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(u64::from(number % 3))).await;
            }
        }
    };
    join_all((0..10).map(client)).await;
    let begun = log.begun.lock().clone();
    assert_eq!(begun.iter().map(|(_, records)| records).sum::<usize>(), 200);
    // Two frames a round if all are waited for; with whoever came first there would be far more.
    assert!(begun.len() <= 50, "{} frames", begun.len());
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_one_post_do_not_wait_for_each_other() {
    let Bench { log, collector } = bench(FramesInFlight::Few(2));
    log.go.add_permits(1_000);
    let began = tokio::time::Instant::now();
    // Nobody comes back before all of it is answered.
    let enqueue = |index| collector.enqueue(&partition(index), ["x"].into()).unwrap();
    let parts: Vec<_> = (10..19).map(enqueue).collect();
    assert!(join_all(parts).await.iter().all(Result::is_ok));
    assert_eq!((began.elapsed(), log.begun.lock().len()), (Duration::ZERO, 9));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_stuck_does_not_hold_up_the_others() {
    let Bench { log, collector } = bench(FramesInFlight::Few(2));
    let enqueue = |index| collector.enqueue(&partition(index), ["x"].into()).unwrap();
    let (stuck, other) = (enqueue(STUCK), enqueue(1));
    log.go.add_permits(10);
    let began = tokio::time::Instant::now();
    assert!(other.await.is_ok());
    let behind = enqueue(STUCK);
    for _ in 0..5 {
        assert!(enqueue(1).await.is_ok());
    }
    // One round waited for it, for as long as rounds do.
    assert!(began.elapsed() < Duration::from_millis(100), "after {:?}", began.elapsed());
    // It had not begun a second frame, and goes on when it can.
    let of_stuck = |log: &Held| log.begun.lock().iter().filter(|(at, _)| *at == STUCK).count();
    assert_eq!(of_stuck(&log), 1);
    log.unstuck.add_permits(2);
    assert!(stuck.await.is_ok() && behind.await.is_ok());
    assert_eq!(of_stuck(&log), 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_round_of_few_lanes_is_told_and_stops_no_other() {
    let Bench { log, collector } = bench(FramesInFlight::Few(2));
    let enqueue = |index| collector.enqueue(&partition(index), ["x"].into()).unwrap();
    log.go.add_permits(10);
    let (panicked, other) = (enqueue(DEFECT), enqueue(1));
    assert!(matches!(panicked.await, Err(SubmitError::Unknown(_))));
    assert!(other.await.is_ok());
    assert!(enqueue(1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn records_of_a_caller_that_goes_away_are_appended_nevertheless() {
    let bed = bed();
    let gone = bed.collector.submit(&bed.at, vec![Bytes::new()]).now_or_never();
    assert!(gone.is_none());
    bed.collector.submit(&bed.at, vec![Bytes::new()]).await.unwrap();
    assert_eq!(Records::joined(frames(&bed).await).len(), 2);
}
