//! The exactly-once worker: folds one partition of a stream into the store, by a [`Plan`].
//!
//! 1. Load the checkpoint and every shard's mark.
//! 2. Read frames from the checkpoint on; plan what they do, leaving out what lies below a shard's mark.
//! 3. Commit to every touched shard, expecting its mark as it was read, and moving it forward.
//! 4. Commit the checkpoint, expecting the old one.
//!
//! A crash between 3 and 4 re-reads the batch, and shards that took it are skipped by their marks. An owner
//! that was paused and wakes up late finds a mark moved, and is refused. Whatever goes wrong, the answer is
//! the same: load again, and go on from what is there.

mod apply;
mod cells;
mod control;
mod ids;
mod keeping;
mod plan;
mod planner;
mod reader;
mod rehearsal;
mod resolve;
mod setback;
mod sheet;
mod shown;
mod slices;
mod stand;

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{
    Cell, Entropy, Kind, Log, LogEntry, Most, Name, Partition, Shard, Store, Timestamp, Value,
};
use futures::future::{Either, select};

use crate::appender::Appender;
use crate::role::Role;
use crate::runtime::Runtime;
use crate::tenure::{Ended, Tenure};
use cells::Loaded;
pub use cells::{Cells, ReadCellError};
pub use control::Control;
use keeping::KeptMemory;
pub use plan::{ExpiredRange, Folding, Memory, Plan, Record, RejectCause};
use reader::{Reader, bytes_of};
pub use rehearsal::{Rehearsal, RehearsedStep};
pub use resolve::{ResolveError, Resume, resolve};
use setback::Setback;
pub use sheet::{FULL_BYTES, FULL_STEPS, SLICE_STEPS, Sheet, Spot};
pub use stand::{Checkpoint, FORGET_AFTER, Mark, Passed, Position, Stand};

/// How often checkpoint and marks are read again although nothing seems wrong, so that a shard that was
/// rolled back is noticed even if nothing more is committed to it.
const LOAD_EVERY: Duration = Duration::from_secs(10);

/// The first pause after a setback; each further one is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The kind of the roles that fold partitions.
pub const KIND: &str = "worker";

/// The role that folds partition `index` of a stream.
pub fn role(stream: &Name, index: u32) -> Role {
    Role::new(KIND, format!("{stream}/{index}"))
}

/// What a worker is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the frames are.
    pub log: Arc<dyn Log>,
    /// Where they are folded into.
    pub store: Arc<dyn Store>,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What to work on.
    pub partition: Partition,
    /// The set of plans that advance together; each pipeline has its own checkpoint and marks.
    pub pipeline: Name,
    /// What records do.
    pub plan: Arc<dyn Plan>,
    /// Appends the ticks.
    pub appender: Arc<Appender>,
    /// How much is read at once. Two such batches are in memory: one is committed while the next is read.
    pub batch: Most,
    /// How far apart batches begin while there is load, so that more of their updates merge. What comes
    /// after a silence is read at once, and so is a backlog; and a load that ends is not waited for.
    pub linger: Duration,
    /// How long the worker may get nowhere before it yields to another node.
    pub yield_after: Duration,
}

/// The worker of one tenure.
struct Worker {
    options: Options,
    tenure: Tenure,
    cells: Cells,
    /// Local time of the last sign that all is well.
    well_at: Duration,
    /// The store's time when it was last known, and the local time then.
    store_time: Option<(Timestamp, Duration)>,
    /// Local time when a frame or tick was last seen.
    heard_at: Duration,
    /// The checkpoint's era when it was last loaded.
    era: Option<u64>,
    applied: u64,
    /// The shards that the plan named.
    named: Option<Vec<Shard>>,
    /// The plan's memory, from one load to the next.
    kept: Option<KeptMemory>,
    /// Records before this place are planned alone.
    doubted: Option<Position>,
    /// A rule to break.
    #[cfg(feature = "mutations")]
    mutation: Option<crate::mutation::Mutation>,
    /// What a broken rule takes for known.
    #[cfg(feature = "mutations")]
    shown: parking_lot::Mutex<shown::Shown>,
    /// A memory that a broken rule keeps.
    #[cfg(feature = "mutations")]
    spoiled: parking_lot::Mutex<Option<Memory>>,
}

/// Works until the tenure ends.
///
/// # Panics
///
/// If the plan folds by slices and does not name exactly one shard.
pub async fn run(options: Options, tenure: Tenure) -> Ended {
    Worker::new(options, tenure).run().await
}

/// Works until the tenure ends, with a rule broken: for the simulator. A function of its own rather than
/// an option, so that those who make options need not know whether the feature is on.
#[cfg(feature = "mutations")]
pub async fn run_broken(
    options: Options,
    tenure: Tenure,
    mutation: Option<crate::mutation::Mutation>,
) -> Ended {
    Worker { mutation, ..Worker::new(options, tenure) }.run().await
}

impl Worker {
    fn new(options: Options, tenure: Tenure) -> Self {
        let now = options.runtime.elapsed();
        let shards = options.store.shards();
        let named = options.plan.shards(&options.partition, shards);
        let one = named.as_ref().is_some_and(|named| named.len() == 1);
        let by_slices = options.plan.folding() == Folding::Slices;
        assert!(one || !by_slices, "a plan that folds by slices names exactly one shard");
        let cells = Cells::new(&options.pipeline, &options.partition, shards);
        Worker {
            cells: cells.of_shards(named.clone()),
            named,
            kept: None,
            doubted: None,
            options,
            tenure,
            well_at: now,
            store_time: None,
            heard_at: now,
            era: None,
            applied: 0,
            #[cfg(feature = "mutations")]
            mutation: None,
            #[cfg(feature = "mutations")]
            shown: parking_lot::Mutex::default(),
            #[cfg(feature = "mutations")]
            spoiled: parking_lot::Mutex::default(),
        }
    }

    async fn run(&mut self) -> Ended {
        let mut pause = FIRST_PAUSE;
        loop {
            let before = self.well_at;
            let trouble = match self.go_on().await {
                Ok(()) => return Ended::Drained,
                Err(Setback::Loss(reason)) => match self.stop(reason).await {
                    true => continue,
                    false => return Ended::Drained,
                },
                Err(Setback::Oversized(refusal)) => {
                    match self.stop(Setback::too_much(&refusal)).await {
                        true => continue,
                        false => return Ended::Drained,
                    }
                }
                Err(Setback::Due) => continue,
                Err(Setback::Doubted(before)) => {
                    self.doubted = Some(before);
                    continue;
                }
                Err(Setback::Stale) => None,
                Err(Setback::Fault(fault)) => Some(fault.to_string()),
            };
            if self.well_at > before {
                pause = FIRST_PAUSE;
            }
            if let Some(reason) = self.stands_still(trouble.as_deref()) {
                return Ended::Yielded { reason };
            }
            self.tenure.say(|gauge| gauge.trouble = trouble);
            let jitter = pause.mul_f64((self.options.entropy.next() % 1000) as f64 / 2000.0);
            tokio::select! {
                biased;
                () = self.tenure.ending() => return Ended::Drained,
                () = self.options.runtime.sleep(pause / 2 + jitter) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Why another node should try, if this one gets nowhere.
    fn stands_still(&self, trouble: Option<&str>) -> Option<String> {
        let still = self.options.runtime.elapsed().saturating_sub(self.well_at);
        (still >= self.options.yield_after).then(|| {
            let reason = trouble.unwrap_or("its commits are refused: another owner is at work");
            format!("{} has stood still for {still:?}: {reason}", self.options.partition)
        })
    }

    /// Stays where it is, visibly, until an operator has decided (true) or the tenure ends (false).
    async fn stop(&mut self, reason: String) -> bool {
        let partition = &self.options.partition;
        tracing::error!(%partition, %reason, "the partition is stopped until an operator decides");
        self.tenure.say(|gauge| gauge.stopped = Some(reason));
        let (home, key) = (self.cells.home(), self.cells.checkpoint());
        // Not the era that is there now: the operator may have decided since the loss was found.
        let mut before = self.era;
        loop {
            let mut wake = self.options.store.watch(home, &key);
            let now = self.era().await;
            before = before.or(now);
            if now > before {
                self.tenure.say(|gauge| gauge.stopped = None);
                self.well_at = self.options.runtime.elapsed();
                return true;
            }
            tokio::select! {
                biased;
                () = self.tenure.ending() => return false,
                () = wake.changed() => {}
                () = self.options.runtime.sleep(LOAD_EVERY) => {}
            }
        }
    }

    /// The era of the checkpoint, if it can be read now.
    async fn era(&self) -> Option<u64> {
        let checkpoint = self.cells.read_checkpoint(&*self.options.store).await;
        checkpoint.ok().map(|checkpoint| checkpoint.stand.era)
    }

    /// Loads, then reads and applies until the tenure ends.
    async fn go_on(&mut self) -> Result<(), Setback> {
        let Options { store, log, partition, .. } = &self.options;
        let mut loaded = self.cells.load(&**store, &**log, partition).await?;
        self.era = Some(loaded.checkpoint.value.stand.era);
        loaded.verify_era()?;
        if self.checks_digests() {
            loaded.verify_ahead(&**log, partition, loaded.start.next).await?;
        }
        if !loaded.rolled_back.is_empty() {
            tracing::error!(
                %partition, shards = ?loaded.rolled_back,
                "shards hold less than they did: the engine lost data; they are applied again from their marks"
            );
        }
        loaded.memory = self.kept_memory(&loaded);
        let load_again = self.options.runtime.elapsed() + LOAD_EVERY;
        self.tenure.ready();
        let mut stand = loaded.start.clone();
        let mut batch = self.read(&stand).await?;
        if let Some(entries) = &batch {
            let now = self.options.store.now().await?;
            self.take_up(entries, (now, self.options.runtime.elapsed()));
        }
        while let Some(entries) = batch {
            self.heed(&entries, stand.watermark()).await?;
            if self.options.runtime.elapsed() >= load_again {
                self.kept = Some(KeptMemory::new(loaded));
                return Err(Setback::Due);
            }
            batch = self.turn(&mut loaded, &mut stand, &entries).await?;
        }
        Ok(())
    }

    /// Applies `entries` while the next ones are read.
    async fn turn(
        &mut self,
        loaded: &mut Loaded,
        stand: &mut Stand,
        entries: &[LogEntry],
    ) -> Result<Option<Vec<LogEntry>>, Setback> {
        let mut behind = stand.clone();
        for entry in entries {
            (behind.next, behind.last) = (entry.offset + 1, Some((entry.offset, entry.digest)));
        }
        let began = self.options.runtime.elapsed();
        let mut reader = Reader::of(self);
        reader.not_before = self.next_read(began, entries);
        let backlog = reader.not_before.is_zero();
        let (applied, mut next, waited) = {
            let apply = Box::pin(self.apply(loaded, stand.clone(), entries));
            let read = Box::pin(reader.read(&behind));
            match select(apply, read).await {
                Either::Left((applied, read)) => {
                    let applied = applied?;
                    if !backlog {
                        let local = self.options.runtime.elapsed();
                        self.tenure.say(|gauge| {
                            (gauge.lag, gauge.in_hand_since) = (Some(Duration::ZERO), None);
                            gauge.work_ends(local);
                        });
                    }
                    (applied, read.await, false)
                }
                Either::Right((next, apply)) => (apply.await?, next, true),
            }
        };
        if let Ok(Some(entries)) = &mut next
            && waited
        {
            reader.top_up(entries).await;
        }
        *stand = applied.stand;
        self.doubted = self.doubted.filter(|doubted| stand.position() < *doubted);
        self.applied += applied.records;
        self.well_at = self.options.runtime.elapsed();
        let next = next?;
        let records = self.applied;
        self.tenure.say(|gauge| (gauge.applied, gauge.trouble) = (records, None));
        self.take_up(next.as_deref().unwrap_or_default(), applied.known);
        Ok(next)
    }

    /// Has `entries` in hand now.
    fn take_up(&mut self, entries: &[LogEntry], known: (Timestamp, Duration)) {
        self.store_time = Some(known);
        self.tell_behind(entries.first(), known);
    }

    /// Tells how far behind it is when this is the first that is not applied. It may have come since the store's
    /// time was asked for.
    fn tell_behind(&self, first: Option<&LogEntry>, known: (Timestamp, Duration)) {
        let (now, at) = known;
        let first = first.map(|first| first.frame.time);
        let local = self.options.runtime.elapsed();
        self.tenure.say(|gauge| {
            gauge.lag = Some(first.map(|time| now.since(time)).unwrap_or_default());
            gauge.in_hand_since = first.map(|time| at + time.since(now));
            match first {
                Some(_) => gauge.work_begins(local),
                None => gauge.work_ends(local),
            }
        });
    }

    async fn read(&self, stand: &Stand) -> Result<Option<Vec<LogEntry>>, Setback> {
        Reader::of(self).read(stand).await
    }

    /// When to read on, in local time, after `entries` that were begun at `began`: a little later while
    /// there is some load, at once after a silence and while there is a backlog. A batch that is merely
    /// large is no backlog: the next one, read at once, would be a small one. How much later varies, so that
    /// partitions whose load began together do not work at the same moments for ever.
    fn next_read(&self, began: Duration, entries: &[LogEntry]) -> Duration {
        let full = self.options.batch.reached(entries.len(), bytes_of(entries));
        let Some(last) = entries.last().filter(|_| !full) else { return Duration::ZERO };
        // Some engines give less than is asked for. But when the last of it is old, more waits behind it; older
        // than a frame becomes that came just after the last read.
        let age = self
            .store_time
            .map(|(time, at)| time.after(began.saturating_sub(at)).since(last.frame.time));
        if age.is_some_and(|age| age > 2 * self.options.linger) {
            return Duration::ZERO;
        }
        let part = 0.75 + (self.options.entropy.next() % 1000) as f64 / 2000.0;
        began + self.options.linger.mul_f64(part)
    }

    /// Takes note of what was read, or of silence, which may call for a tick.
    async fn heed(&mut self, entries: &[LogEntry], watermark: Timestamp) -> Result<(), Setback> {
        let now = self.options.runtime.elapsed();
        if !entries.is_empty() {
            self.heard_at = now;
            return Ok(());
        }
        self.well_at = now;
        if let Some(after) = self.options.plan.tick_after()
            && now.saturating_sub(self.heard_at) >= after
        {
            self.heard_at = now;
            if !self.is_awaited(watermark).await? {
                return Ok(());
            }
            let tick = vec![Control::Tick.encode()];
            if let Err(error) = self.options.appender.control(&self.options.partition, tick).await {
                tracing::debug!(partition = %self.options.partition, %error, "no tick");
            }
        }
        Ok(())
    }

    /// Whether somebody waits for the watermark to pass where it stands.
    async fn is_awaited(&self, watermark: Timestamp) -> Result<bool, Setback> {
        let Some((shard, key)) = self.options.plan.awaited() else { return Ok(true) };
        let cell = Cell::new(Kind::Max, key);
        let held = self.options.store.get(shard, &[cell]).await?.into_iter().next().flatten();
        let Some(Value::Max(rank)) = held else { return Ok(false) };
        let rank = <[u8; 8]>::try_from(&rank[..]).unwrap_or_default();
        Ok(watermark < Timestamp(u64::from_be_bytes(rank)))
    }

    fn checks_digests(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(crate::mutation::Mutation::NoDigestCheck) {
            return false;
        }
        true
    }
}

/// What became of a batch.
struct Applied {
    /// Behind its last frame.
    stand: Stand,
    records: u64,
    /// The store's time, and the local time then.
    known: (Timestamp, Duration),
}

#[cfg(test)]
mod tests;
