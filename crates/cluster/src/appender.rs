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
    /// Whether frames are tried on after their deadlines, to prove that the simulator notices.
    #[cfg(feature = "mutations")]
    tries_late: bool,
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
        Appender {
            log,
            time,
            runtime,
            entropy,
            give_up_after,
            partitions: Mutex::default(),
            #[cfg(feature = "mutations")]
            tries_late: false,
        }
    }

    /// The same appender, with the deadlines of frames ignored once their first try was sent.
    #[cfg(feature = "mutations")]
    pub fn trying_late(self) -> Self {
        Appender { tries_late: true, ..self }
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
        let last_try = limit.min(until.unwrap_or(limit));
        let time = self.time(last_try).await.map_err(AppendError::Engine)?;
        #[cfg(feature = "mutations")]
        let last_try = if self.tries_late { limit } else { last_try };
        let sent = self.runtime.elapsed();
        if until.is_some_and(|until| until <= sent) {
            return Err(too_late());
        }
        let line = self.line(&mut turn);
        let frame = frame(kind, line, time, records);
        let outcome = self.log.append(at, &frame).await;
        let settled = self.settle(at, frame, sent, last_try, outcome).await;
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
            let may_go_on = fault.retryable() && !self.is_over(limit, pause);
            if may_go_on {
                self.runtime.sleep(pause).await;
            }
            // Looked at again: the process may have been suspended meanwhile, and the frame's client gone elsewhere.
            if !may_go_on || self.runtime.elapsed() >= limit {
                return Err(match unknown {
                    true => AppendError::Unknown(fault),
                    false => AppendError::Engine(fault),
                });
            }
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
mod tests;
