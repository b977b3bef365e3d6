//! The supervisor of a database: how many workers there should be, when a snapshot is made, and what the store lets
//! go of. Nothing that clients depend on stands still without it.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_cluster::{Ended, Tenure};
use consort_kernel::{Cell, Commit, Cursor, Expect, Kind, Most, Operation, Timestamp};
use tokio::time::{Instant, sleep};

use super::growth::{FeedGrowth, SAMPLE_BYTES, SAMPLE_ENTRIES};
use super::sight::SupervisorSight;
use super::wanted::{SlotWorker, WantedWorkers};
use crate::db::Database;
use crate::head::DbHead;
use crate::settle::Settlement;
use crate::snapshot::sight::SnapshotSight;
use crate::snapshot::sweep::{SweepOutcome, sweep};
use crate::snapshot::trim::{FeedTrimmer, trim};
use crate::store::{DatabaseStore, DbStoreError};
use crate::view::DatabaseView;
use crate::wire::DbFormatError;

/// How often the supervisor looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it looks for entries and chunks that may go.
const CLEAN_EVERY: Duration = Duration::from_secs(10);
/// A worker is taken for dead once it has been seen dead for this long. A look at the workers may be of after a node
/// joined, and the list of members that goes with it of just before.
const DEAD_FOR: Duration = Duration::from_secs(1);
/// How long one commit is repeated.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Supervises a database until the tenure is to end.
pub async fn supervise(database: Database, mut tenure: Tenure) -> Ended {
    let mut supervisor = Supervisor::new(database);
    tenure.ready();
    loop {
        let done = tokio::select! {
            biased;
            () = tenure.ending() => return Ended::Drained,
            done = supervisor.round() => done,
        };
        match done {
            // A newer node wrote a cell: that one can read it.
            Err(DbStoreError::Format(error @ DbFormatError::Version { .. })) => {
                return Ended::Yielded { reason: error.to_string() };
            }
            done => tenure.say(|gauge| gauge.trouble = done.err().map(|error| error.to_string())),
        }
        tokio::select! {
            biased;
            () = tenure.ending() => return Ended::Drained,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// What a supervisor remembers from round to round. All of it may be lost.
#[derive(Debug)]
struct Supervisor {
    database: Database,
    growth: FeedGrowth,
    trimmer: FeedTrimmer,
    clean_due: Instant,
    /// Workers that look dead, and since when.
    suspects: BTreeMap<u64, Timestamp>,
}

impl Supervisor {
    fn new(database: Database) -> Self {
        Supervisor {
            database,
            growth: FeedGrowth::default(),
            trimmer: FeedTrimmer::default(),
            clean_due: Instant::now(),
            suspects: BTreeMap::new(),
        }
    }

    async fn round(&mut self) -> Result<(), DbStoreError> {
        let view = self.database.view().now();
        let is_seen = self.database.own_node().is_some_and(|own| view.nodes.contains_key(&own));
        if !is_seen {
            // The look is of before this node joined: it would take every worker for dead.
            return Ok(());
        }
        let store = self.database.store();
        let now = store.now().await?;
        let sight = SupervisorSight::read(store).await?;
        self.scale(&view, &sight, now).await?;
        self.remove_dead(&view).await?;
        if Instant::now() >= self.clean_due {
            self.clean_due = Instant::now() + CLEAN_EVERY;
            self.clean(now).await?;
        }
        self.ask_for_snapshot(&sight).await
    }

    /// Takes one step of windows and readers. Both cells change in one commit, so that no step is half taken.
    async fn scale(
        &self,
        view: &DatabaseView,
        sight: &SupervisorSight,
        now: Timestamp,
    ) -> Result<(), DbStoreError> {
        let Some(wanted) = &sight.wanted else { return Ok(()) };
        let store = self.database.store();
        let reads = sight.reads(store).await?;
        let readers = u16::try_from(wanted.slots.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let (running, next) = (sight.running(store).await?, sight.window.next());
        let step = self.database.settings().readers.step(running, next, reads, readers, now);
        let window = sight.window.after(&step);
        let planned = wanted.with_readers(step.readers, &slot_workers(view, sight.head.as_ref()));
        let shrinks = step.readers < readers;
        let leader_is_known = view.leader().is_some() || view.stopped().is_some();
        if shrinks && !leader_is_known {
            // A worker that is about to lead must not lose its slot: the step waits for the next round.
            return Ok(());
        }
        if window == sight.window && planned.is_none() {
            return Ok(());
        }
        if let Some(next) = &planned {
            let name = self.database.name();
            tracing::info!(database = name, readers, wanted = step.readers, reads, slots = ?next.slots, "plans workers");
        }
        let commit = sight.replace(store, Some(&window), planned.as_ref());
        apply(store, &commit).await.map(drop)
    }

    /// Deletes the cells of workers whose process is dead.
    async fn remove_dead(&mut self, view: &DatabaseView) -> Result<(), DbStoreError> {
        let store = self.database.store();
        let since = |id: u64| self.suspects.get(&id).copied().unwrap_or(view.now);
        self.suspects = view.dead.iter().map(|worker| (worker.id, since(worker.id))).collect();
        for worker in &view.dead {
            let since = self.suspects.get(&worker.id);
            if since.is_none_or(|since| view.now.since(*since) < DEAD_FOR) {
                continue;
            }
            let key = store.cells().worker(worker.id);
            let commit = Commit::of([Operation::Delete(Cell::new(Kind::Bytes, key.clone()))])
                .expecting(Expect::Bytes(key, Some(worker.encode())));
            if apply(store, &commit).await? {
                let name = self.database.name();
                tracing::info!(
                    database = name,
                    worker = worker.id,
                    node = worker.node,
                    "a worker is dead"
                );
            }
        }
        Ok(())
    }

    /// Lets go of entries and chunks that no worker needs, and looks how old the newest snapshot is.
    async fn clean(&mut self, now: Timestamp) -> Result<(), DbStoreError> {
        let store = self.database.store();
        let seen = SnapshotSight::read(store).await?;
        let Some(head) = &seen.head else { return Ok(()) };
        let newest = seen.newest(head.era).map_or(0, |newest| newest.index);
        self.growth.snapshot_is(head.era, newest);
        let manifests = [seen.manifests[0].as_ref(), seen.manifests[1].as_ref()];
        trim(store, &mut self.trimmer, head.era, manifests, now).await?;
        if let SweepOutcome::Swept(chunks) = sweep(store, now).await? {
            tracing::debug!(database = self.database.name(), chunks, "swept");
        }
        Ok(())
    }

    /// Asks for a snapshot if enough of the feed lies behind the newest one.
    async fn ask_for_snapshot(&mut self, sight: &SupervisorSight) -> Result<(), DbStoreError> {
        let (Some(head), Some(wanted)) = (&sight.head, &sight.wanted) else { return Ok(()) };
        let store = self.database.store().clone();
        if wanted.snapshot_behind.is_some_and(|behind| behind > head.index) {
            // It was asked for in an era that has ended.
            let next = WantedWorkers { snapshot_behind: None, ..wanted.clone() };
            return apply(&store, &sight.replace(&store, None, Some(&next))).await.map(drop);
        }
        self.measure(&store, head).await;
        if wanted.snapshot_behind.is_some() || !self.growth.is_due(head.index) {
            return Ok(());
        }
        // One may have been made since the last look.
        let newest = SnapshotSight::read(&store).await?.newest(head.era).map_or(0, |one| one.index);
        self.growth.snapshot_is(head.era, newest);
        if let Some(next) =
            wanted.with_snapshot(head.index).filter(|_| self.growth.is_due(head.index))
        {
            apply(&store, &sight.replace(&store, None, Some(&next))).await?;
        }
        Ok(())
    }

    /// Measures what was appended since the round before.
    async fn measure(&mut self, store: &DatabaseStore, head: &DbHead) {
        let entries = self.growth.unmeasured(head.index);
        if entries.is_empty() {
            return;
        }
        let start = FeedGrowth::sample_start(&entries, self.database.draw());
        let most = Most { entries: SAMPLE_ENTRIES, bytes: SAMPLE_BYTES };
        match store.entries(head.era, &Cursor::at(start), most, Duration::ZERO).await {
            Ok(sample) => {
                let bytes = sample.iter().map(|entry| entry.entry.len() as u64).sum();
                self.growth.add(entries, sample.len() as u64, bytes);
            }
            // The next round measures them, or their number suffices.
            Err(error) => tracing::debug!(%error, "the feed could not be measured"),
        }
    }
}

/// The live workers as planning sees them. The holder of the head counts as the leader, also in a stopped database.
fn slot_workers(view: &DatabaseView, head: Option<&DbHead>) -> Vec<SlotWorker> {
    let holder = head.and_then(|head| head.holder.as_ref()).map(|holder| holder.worker);
    let worker = |worker: &crate::worker::cell::WorkerCell| SlotWorker {
        id: worker.id,
        slot: worker.slot,
        leads: Some(worker.id) == holder,
    };
    view.workers.iter().map(worker).collect()
}

/// Whether the commit was applied. One that was not is planned anew in the next round.
async fn apply(store: &DatabaseStore, commit: &Commit) -> Result<bool, DbStoreError> {
    match store.settle(commit, SETTLE_WITHIN).await {
        Settlement::Applied => Ok(true),
        Settlement::Stale { .. } => Ok(false),
        Settlement::Failed(error) => Err(error),
        Settlement::Unknown(fault) => Err(fault.into()),
    }
}
