//! A steady stream of records to all partitions, and the proof that each was counted just once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_cluster::worker::Cells;
use consort_cluster::{Appender, Place};
use consort_engines::Engine;
use consort_kernel::{Cell, Kind, Records, Store, Value};
use consort_testbed::eventually;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::counting::{PARTITIONS, appender, counter, partition, pipeline};
use super::{PATIENCE, SHARDS};

/// Records a second, over all partitions.
pub(super) const RATE: u32 = 2_000;

/// Records in a frame.
pub(super) const FRAME: u32 = 2;

const TEXTS: [&str; 4] = ["chair", "gondola", "rope", "t-bar"];

/// Between two frames of one partition.
pub(super) fn frame_every() -> Duration {
    Duration::from_secs(1) * FRAME * PARTITIONS / RATE
}

/// Appends until it is told to stop.
#[derive(Debug)]
pub(super) struct Producer {
    stop: watch::Sender<bool>,
    partitions: Vec<JoinHandle<Result<Appended>>>,
    since: Instant,
}

/// What was acknowledged in one partition.
#[derive(Debug)]
struct Appended {
    partition: u32,
    counts: BTreeMap<&'static str, i64>,
    last: Option<Place>,
}

impl Producer {
    pub(super) fn start(engine: &Engine) -> Self {
        let appender = Arc::new(appender(engine));
        let (stop, stopped) = watch::channel(false);
        let append = |index| append(Arc::clone(&appender), index, stopped.clone());
        let partitions = (0..PARTITIONS).map(|index| tokio::spawn(append(index))).collect();
        Producer { stop, partitions, since: Instant::now() }
    }

    /// Stops, waits until all that was appended is applied, and compares. Gives how many records there
    /// were, and how many a second.
    pub(super) async fn check(self, store: &dyn Store) -> Result<(u64, f64)> {
        self.stop.send_replace(true);
        let mut records = 0;
        let mut appended = Vec::new();
        for partition in self.partitions {
            appended.push(partition.await??);
        }
        let time = self.since.elapsed();
        for partition in &appended {
            partition.check(store).await?;
            records += partition.counts.values().sum::<i64>() as u64;
        }
        Ok((records, records as f64 / time.as_secs_f64()))
    }
}

/// Appends to one partition, always as fast as was promised, as long as each append is fast enough.
async fn append(
    appender: Arc<Appender>,
    index: u32,
    stopped: watch::Receiver<bool>,
) -> Result<Appended> {
    let at = partition(index);
    let mut appended = Appended { partition: index, counts: BTreeMap::new(), last: None };
    // The partitions take turns rather than append all at once.
    tokio::time::sleep(frame_every() * index / PARTITIONS).await;
    let mut turns = tokio::time::interval(frame_every());
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut texts = TEXTS.into_iter().cycle();
    while !*stopped.borrow() {
        turns.tick().await;
        let texts: Vec<&'static str> = texts.by_ref().take(FRAME as usize).collect();
        let records: Records = texts.iter().collect();
        appended.last = Some(appender.events(&at, records).await?);
        for text in texts {
            *appended.counts.entry(text).or_default() += 1;
        }
    }
    Ok(appended)
}

impl Appended {
    /// Waits until everything is applied, and compares the counters with what was acknowledged.
    async fn check(&self, store: &dyn Store) -> Result<()> {
        let partition = partition(self.partition);
        let last = self.last.as_ref().context("something was appended")?;
        let cells = Cells::new(&pipeline(), &partition, SHARDS);
        eventually("the last frame of each partition is applied", PATIENCE, || async {
            let checkpoint = cells.read_checkpoint(store).await;
            checkpoint.is_ok_and(|found| found.stand.has_passed(last.producer, last.sequence))
        })
        .await;
        for (text, &appended) in &self.counts {
            let (shard, key) = counter(self.partition, text.as_bytes());
            let value = store.get(shard, &[Cell::new(Kind::Counter, key)]).await?;
            let counted = match value.first() {
                Some(Some(Value::Counter(counted))) => *counted,
                _ => 0,
            };
            ensure!(
                counted == appended,
                "{partition} counted '{text}' {counted} times, and {appended} were appended"
            );
        }
        Ok(())
    }
}
