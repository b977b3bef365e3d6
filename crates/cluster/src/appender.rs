//! The appender: one producer for each partition, which keeps one frame in flight.
//!
//! A frame is confirmed, repeated or given up before the next one of its producer is sent. So a repeat
//! after an unknown outcome can put a frame into the log twice, but never out of order, and workers drop
//! what they have passed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{
    AppendError, Entropy, Fault, Frame, FrameKind, Log, Partition, Producer, Records, Store,
    Timestamp,
};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::runtime::Runtime;
use crate::store_time::StoreTime;

/// The pause before a frame is sent again; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where records stand in the log, for a reader that waits until they are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partition.
    pub partition: Partition,
    /// The producer that appended it.
    pub producer: Producer,
    /// Its number among the producer's.
    pub sequence: u64,
    /// When it was first sent, in store time.
    pub time: Timestamp,
    /// The index in the frame of the first of these records: 0 for a frame that its caller filled alone. Positions
    /// that clients are given name the frame only.
    pub record: u32,
}

/// Records for one partition, which go into one frame.
#[derive(Clone, Debug)]
pub struct Load {
    /// The partition.
    pub at: Partition,
    /// The records.
    pub records: Records,
    /// No try is sent later than this, in the runtime's local time.
    pub until: Option<Duration>,
}

/// Appends frames to any partition.
#[derive(Debug)]
pub struct Appender {
    log: Arc<dyn Log>,
    time: StoreTime,
    runtime: Arc<dyn Runtime>,
    entropy: Arc<dyn Entropy>,
    give_up_after: Duration,
    partitions: Mutex<BTreeMap<Partition, Arc<Turn<Option<Line>>>>>,
}

/// A producer and the number of its next frame.
#[derive(Clone, Copy, Debug)]
struct Line {
    producer: Producer,
    next: u64,
}

/// The turn to append to a partition.
type Held = OwnedMutexGuard<Option<Line>>;

/// Ends a turn whose frame is settled.
fn end(mut turn: Held, line: Line) {
    *turn = Some(Line { next: line.next + 1, ..line });
}

impl Line {
    /// Where the frame of that number stands.
    fn place(self, partition: Partition, time: Timestamp) -> Place {
        Place { partition, producer: self.producer, sequence: self.next, time, record: 0 }
    }
}

impl Appender {
    /// An appender that tries for `give_up_after` to append a frame. That must be far below
    /// [`FORGET_AFTER`](crate::worker::FORGET_AFTER).
    pub fn new(
        log: Arc<dyn Log>,
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        entropy: Arc<dyn Entropy>,
        give_up_after: Duration,
    ) -> Self {
        let time = StoreTime::new(store, Arc::clone(&runtime));
        Appender { log, time, runtime, entropy, give_up_after, partitions: Mutex::default() }
    }

    /// Appends events as one frame.
    pub async fn events(
        &self,
        at: &Partition,
        records: impl Into<Records>,
    ) -> Result<Place, AppendError> {
        self.events_until(at, records, None).await
    }

    /// The same, where no try is sent later than `until`, in the runtime's local time. The frame is given up then:
    /// as unknown if a try may have landed, and otherwise as a fault that says it was not sent.
    pub async fn events_until(
        &self,
        at: &Partition,
        records: impl Into<Records>,
        until: Option<Duration>,
    ) -> Result<Place, AppendError> {
        self.append(at, FrameKind::Events, records.into(), until).await
    }

    /// Appends control records as one frame.
    pub async fn control(
        &self,
        at: &Partition,
        records: impl Into<Records>,
    ) -> Result<Place, AppendError> {
        self.append(at, FrameKind::Control, records.into(), None).await
    }

    /// Appends events to several partitions at once, as one frame each. Loads and outcomes stand in the order of
    /// the partitions, of which none is named twice. It returns when the last frame is settled: this is for logs by
    /// which none can be slower than the others.
    pub async fn round(&self, loads: Vec<Load>) -> Vec<Result<Place, AppendError>> {
        // Callers take several turns in this order, so that they never wait in a circle.
        assert!(loads.is_sorted_by(|one, next| one.at < next.at), "one load for each partition");
        let mut turns = Vec::with_capacity(loads.len());
        for load in &loads {
            turns.push(self.turn(&load.at).await);
        }
        let limit = self.runtime.elapsed() + self.give_up_after;
        let time = match self.time(limit).await {
            Ok(time) => time,
            Err(fault) => return vec![Err(AppendError::Engine(fault)); loads.len()],
        };
        let sent = self.runtime.elapsed();
        let mut results = Vec::with_capacity(loads.len());
        let (mut frames, mut settling) = (Vec::new(), Vec::new());
        for (index, (load, mut turn)) in loads.into_iter().zip(turns).enumerate() {
            if load.until.is_some_and(|until| until <= sent) {
                results.push(Err(too_late()));
                continue;
            }
            let line = self.line(&mut turn);
            frames.push((load.at, frame(FrameKind::Events, line, time, load.records)));
            settling.push((index, turn, line, limit.min(load.until.unwrap_or(limit))));
            // Replaced when the frame is settled.
            results.push(Err(too_late()));
        }
        let outcomes = self.log.append_all(&frames).await;
        let settled = frames.into_iter().zip(outcomes).zip(settling);
        let settled = join_all(settled.map(
            |(((at, frame), outcome), (index, turn, line, limit))| async move {
                let settled = self.settle(&at, frame, sent, limit, outcome).await;
                end(turn, line);
                (index, settled.map(|()| line.place(at, time)))
            },
        ));
        for (index, result) in settled.await {
            results[index] = result;
        }
        results
    }

    async fn append(
        &self,
        at: &Partition,
        kind: FrameKind,
        records: Records,
        until: Option<Duration>,
    ) -> Result<Place, AppendError> {
        let mut turn = self.turn(at).await;
        let limit = self.runtime.elapsed() + self.give_up_after;
        let limit = limit.min(until.unwrap_or(limit));
        let time = self.time(limit).await.map_err(AppendError::Engine)?;
        let sent = self.runtime.elapsed();
        if until.is_some_and(|until| until <= sent) {
            return Err(too_late());
        }
        let line = self.line(&mut turn);
        let frame = frame(kind, line, time, records);
        let outcome = self.log.append(at, &frame).await;
        let settled = self.settle(at, frame, sent, limit, outcome).await;
        end(turn, line);
        settled.map(|()| line.place(at.clone(), time))
    }

    /// Waits for the turn to append to a partition.
    async fn turn(&self, at: &Partition) -> Held {
        let turn = Arc::clone(self.partitions.lock().entry(at.clone()).or_default());
        turn.lock_owned().await
    }

    /// Takes the line of a partition, which is put back when its frame is settled ([`end`]). If that does not
    /// happen, the frame may still be on its way, and the next one begins a new line: frames of two producers have
    /// no order to keep.
    fn line(&self, turn: &mut Held) -> Line {
        let line = turn.take();
        line.unwrap_or_else(|| Line { producer: Producer(self.entropy.next()), next: 0 })
    }

    /// The store's time, asked for again and again until it comes or the time is over.
    async fn time(&self, limit: Duration) -> Result<Timestamp, Fault> {
        let mut pause = FIRST_PAUSE;
        loop {
            let fault = match self.time.now().await {
                Ok(time) => return Ok(time),
                Err(fault) => fault,
            };
            if self.is_over(limit, pause) || !fault.retryable() {
                return Err(fault);
            }
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether no try may be sent after this pause.
    fn is_over(&self, limit: Duration, pause: Duration) -> bool {
        self.runtime.elapsed() + pause >= limit
    }

    /// Appends `frame`, whose first try had this outcome, again and again until it is there for certain or the time
    /// is over. `sent` is when it was first sent; no try is sent at or after `limit`.
    ///
    /// Each try says its own time, so no two are the same bytes. Otherwise a log that lost its end could
    /// hide that: the frames `a b` are read, both are lost, another takes the place of `a`, and then a late
    /// copy of `b` lands where `b` was, to be taken by a cursor for the entry that it vouches for.
    async fn settle(
        &self,
        at: &Partition,
        mut frame: Frame,
        sent: Duration,
        limit: Duration,
        mut outcome: Result<(), AppendError>,
    ) -> Result<(), AppendError> {
        let first = frame.time;
        let mut pause = FIRST_PAUSE;
        let mut unknown = false;
        loop {
            let fault = match outcome {
                Ok(()) => return Ok(()),
                Err(refused @ AppendError::Refused(_)) => return Err(refused),
                Err(AppendError::Unknown(fault)) => {
                    unknown = true;
                    fault
                }
                Err(AppendError::Engine(fault)) => fault,
            };
            if self.is_over(limit, pause) || !fault.retryable() {
                return Err(match unknown {
                    true => AppendError::Unknown(fault),
                    false => AppendError::Engine(fault),
                });
            }
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let since = self.runtime.elapsed().saturating_sub(sent);
            frame.time = first.after(since).max(Timestamp(frame.time.0.saturating_add(1)));
            outcome = self.log.append(at, &frame).await;
        }
    }
}

/// The frame's time was over before its first try.
fn too_late() -> AppendError {
    AppendError::Engine(Fault::Retryable("its time was over before the log could take it".into()))
}

fn frame(kind: FrameKind, line: Line, time: Timestamp, records: Records) -> Frame {
    Frame { kind, producer: line.producer, sequence: line.next, time, records }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::TokioRuntime;
    use async_trait::async_trait;
    use consort_kernel::memory::MemoryLog;
    use consort_kernel::{
        Cursor, Digest, LogEntry, ManualClock, Most, ReadError, SeededEntropy, memory,
    };
    use futures::FutureExt;

    /// A log that takes every frame and says so only from time to time.
    #[derive(Debug, Default)]
    struct Mumbling {
        log: MemoryLog,
        /// How many of the next appends end unknown, or never.
        unknown: Mutex<u32>,
        silent: Mutex<bool>,
    }

    #[async_trait]
    impl Log for Mumbling {
        async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
            self.log.append(at, frame).await?;
            if *self.silent.lock() {
                std::future::pending::<()>().await;
            }
            let mut unknown = self.unknown.lock();
            if *unknown > 0 {
                *unknown -= 1;
                return Err(AppendError::Unknown(Fault::Retryable("mumbled".into())));
            }
            Ok(())
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
            Ok(())
        }
    }

    struct Bed {
        log: Arc<Mumbling>,
        appender: Appender,
        partition: Partition,
    }

    fn bed() -> Bed {
        let log = Arc::new(Mumbling::default());
        let (_, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
        let entropy = Arc::new(SeededEntropy::new(7));
        let (runtime, store) = (TokioRuntime::current(), Arc::new(store));
        let give_up = Duration::from_secs(1);
        let appender = Appender::new(log.clone(), store, runtime, entropy, give_up);
        Bed { log, appender, partition: Partition::new("s".parse().unwrap(), 0) }
    }

    async fn entries(bed: &Bed) -> Vec<LogEntry> {
        let all = bed.log.read(&bed.partition, &Cursor::START, Most::default(), Duration::ZERO);
        all.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeat_has_the_same_sequence_and_never_the_same_bytes() {
        let bed = bed();
        *bed.log.unknown.lock() = 2;
        let place = bed.appender.events(&bed.partition, [[]]).await.unwrap();
        let next = bed.appender.events(&bed.partition, [[]]).await.unwrap();
        assert_eq!((place.sequence, next.sequence), (0, 1));
        assert_eq!(place.producer, next.producer);
        let entries = entries(&bed).await;
        let sequences: Vec<u64> = entries.iter().map(|entry| entry.frame.sequence).collect();
        assert_eq!(sequences, [0, 0, 0, 1]);
        let mut digests: Vec<Digest> = entries.iter().map(|entry| entry.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_settles_each_of_its_frames() {
        let bed = bed();
        let at = |index| Partition::new("s".parse().unwrap(), index);
        bed.appender.events(&at(2), [[]]).await.unwrap();
        // Two of the three end unknown, and are appended once more.
        *bed.log.unknown.lock() = 2;
        let load = |index| Load { at: at(index), records: ["x"].into(), until: None };
        let loads = || (0..3).map(load).collect();
        let first = bed.appender.round(loads()).await;
        let second = bed.appender.round(loads()).await;
        for (index, (first, second)) in first.iter().zip(&second).enumerate() {
            let (first, second) = (first.as_ref().unwrap(), second.as_ref().unwrap());
            assert_eq!(first.partition, at(index as u32));
            assert_eq!(first.producer, second.producer);
            let before = u64::from(index == 2);
            assert_eq!((first.sequence, second.sequence), (before, before + 1));
        }
        let sequences = async |index| {
            let all =
                bed.log.read(&at(index), &Cursor::START, Most::default(), Duration::ZERO).await;
            let all = all.unwrap().into_iter().map(|entry| entry.frame.sequence);
            all.collect::<Vec<u64>>()
        };
        assert_eq!(sequences(0).await, [0, 0, 1]);
        assert_eq!(sequences(1).await, [0, 0, 1]);
        assert_eq!(sequences(2).await, [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_nobody_waits_for_ends_its_producers() {
        let bed = bed();
        bed.appender.events(&bed.partition, [[]]).await.unwrap();
        *bed.log.silent.lock() = true;
        let at = &bed.partition;
        let load = || vec![Load { at: at.clone(), records: ["x"].into(), until: None }];
        assert_eq!(bed.appender.round(load()).now_or_never(), None);
        *bed.log.silent.lock() = false;
        let place = bed.appender.round(load()).await.remove(0).unwrap();
        let entries = entries(&bed).await;
        assert_eq!(entries[0].frame.producer, entries[1].frame.producer);
        assert_eq!(entries[2].frame.producer, place.producer);
        assert_ne!(entries[1].frame.producer, place.producer);
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_unknown_is_given_up_as_unknown() {
        let bed = bed();
        *bed.log.unknown.lock() = u32::MAX;
        let given_up = bed.appender.events(&bed.partition, [[]]).await;
        assert!(matches!(given_up, Err(AppendError::Unknown(_))), "{given_up:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_nobody_waits_for_ends_its_producer() {
        let bed = bed();
        bed.appender.events(&bed.partition, [[]]).await.unwrap();
        *bed.log.silent.lock() = true;
        let dropped = bed.appender.events(&bed.partition, [[]]).now_or_never();
        assert_eq!(dropped, None);
        *bed.log.silent.lock() = false;
        bed.appender.events(&bed.partition, [[]]).await.unwrap();
        let entries = entries(&bed).await;
        assert_eq!(entries[0].frame.producer, entries[1].frame.producer);
        assert_ne!(entries[1].frame.producer, entries[2].frame.producer);
    }
}
