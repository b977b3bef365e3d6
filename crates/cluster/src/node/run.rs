//! The loop of a node: waits until something is due, and does it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Fault, Key, Operation, Store, Timestamp, Wake};
use futures::FutureExt;
use tokio::sync::watch;

use super::handle::{Health, Shared};
use super::holding::Holdings;
use super::leave::Leaving;
use super::{Left, Options};
use crate::change::{Move, Outcome, change};
use crate::join::no_answer;
use crate::keys;
use crate::lease::Holder;
use crate::load::LoadMeter;
use crate::member::Member;
use crate::report::{Pause, whole_millis};
use crate::role::Role;

/// Which part of the time to live a node drops its work before its leases lapse: the time that ending
/// the tasks takes, and what two clocks may drift apart within one time to live, many times over.
const MARGIN_PART: u32 = 6;

/// How many leases one commit may change. Each is two steps of the commit and one cell of the read that
/// settles an unknown outcome, both far below their limits; on Redis it holds others up for about a
/// millisecond.
pub(super) const LEASES_PER_COMMIT: usize = 400;

/// How often a commit that found something else is tried again within one turn. Each time it goes on from
/// what was found, so the second try fits unless others are just changing the same cells.
pub(super) const TRIES: usize = 4;

/// How soon the loop comes back to what failed.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How far the node can rely on its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Not at all: nothing was renewed in time.
    Lapsed,
    /// Up to this local time.
    Until(Duration),
    /// Fully, although they were not renewed in time: this is the only process.
    Overdue,
}

/// The state of a node between two steps.
#[derive(Debug)]
pub(super) struct NodeLoop {
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    pub(super) me: Holder,
    /// The member cell as it should be.
    pub(super) member: Member,
    /// The member cell as last seen.
    pub(super) member_stored: Option<Bytes>,
    /// The rates of what the process uses and takes in.
    pub(super) meter: LoadMeter,
    /// The report cell as last written.
    pub(super) report_stored: Option<Bytes>,
    pub(super) holdings: Holdings,
    /// Roles with a refusal of this node.
    pub(super) refused: BTreeSet<Role>,
    pub(super) hold: Hold,
    pub(super) beat_at: Duration,
    /// Heartbeats that failed since the last good one.
    pub(super) missed: u32,
    /// Whether the next heartbeat is to be told to all.
    pub(super) tell: bool,
    pub(super) look_at: Duration,
    /// When to come back to what failed.
    pub(super) retry_at: Option<Duration>,
    pub(super) leaving: Option<Leaving>,
    /// Unreadable cells that were told already.
    pub(super) told: BTreeSet<Key>,
    news: Wake,
    stop: watch::Receiver<bool>,
    pub(super) health: watch::Sender<Health>,
}

impl NodeLoop {
    pub(super) fn new(
        options: Options,
        shared: Arc<Shared>,
        member: Member,
        stored: Bytes,
        health: watch::Sender<Health>,
    ) -> Self {
        let now = options.runtime.elapsed();
        NodeLoop {
            me: member.holder(),
            member,
            member_stored: Some(stored),
            meter: LoadMeter::new(),
            report_stored: None,
            holdings: Holdings::default(),
            refused: BTreeSet::new(),
            hold: Hold::Lapsed,
            beat_at: now,
            missed: 0,
            tell: false,
            look_at: now,
            retry_at: None,
            leaving: None,
            told: BTreeSet::new(),
            news: options.lease_store.watch(keys::SHARD, &keys::news()),
            stop: shared.stop.subscribe(),
            health,
            options,
            shared,
        }
    }

    /// Runs until the node has left.
    pub(super) async fn run(mut self) -> Left {
        let left = loop {
            self.wait().await;
            if let Some(left) = self.turn().await {
                break left;
            }
        };
        // Whatever work is left ends before anybody hears that the node has.
        self.holdings = Holdings::default();
        match &left {
            Left::Drained | Left::Stopped => tracing::info!(node = %self.me.id, %left, "left"),
            _ => tracing::error!(node = %self.me.id, %left, "left"),
        }
        self.health.send_replace(Health::Left(left.clone()));
        left
    }

    /// Waits until something may be due.
    async fn wait(&mut self) {
        let left = self.next_due().saturating_sub(self.elapsed());
        if left.is_zero() {
            return;
        }
        let runtime = Arc::clone(&self.options.runtime);
        let mut look = false;
        tokio::select! {
            biased;
            () = runtime.sleep(left) => {}
            _ = self.stop.changed() => {}
            () = self.holdings.changed(&*runtime) => {}
            () = self.shared.nudge.notified() => look = true,
            () = self.news.changed() => look = true,
        }
        if look {
            self.look_at = self.elapsed();
        }
    }

    /// When something is due at the latest.
    fn next_due(&self) -> Duration {
        let looks = self.leaving.is_none() && !self.is_fenced();
        let look_at = looks.then_some(self.look_at);
        let due = [self.fence_at(), look_at, self.retry_at, self.holdings.next_end_by()];
        due.into_iter().flatten().fold(self.beat_at, Duration::min)
    }

    /// Does what is due.
    async fn turn(&mut self) -> Option<Left> {
        let runtime = Arc::clone(&self.options.runtime);
        // Takes note of what ended while a store call was waited for.
        let _ = self.holdings.changed(&*runtime).now_or_never();
        self.retry_at = None;
        self.fence_if_due();
        self.holdings.drop_overdue(self.elapsed());
        if *self.stop.borrow_and_update() {
            self.begin_leaving(Left::Stopped);
        }
        if self.beat_at <= self.elapsed()
            && let Some(replaced) = self.beat().await
        {
            return Some(replaced);
        }
        self.measure_pauses().await;
        self.release_ended().await;
        if self.leaving.is_some() {
            return self.leave_if_empty().await;
        }
        if !self.is_fenced() && self.look_at <= self.elapsed() {
            self.look().await;
        }
        None
    }

    /// Local time.
    pub(super) fn elapsed(&self) -> Duration {
        self.options.runtime.elapsed()
    }

    /// Whether leases may have lapsed: then nothing is worked on and nothing is taken.
    pub(super) fn is_fenced(&self) -> bool {
        self.hold == Hold::Lapsed
    }

    /// The local time at which leases count as lapsing, if they can.
    fn fence_at(&self) -> Option<Duration> {
        match self.hold {
            Hold::Until(at) => Some(at),
            Hold::Lapsed | Hold::Overdue => None,
        }
    }

    /// How long after a heartbeat was begun its leases can be relied on.
    pub(super) fn reliable_for(&self) -> Duration {
        self.options.ttl - self.options.ttl / MARGIN_PART
    }

    /// Comes back soon to something that failed.
    pub(super) fn retry_soon(&mut self) {
        self.retry_at = Some(self.elapsed() + RETRY_AFTER);
    }

    /// Drops all work if leases are about to lapse. Nothing is safe because of it: two owners at once
    /// are slow, and this spares it.
    fn fence_if_due(&mut self) {
        if self.fence_at().is_none_or(|at| self.elapsed() < at) {
            return;
        }
        let reason = "the store did not take a heartbeat in time";
        if self.options.sole {
            return self.note_overdue(reason);
        }
        self.hold = Hold::Lapsed;
        let roles = std::mem::take(&mut self.holdings).0.len();
        tracing::warn!(node = %self.me.id, roles, reason, "drops all work before its leases lapse");
        self.options.observer.on_fenced(roles);
        if self.leaving.is_none() {
            self.health.send_replace(Health::Fenced { reason: reason.into() });
        }
    }

    /// Reports that heartbeats are late, and keeps the work.
    ///
    /// A lease that lapses matters only to a process that could take it. A sole node's store has no such
    /// process: the memory engine lives inside this one, and the embedded engine's folder is locked for as
    /// long as this one runs, stopped and suspended time included. A process that opens the folder later
    /// proves by that alone that this one is dead, and voids its leases without a look at the time. Dropping
    /// the work would protect nothing, and would add to the disk's load when the work starts again.
    fn note_overdue(&mut self, reason: &str) {
        self.hold = Hold::Overdue;
        let roles = self.holdings.0.len();
        tracing::warn!(
            node = %self.me.id, roles, reason,
            "heartbeats are late, since the store is slow; work goes on, as no other process can take it"
        );
        if self.leaving.is_none() {
            self.health.send_replace(Health::Late { reason: reason.into() });
        }
    }

    /// Waits for a store call, and drops all work should the leases come to their end meanwhile. `None` if
    /// there is no answer within a time to live: by then all that it was good for is over.
    pub(super) async fn call<T>(&mut self, work: impl Future<Output = T> + Send) -> Option<T> {
        let mut work = pin!(work);
        let give_up_at = self.elapsed() + self.options.ttl;
        loop {
            let next = self.fence_at().map_or(give_up_at, |at| at.min(give_up_at));
            let sleep = self.options.runtime.sleep(next.saturating_sub(self.elapsed()));
            let result = tokio::select! {
                biased;
                result = &mut work => Some(result),
                () = sleep => None,
            };
            // Also when the call did return: the whole process may have been paused in it.
            self.fence_if_due();
            if result.is_some() || give_up_at <= self.elapsed() {
                return result;
            }
        }
    }

    /// The store's time.
    pub(super) async fn now(&mut self) -> Result<Timestamp, Fault> {
        let store = Arc::clone(&self.options.lease_store);
        let ttl = self.options.ttl;
        self.call(store.now()).await.unwrap_or_else(|| Err(no_answer(ttl)))
    }

    /// Changes cells of the cluster.
    pub(super) async fn change(&mut self, moves: &[Move], also: Vec<Operation>) -> Outcome {
        let store: Arc<dyn Store> = Arc::clone(&self.options.lease_store);
        let ttl = self.options.ttl;
        let outcome = self.call(change(&*store, moves, also)).await;
        outcome.unwrap_or_else(|| Outcome::Failed(no_answer(ttl)))
    }

    /// Measures the pause of each role whose work has begun.
    async fn measure_pauses(&mut self) {
        if self.holdings.0.values().all(|holding| holding.began.is_none()) {
            return;
        }
        let Ok(now) = self.now().await else { return self.retry_soon() };
        let local = self.elapsed();
        for (role, holding) in &mut self.holdings.0 {
            let Some(began) = holding.began.take() else { continue };
            let began = earlier(now, local.saturating_sub(began));
            let pause = began.since(holding.before.since);
            let cause = holding.before.cause;
            holding.pause = Some(Pause { cause, millis: whole_millis(pause) });
            self.options.observer.on_pause(role, cause, pause);
            let (cause, epoch) = (cause.as_str(), holding.lease.epoch);
            tracing::debug!(%role, epoch, cause, ?pause, "work began");
        }
    }
}

/// The time `by` before `now`.
pub(super) fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(whole_millis(by)))
}
