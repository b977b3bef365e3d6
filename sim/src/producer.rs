//! Those who append: through the product's appender, and by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Control, FULL_STEPS};
use consort_cluster::{Appender, Runtime};
use consort_kernel::{AppendError, Frame, FrameKind, Log, Producer, Store, Timestamp};
use futures::future::join;

use crate::dice::Dice;
use crate::event::{AFTERWARDS, Event, PRIVATE};
use crate::ledger::Ledger;
use crate::runtime::NodeRuntime;
use crate::shape::{Shape, Twist};
use crate::tally::PART;

/// Records in a frame at most.
const RECORDS: u64 = 4;

/// Members that a large record adds: it fills a commit, and what follows in its frame comes in another.
const LARGE: u16 = FULL_STEPS as u16 + 10;

/// How far ahead of its frame's time a record's own time may lie, or behind it.
const SPREAD_OF_TIMES: u64 = 3_000;

/// How often a raw producer sends a frame before it gives it up.
const TRIES: u64 = 6;

/// What all producers of a run share.
#[derive(Debug)]
pub(crate) struct Source {
    /// What the run looks like.
    pub(crate) shape: Shape,
    /// What they were told.
    pub(crate) ledger: Ledger,
    /// Frames that may still be sent.
    left: AtomicU64,
    /// Whether the lossy partition has lost its tail.
    lost: AtomicBool,
}

/// What a producer sends over.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The log.
    pub(crate) log: Arc<dyn Log>,
    /// The store's clock.
    pub(crate) store: Arc<dyn Store>,
    /// Timers.
    pub(crate) runtime: Arc<NodeRuntime>,
}

impl Source {
    /// The source of a run of this shape.
    pub(crate) fn new(shape: Shape) -> Self {
        let left = AtomicU64::new(shape.frames);
        Source { shape, ledger: Ledger::default(), left, lost: AtomicBool::new(false) }
    }

    /// No more frames are begun.
    pub(crate) fn stop(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Records of the lossy partition go to other groups from now on.
    pub(crate) fn tail_is_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Records for a partition, and their serials.
    pub(crate) fn events(
        &self,
        dice: &Dice,
        partition: u32,
        now: Timestamp,
    ) -> (Vec<Bytes>, Vec<u64>) {
        let shape = &self.shape;
        let lossy = shape.lossy == Some(partition);
        let lost = lossy && self.lost.load(Ordering::Relaxed);
        let first_group = match (lossy, lost) {
            (true, true) => AFTERWARDS,
            (true, false) => PRIVATE,
            (false, _) => 0,
        };
        let mut records = Vec::new();
        let mut serials = Vec::new();
        for _ in 0..dice.below(RECORDS + 1) {
            // Those that come after a loss have ids of their own, too.
            let id = u64::from(lost) * shape.ids + 1 + dice.below(shape.ids);
            let event = Event {
                serial: self.ledger.serial(),
                group: first_group + dice.below(u64::from(shape.groups)) as u16,
                value: dice.below(2_000) as i64 - 1_000,
                id: if dice.per_mille(400) { id } else { 0 },
                time: now.0 + dice.below(SPREAD_OF_TIMES) - SPREAD_OF_TIMES / 2,
                spread: if dice.per_mille(shape.large) { LARGE } else { 0 },
            };
            serials.push(event.serial);
            records.push(event.encode());
        }
        (records, serials)
    }
}

/// Appends through `appender` until there is nothing left to send.
pub(crate) async fn through_appender(
    source: Arc<Source>,
    dice: Dice,
    line: Line,
    appender: Arc<Appender>,
) {
    let shape = &source.shape;
    loop {
        line.runtime.sleep(dice.time(shape.gap)).await;
        let Ok(now) = line.store.now().await else { continue };
        if !source.take() {
            return;
        }
        let partition = dice.below(u64::from(shape.partitions)) as u32;
        let at = shape.partition(partition);
        if dice.per_mille(50) {
            // A control record goes to a group of its partition, as events do.
            let group = match shape.lossy {
                Some(lossy) if lossy == partition => PRIVATE,
                _ => 0,
            };
            let word = Control::Word { part: PART.into(), text: group.to_string() };
            let _ = appender.control(&at, vec![word.encode()]).await;
            continue;
        }
        let (records, serials) = source.events(&dice, partition, now);
        let ticket = source.ledger.open(partition, serials);
        match appender.events(&at, records).await {
            Ok(place) => source.ledger.acknowledge(ticket, place.producer, place.sequence),
            Err(error) => source.ledger.fail(ticket, &error),
        }
    }
}

/// Makes frames by hand, as another implementation would: with gaps in its numbers, a clock that is not
/// quite right, and repeats that nobody asked for.
pub(crate) async fn by_hand(source: Arc<Source>, dice: Dice, line: Line) {
    let partition = dice.below(u64::from(source.shape.partitions)) as u32;
    let hand = Hand { source, dice, line, partition };
    let producer = Producer(hand.dice.below(u64::MAX));
    let mut sequence = hand.dice.below(1_000);
    let mut sent: Vec<Frame> = Vec::new();
    loop {
        hand.line.runtime.sleep(hand.dice.time(hand.source.shape.gap)).await;
        let Ok(now) = hand.line.store.now().await else { continue };
        if !hand.source.take() {
            return;
        }
        sequence += 1 + u64::from(hand.dice.per_mille(50));
        let first = hand.frame(producer, sequence, now);
        if hand.source.shape.twist == Some(Twist::TwoInFlight) {
            sequence += 1;
            let second = hand.frame(producer, sequence, now);
            join(hand.send(first), hand.send(second)).await;
            continue;
        }
        let frame = first.0.clone();
        if hand.send(first).await {
            sent.push(frame);
        }
        if hand.dice.per_mille(100)
            && let Some(again) = hand.dice.pick(&(0..sent.len()).collect::<Vec<_>>())
        {
            let at = hand.source.shape.partition(partition);
            let _ = hand.line.log.append(&at, &sent[again]).await;
        }
    }
}

struct Hand {
    source: Arc<Source>,
    dice: Dice,
    line: Line,
    partition: u32,
}

impl Hand {
    fn frame(&self, producer: Producer, sequence: u64, now: Timestamp) -> (Frame, Vec<u64>) {
        let (records, serials) = self.source.events(&self.dice, self.partition, now);
        let time = Timestamp(now.0 + self.dice.below(1_000) - 500);
        (
            Frame { kind: FrameKind::Events, producer, sequence, time, records: records.into() },
            serials,
        )
    }

    /// Sends a frame until it is there (true), or for long enough.
    async fn send(&self, (frame, serials): (Frame, Vec<u64>)) -> bool {
        let at = self.source.shape.partition(self.partition);
        let ticket = self.source.ledger.open(self.partition, serials);
        let mut last = None;
        for _ in 0..TRIES {
            match self.line.log.append(&at, &frame).await {
                Ok(()) => {
                    self.source.ledger.acknowledge(ticket, frame.producer, frame.sequence);
                    return true;
                }
                Err(AppendError::Unknown(fault)) => last = Some(AppendError::Unknown(fault)),
                Err(error) => last = last.or(Some(error)),
            }
            self.line.runtime.sleep(self.dice.time(Duration::from_millis(200))).await;
        }
        if let Some(error) = last {
            self.source.ledger.fail(ticket, &error);
        }
        false
    }
}
