//! The closer of a view in one shard: closes windows that are due, emits their rows, emits those again whose
//! groups change later, and lets go of windows that were kept for long enough.
//!
//! Everything it does to a window is a commit that expects the window's state cell, so of two closers at the
//! same moment one is refused, and a row is emitted once. A row is never older than its window's last applied
//! event: the closer reads the group's dirty counter, then its value, and commits the row expecting the
//! counter as it was; a worker that changed the group in between has counted it up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::format;
use consort_cluster::{Ended, Runtime, Tenure};
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{
    Cell, Commit, CommitError, Expect, Key, Kind, Moment, Operation, QueryError, Shard, Store,
    Timestamp, Value,
};

use super::emission::Emission;
use super::rules::{Rule, Rules};
use super::watermarks::Watermarks;
use crate::keys;
use crate::view::View;
use crate::window::{Phase, WindowState, Windows};

/// The longest pause between two looks, and so about how late an amended row is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The shortest pause: a window that is due waits for watermarks, which move several times a second.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// A window that waits for a partition for so long after it was due is told as trouble.
const OVERDUE: Duration = Duration::from_secs(10);

/// Groups that become rows, or are let go, in one commit.
pub(super) const GROUPS: usize = 500;

/// What a closer needs.
pub(super) struct Closer {
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) view: Arc<View>,
    pub(super) windows: Windows,
    pub(super) shard: Shard,
    pub(super) watermarks: Arc<Watermarks>,
    pub(super) rules: Rules,
}

/// A window as its state cell was read.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) start: Moment,
    pub(super) state: WindowState,
    pub(super) raw: Bytes,
}

/// Why a round ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// Somebody else changed a cell: look again.
    Stale,
    /// The store did not do it, or something cannot be read.
    Trouble(String),
}

/// What a round found.
#[derive(Debug, Default)]
struct Found {
    /// When the next open window is due.
    next: Option<Timestamp>,
    /// How far the watermarks are awaited.
    awaited: Option<Timestamp>,
    trouble: Option<String>,
}

impl Closer {
    /// Looks again and again until the tenure ends.
    pub(super) async fn run(self, tenure: Tenure) -> Ended {
        let round = || async {
            match self.round().await {
                Ok(found) => found,
                Err(Halt::Stale) => (None, LOOK_SOON),
                Err(Halt::Trouble(trouble)) => (Some(trouble), LOOK_EVERY),
            }
        };
        tenure.rounds(&*self.runtime, round).await
    }

    /// Looks at every window once. Says what hinders, and when to look again.
    pub(super) async fn round(&self) -> Result<(Option<String>, Duration), Halt> {
        let now = self.store.now().await.map_err(|fault| Halt::Trouble(fault.to_string()))?;
        let mut floor = self.floor().await?;
        let mut found = Found::default();
        // Windows are let go from the lowest on, so that the floor never passes one that is still kept.
        let mut lowest = true;
        let mut after: Option<Key> = None;
        loop {
            let prefix = keys::windows(&self.view);
            let page = self.store.scan(self.shard, Kind::Bytes, &prefix, after.as_ref(), PAGE_ROWS);
            let page = page.await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (key, held) in page {
                let window = Window::read(&key, held)?;
                if lowest && floor.1.is_none_or(|floor| window.start >= floor) {
                    match window.state.phase {
                        Phase::Closed { at } if self.windows.is_over(at, now) => {
                            floor = self.raise_floor(floor.0, &window).await?;
                        }
                        _ => lowest = false,
                    }
                }
                if floor.1.is_some_and(|floor| window.start < floor) {
                    self.let_go(window).await?;
                } else {
                    self.attend(window, now, &mut found).await?;
                }
            }
        }
        self.amend().await?;
        if let Some(awaited) = found.awaited {
            self.await_watermarks(awaited).await?;
        }
        let next = found.next.map_or(LOOK_EVERY, |next| next.since(now));
        Ok((found.trouble, next.clamp(LOOK_SOON, LOOK_EVERY)))
    }

    /// Goes on with a window that is not gone.
    async fn attend(&self, window: Window, now: Timestamp, found: &mut Found) -> Result<(), Halt> {
        match &window.state.phase {
            Phase::Closed { .. } | Phase::Leaving => Ok(()),
            Phase::Closing { .. } => self.close(window).await.map(drop),
            Phase::Open => {
                let due = self.windows.due(window.start, Timestamp(window.state.first));
                found.next = Some(found.next.map_or(due, |next| next.min(due)));
                if now < due {
                    return Ok(());
                }
                let slowest = self.watermarks.slowest().await.map_err(Halt::Trouble)?;
                if slowest.watermark >= due || !self.rules.keep(Rule::Watermark) {
                    return self.close(window).await.map(drop);
                }
                found.awaited = found.awaited.max(Some(due));
                if now >= due.after(OVERDUE) {
                    found.trouble = Some(format!(
                        "the window {} of the view {} is due, and waits for {}: its log time stands \
                         {:?} before that",
                        window.start,
                        self.view.name,
                        slowest.partition,
                        due.since(slowest.watermark),
                    ));
                }
                Ok(())
            }
        }
    }

    /// Makes rows of all groups of a window, from where its scan stands.
    pub(super) async fn close(&self, mut window: Window) -> Result<Window, Halt> {
        if window.state.phase == Phase::Open {
            let phase = Phase::Closing { after: None };
            window = self.put(&window, WindowState { phase, ..window.state.clone() }).await?;
        }
        let (prefix, kind) =
            (keys::window_groups(&self.view, window.start), self.view.aggregate.cells());
        loop {
            let after = window.state.scanned();
            let page = self.store.scan(self.shard, kind, &prefix, after.as_ref(), GROUPS).await?;
            let groups: Vec<Key> = page.into_iter().map(|(key, _)| key).collect();
            if groups.is_empty() {
                let now = self.store.now().await;
                let at = now.map_err(|fault| Halt::Trouble(fault.to_string()))?.0;
                let closed = WindowState { phase: Phase::Closed { at }, ..window.state.clone() };
                return self.put(&window, closed).await;
            }
            let (commit, taken) = self.rows(&window, &groups, 1).await?;
            let Some(last) = taken.checked_sub(1).and_then(|at| groups.get(at)) else { continue };
            let scanned = window.state.scanned_to(last);
            window = self.put_with(&window, scanned, commit).await?;
        }
    }

    /// Emits rows again whose groups changed after they were emitted.
    async fn amend(&self) -> Result<(), Halt> {
        let mut after: Option<Key> = None;
        let prefix = keys::dirties(&self.view);
        loop {
            let page = self.store.scan(self.shard, Kind::Counter, &prefix, after.as_ref(), GROUPS);
            let page = page.await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            let mut by_window: BTreeMap<Moment, Vec<Key>> = BTreeMap::new();
            for group in page.iter().filter_map(|(key, _)| keys::dirty_group(key)) {
                if let Some(start) = keys::window_of(&group) {
                    by_window.entry(start).or_default().push(group);
                }
            }
            for (start, groups) in by_window {
                // While it is closing, those ahead of the scan are met by it, and the others wait.
                if let Some(window) = self.window(start).await?
                    && let Phase::Closed { .. } = window.state.phase
                {
                    self.emit_again(&window, &groups).await?;
                }
            }
        }
    }

    /// Emits the rows of these groups with the next revision.
    pub(super) async fn emit_again(&self, window: &Window, groups: &[Key]) -> Result<(), Halt> {
        let key = keys::amendments(&self.view, window.start);
        let mut left = groups;
        while !left.is_empty() {
            let cell = Cell::new(Kind::Counter, key.clone());
            let before = count(self.store.get(self.shard, &[cell]).await?.into_iter().next());
            // The first rows have revision 1.
            let revision = u64::try_from(before.unwrap_or_default()).unwrap_or_default() + 2;
            let (mut commit, taken) = self.rows(window, left, revision).await?;
            let add = Operation::Add { key: key.clone(), by: 1, on_overflow: None };
            commit.operations.push(add);
            if self.rules.keep(Rule::State) {
                let state = keys::window(&self.view, window.start);
                commit.expects.push(Expect::Bytes(state, Some(window.raw.clone())));
                commit.expects.push(Expect::Counter(key.clone(), before));
            }
            self.store.commit(self.shard, commit).await?;
            left = &left[taken..];
        }
        Ok(())
    }

    /// What emits the rows of the first of `groups`, as many as a commit takes, and of how many it is. The
    /// caller adds what it expects of the window.
    async fn rows(
        &self,
        window: &Window,
        groups: &[Key],
        revision: u64,
    ) -> Result<(Commit, usize), Halt> {
        let dirties = keys::dirties(&self.view);
        let counters: Vec<Key> = groups.iter().map(|group| keys::dirty(&dirties, group)).collect();
        let named: Vec<Cell> =
            counters.iter().map(|key| Cell::new(Kind::Counter, key.clone())).collect();
        // The counters before the values: see above.
        let counts = self.store.get(self.shard, &named).await?;
        let emission = Emission { store: &*self.store, view: &self.view, shard: self.shard };
        let end = self.windows.end_of(window.start);
        let (rows, taken) = emission.rows(groups, window.start, end).await?;
        let mut commit = Commit::of(rows.into_iter().map(|row| row.note(revision)));
        for (key, held) in counters.into_iter().zip(counts).take(taken) {
            let count = count(Some(held));
            if count.is_some() {
                let cell = Cell::new(Kind::Counter, key.clone());
                commit.operations.push(Operation::Delete(cell));
            }
            if self.rules.keep(Rule::Dirty) {
                commit.expects.push(Expect::Counter(key, count));
            }
        }
        Ok((commit, taken))
    }

    /// Asks owners of silent partitions to let time pass.
    async fn await_watermarks(&self, until: Timestamp) -> Result<(), Halt> {
        let (shard, key) = keys::awaited(&self.view.from.name);
        let rank = Bytes::copy_from_slice(&until.0.to_be_bytes());
        self.store.commit(shard, Commit::of([Operation::Max { key, rank }])).await?;
        Ok(())
    }

    async fn floor(&self) -> Result<(Option<Bytes>, Option<Moment>), Halt> {
        let cell = Cell::new(Kind::Bytes, keys::floor(&self.view));
        match self.store.get(self.shard, &[cell]).await?.into_iter().next().flatten() {
            Some(Value::Bytes(raw)) => {
                let floor =
                    format::decode(&raw).map_err(|error| Halt::Trouble(error.to_string()))?;
                Ok((Some(raw), Some(floor)))
            }
            _ => Ok((None, None)),
        }
    }

    async fn window(&self, start: Moment) -> Result<Option<Window>, Halt> {
        let key = keys::window(&self.view, start);
        let cell = Cell::new(Kind::Bytes, key.clone());
        let held = self.store.get(self.shard, &[cell]).await?.into_iter().next().flatten();
        held.map(|held| Window::read(&key, held)).transpose()
    }

    pub(super) async fn put(&self, window: &Window, state: WindowState) -> Result<Window, Halt> {
        self.put_with(window, state, Commit::default()).await
    }

    /// Moves a window to `state` together with what else is to be committed.
    async fn put_with(
        &self,
        window: &Window,
        state: WindowState,
        mut commit: Commit,
    ) -> Result<Window, Halt> {
        let (key, raw) = (keys::window(&self.view, window.start), state.encode());
        commit.operations.push(Operation::Put { key: key.clone(), value: raw.clone() });
        if self.rules.keep(Rule::State) {
            commit.expects.push(Expect::Bytes(key, Some(window.raw.clone())));
        }
        self.store.commit(self.shard, commit).await?;
        Ok(Window { start: window.start, state, raw })
    }
}

fn count(held: Option<Option<Value>>) -> Option<i64> {
    match held.flatten() {
        Some(Value::Counter(count)) => Some(count),
        _ => None,
    }
}

impl Window {
    fn read(key: &Key, held: Value) -> Result<Window, Halt> {
        let trouble = |what: String| Halt::Trouble(format!("the state of a window: {what}"));
        let Value::Bytes(raw) = held else { return Err(trouble("it is of another kind".into())) };
        let start =
            keys::window_of_state(key).ok_or_else(|| trouble("its key has no beginning".into()))?;
        let state = WindowState::decode(&raw).map_err(|error| trouble(error.to_string()))?;
        Ok(Window { start, state, raw })
    }
}

impl From<CommitError> for Halt {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Stale(_) => Halt::Stale,
            // Whether it was done shows by the cells.
            CommitError::Unknown(_) => Halt::Stale,
            other => Halt::Trouble(other.to_string()),
        }
    }
}

impl From<QueryError> for Halt {
    fn from(error: QueryError) -> Self {
        Halt::Trouble(error.to_string())
    }
}

#[cfg(test)]
mod tests;
