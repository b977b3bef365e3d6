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
const GROUPS: usize = 500;

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
struct Window {
    start: Moment,
    state: WindowState,
    raw: Bytes,
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
    pub(super) async fn run(self, mut tenure: Tenure) -> Ended {
        tenure.ready();
        loop {
            let round = tokio::select! {
                biased;
                () = tenure.ending() => return Ended::Drained,
                round = self.round() => round,
            };
            let (trouble, pause) = match round {
                Ok((trouble, pause)) => (trouble, pause),
                Err(Halt::Stale) => (None, LOOK_SOON),
                Err(Halt::Trouble(trouble)) => (Some(trouble), LOOK_EVERY),
            };
            tenure.say(|gauge| gauge.trouble = trouble);
            tokio::select! {
                biased;
                () = tenure.ending() => return Ended::Drained,
                () = self.runtime.sleep(pause) => {}
            }
        }
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
    async fn close(&self, mut window: Window) -> Result<Window, Halt> {
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
            let state =
                WindowState { revision: window.state.revision.max(1), ..window.state.clone() };
            window = self.emit(window, groups, |last| state.scanned_to(last)).await?;
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
                    self.emit_again(window, groups).await?;
                }
            }
        }
    }

    async fn emit_again(&self, mut window: Window, mut groups: Vec<Key>) -> Result<Window, Halt> {
        while !groups.is_empty() {
            let revision = window.state.revision + 1;
            let state = WindowState { revision, ..window.state.clone() };
            let mut done = 0;
            let ends = groups.clone();
            window = self
                .emit(window, groups.clone(), |last| {
                    done = ends.iter().position(|key| key == last).map_or(ends.len(), |at| at + 1);
                    state
                })
                .await?;
            groups.drain(..done);
        }
        Ok(window)
    }

    /// Makes rows of the first of `groups`, as many as a commit takes, and moves the window to what `then`
    /// says of the last of them.
    async fn emit(
        &self,
        window: Window,
        groups: Vec<Key>,
        then: impl FnOnce(&Key) -> WindowState,
    ) -> Result<Window, Halt> {
        let dirties = keys::dirties(&self.view);
        let counters: Vec<Key> = groups.iter().map(|group| keys::dirty(&dirties, group)).collect();
        let named: Vec<Cell> =
            counters.iter().map(|key| Cell::new(Kind::Counter, key.clone())).collect();
        // The counters before the values: see above.
        let counts = self.store.get(self.shard, &named).await?;
        let emission = Emission { store: &*self.store, view: &self.view, shard: self.shard };
        let end = self.windows.end_of(window.start);
        let revision = window.state.revision.max(1);
        let (rows, taken) = emission.rows(&groups, window.start, end).await?;
        let Some(last) = taken.checked_sub(1).and_then(|at| groups.get(at)) else {
            return Ok(window);
        };
        let state = then(last);
        let revision = state.revision.max(revision);
        let mut commit = Commit::of(rows.into_iter().map(|row| row.note(revision)));
        for (key, count) in counters.into_iter().zip(counts).take(taken) {
            let count = match count {
                Some(Value::Counter(count)) => Some(count),
                _ => None,
            };
            if count.is_some() {
                let cell = Cell::new(Kind::Counter, key.clone());
                commit.operations.push(Operation::Delete(cell));
            }
            if self.rules.keep(Rule::Dirty) {
                commit.expects.push(Expect::Counter(key, count));
            }
        }
        self.put_with(&window, state, commit).await
    }

    /// Says that windows up to `start` are gone: from now on no worker changes them.
    async fn raise_floor(
        &self,
        raw: Option<Bytes>,
        window: &Window,
    ) -> Result<(Option<Bytes>, Option<Moment>), Halt> {
        let floor = self.windows.end_of(window.start);
        let (key, value) = (keys::floor(&self.view), format::encode(&floor));
        let put = Operation::Put { key: key.clone(), value: value.clone() };
        let commit = Commit::of([put]).expecting(Expect::Bytes(key, raw)).expecting(Expect::Bytes(
            keys::window(&self.view, window.start),
            Some(window.raw.clone()),
        ));
        if self.rules.keep(Rule::Floor) {
            self.store.commit(self.shard, commit).await?;
        }
        Ok((Some(value), Some(floor)))
    }

    /// Deletes a window below the floor, which no worker changes any more: what changed last is emitted, then
    /// its groups go, its state last.
    async fn let_go(&self, window: Window) -> Result<(), Halt> {
        let window = match window.state.phase {
            Phase::Leaving => window,
            _ if self.rules.keep(Rule::LastRows) => self.emit_last(window).await?,
            _ => window,
        };
        let window = match window.state.phase {
            Phase::Leaving => window,
            // Another closer may be about to emit one of its groups. It expects the state, so from here on
            // it is refused; otherwise it could make a row of a group that is gone.
            _ if self.rules.keep(Rule::Leaving) => {
                let leaving = WindowState { phase: Phase::Leaving, ..window.state.clone() };
                self.put(&window, leaving).await?
            }
            _ => window,
        };
        self.delete(window).await
    }

    /// Emits what a window below the floor has not emitted.
    ///
    /// It may not even be closed: a worker opened it after the closer had looked for the lowest window, and
    /// before the floor was raised beyond it. Its events were applied, and so they get their rows.
    async fn emit_last(&self, mut window: Window) -> Result<Window, Halt> {
        if !matches!(window.state.phase, Phase::Closed { .. }) {
            window = self.close(window).await?;
        }
        let dirties = keys::dirties(&self.view).extended([window.start.0.into()]);
        loop {
            let page = self.store.scan(self.shard, Kind::Counter, &dirties, None, GROUPS).await?;
            let groups: Vec<Key> =
                page.iter().filter_map(|(key, _)| keys::dirty_group(key)).collect();
            if groups.is_empty() {
                return Ok(window);
            }
            window = self.emit_again(window, groups).await?;
        }
    }

    async fn delete(&self, window: Window) -> Result<(), Halt> {
        let state = keys::window(&self.view, window.start);
        let expect = Expect::Bytes(state.clone(), Some(window.raw));
        let (prefix, kind) =
            (keys::window_groups(&self.view, window.start), self.view.aggregate.cells());
        loop {
            let page = self.store.scan(self.shard, kind, &prefix, None, GROUPS).await?;
            if page.is_empty() {
                break;
            }
            let delete = page.into_iter().map(|(key, _)| Operation::Delete(Cell::new(kind, key)));
            let commit = Commit::of(delete).expecting(expect.clone());
            self.store.commit(self.shard, commit).await?;
        }
        let delete = Operation::Delete(Cell::new(Kind::Bytes, state));
        self.store.commit(self.shard, Commit::of([delete]).expecting(expect)).await?;
        Ok(())
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

    async fn put(&self, window: &Window, state: WindowState) -> Result<Window, Halt> {
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
