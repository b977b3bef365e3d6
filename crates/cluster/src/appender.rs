//! The appender: one producer for each partition, which keeps one frame in flight.
//!
//! A frame is confirmed, repeated or given up before the next one of its producer is sent. So a repeat
//! after an unknown outcome can put a frame into the log twice, but never out of order, and workers drop
//! what they have passed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{
    AppendError, Entropy, Frame, FrameKind, Log, Partition, Producer, Store, Timestamp,
};
use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

use crate::runtime::Runtime;

/// The pause before a frame is sent again; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where a frame stands, for whoever wants to read what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partition.
    pub partition: Partition,
    /// Who appended it.
    pub producer: Producer,
    /// Its number among the producer's.
    pub sequence: u64,
}

/// Appends frames to any partition.
#[derive(Debug)]
pub struct Appender {
    log: Arc<dyn Log>,
    store: Arc<dyn Store>,
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
        let partitions = Mutex::default();
        Appender { log, store, runtime, entropy, give_up_after, partitions }
    }

    /// Appends events as one frame.
    pub async fn events(&self, at: &Partition, records: Vec<Bytes>) -> Result<Place, AppendError> {
        self.append(at, FrameKind::Events, records).await
    }

    /// Appends control records as one frame.
    pub async fn control(&self, at: &Partition, records: Vec<Bytes>) -> Result<Place, AppendError> {
        self.append(at, FrameKind::Control, records).await
    }

    async fn append(
        &self,
        at: &Partition,
        kind: FrameKind,
        records: Vec<Bytes>,
    ) -> Result<Place, AppendError> {
        let turn = Arc::clone(self.partitions.lock().entry(at.clone()).or_default());
        let mut turn = turn.lock().await;
        // The line is put back when the frame is settled. If this future is dropped before, nobody knows
        // whether the frame is still on its way, and the next one begins a new line: frames of two
        // producers have no order to keep.
        let line = turn.take();
        let line =
            line.unwrap_or_else(|| Line { producer: Producer(self.entropy.next()), next: 0 });
        let time = self.store.now().await.map_err(AppendError::Engine);
        let result = match time {
            Ok(time) => self.settle(at, frame(kind, line, time, records)).await,
            Err(error) => Err(error),
        };
        *turn = Some(Line { next: line.next + 1, ..line });
        result.map(|()| Place {
            partition: at.clone(),
            producer: line.producer,
            sequence: line.next,
        })
    }

    /// Appends `frame`, again and again until it is there for certain or the time is over.
    async fn settle(&self, at: &Partition, frame: Frame) -> Result<(), AppendError> {
        let began = self.runtime.elapsed();
        let mut pause = FIRST_PAUSE;
        let mut unknown = false;
        loop {
            let fault = match self.log.append(at, &frame).await {
                Ok(()) => return Ok(()),
                Err(refused @ AppendError::Refused(_)) => return Err(refused),
                Err(AppendError::Unknown(fault)) => {
                    unknown = true;
                    fault
                }
                Err(AppendError::Engine(fault)) => fault,
            };
            let over = self.runtime.elapsed().saturating_sub(began) >= self.give_up_after;
            if over || !fault.retryable() {
                return Err(match unknown {
                    true => AppendError::Unknown(fault),
                    false => AppendError::Engine(fault),
                });
            }
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn frame(kind: FrameKind, line: Line, time: Timestamp, records: Vec<Bytes>) -> Frame {
    Frame { kind, producer: line.producer, sequence: line.next, time, records }
}
