//! Asking a view with windows: one group of one window, or groups of all windows between two moments, ordered
//! by window and then by group.

use std::collections::BTreeMap;

use consort_cluster::format;
use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Cell, Key, Kind, Moment, QueryError, Shard, Store, Value as Held};

use super::merge::Merge;
use super::page::{InWindow, Page, Row};
use super::{Query, QueryRefusal, outcome};
use crate::hex::hex;
use crate::keys;
use crate::view::Aggregate;
use crate::window::{WindowState, Windows};

/// Windows that are looked through for one page. Few of many may have a group that is asked for, so without a bound an
/// answer could take minutes.
pub(super) const WINDOWS_MOST: usize = 1_000;

/// Which windows are asked for: those that begin at `from` or later, and before `until`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Between {
    pub(super) from: Option<Moment>,
    pub(super) until: Option<Moment>,
}

impl Between {
    /// Takes a parameter, if it is one of these. True if it had been given before.
    pub(super) fn take(&mut self, name: &str, text: &str) -> Option<Result<bool, QueryRefusal>> {
        let place = match name {
            "start" => &mut self.from,
            "end" => &mut self.until,
            _ => return None,
        };
        let moment = text.parse().map_err(|_| QueryRefusal::Wrong {
            field: name.into(),
            wanted: "a moment, as 2016-12-04T18:38:00Z or nanoseconds since 1970".into(),
            given: text.chars().take(100).collect(),
        });
        Some(moment.map(|moment| place.replace(moment).is_some()))
    }

    /// Whether it names one window.
    pub(super) fn is_one(&self) -> bool {
        self.from.is_some() && self.until.is_none()
    }
}

/// The states of windows, each read once for an answer.
struct States<'a> {
    query: &'a Query,
    windows: &'a Windows,
    store: &'a dyn Store,
    known: BTreeMap<(Moment, Shard), &'static str>,
}

impl States<'_> {
    /// The window of a group, with its state in the group's shard.
    async fn of(&mut self, start: Moment, shard: Shard) -> Result<InWindow, QueryError> {
        let state = match self.known.get(&(start, shard)) {
            Some(state) => state,
            None => {
                let state = self.read(start, shard).await?;
                self.known.insert((start, shard), state);
                state
            }
        };
        Ok(InWindow { start, end: self.windows.end_of(start), state })
    }

    async fn read(&self, start: Moment, shard: Shard) -> Result<&'static str, QueryError> {
        let view = &self.query.view;
        let cells = [keys::window(view, start), keys::floor(view)];
        let cells = cells.map(|key| Cell::new(Kind::Bytes, key));
        let held = self.store.get(shard, &cells).await?;
        let bytes = |at: usize| match held.get(at) {
            Some(Some(Held::Bytes(bytes))) => Some(bytes),
            _ => None,
        };
        let floor = bytes(1).and_then(|bytes| format::decode::<Moment>(bytes).ok());
        Ok(match bytes(0).and_then(|bytes| WindowState::decode(bytes).ok()) {
            _ if floor.is_some_and(|floor| start < floor) => "gone",
            Some(state) => state.phase.name(),
            // Nothing has come for it yet.
            None => "open",
        })
    }
}

impl Query {
    /// The answer of a view with windows.
    pub(super) async fn answer_windows(
        &self,
        store: &dyn Store,
        windows: &Windows,
    ) -> Result<Page, QueryError> {
        let mut states = States { query: self, windows, store, known: BTreeMap::new() };
        if let (true, Some(moment)) = (self.is_single(), self.between.from) {
            let start = windows.start_of(moment);
            let key = self.beginning_of(start);
            let shard = keys::shard(&key, store.shards());
            let window = states.of(start, shard).await?;
            let mut page = self.one_at(store, key).await?;
            for row in &mut page.rows {
                row.window = Some(window);
            }
            return Ok(page);
        }
        let (mut found, stopped) = self.find(store, windows).await?;
        let mut more = found.len() > self.limit;
        found.truncate(self.limit);
        let (mut rows, mut bytes, mut last) = (Vec::with_capacity(found.len()), 0, None);
        let mut budget = Budget::default();
        for (key, held) in found {
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            last = Some(hex(key.as_bytes()));
            let (start, shard) = (keys::window_of(&key), keys::shard(&key, store.shards()));
            let Some(start) = start else { continue };
            if let Some(row) = self.row(store, key, held).await? {
                let window = states.of(start, shard).await?;
                bytes += row.bytes();
                budget.spend(row.bytes()).await;
                rows.push(Row { window: Some(window), ..row });
            }
        }
        let stopped = stopped.map(|at| hex(at.as_bytes()));
        Ok(Page { single: false, rows, next: if more { last } else { stopped } })
    }

    /// Groups from where the query goes on, one more than its limit; and where it stopped, if there are more windows
    /// than one page looks through.
    async fn find(
        &self,
        store: &dyn Store,
        windows: &Windows,
    ) -> Result<(Vec<(Key, Held)>, Option<Key>), QueryError> {
        let after = self.after.clone().map(Key::from_stored);
        let reached = after.as_ref().and_then(keys::window_of);
        let from = self.between.from.map(|moment| windows.start_of(moment)).max(reached);
        // Behind all that begins earlier.
        let before = from.and_then(|from| from.0.checked_sub(1)).map(Moment);
        let before = before.map(|start| keys::window(&self.view, start));
        let prefix = keys::windows(&self.view);
        let mut all = Merge::new(store, Kind::Bytes, prefix, before, self.limit + 1);
        let (mut found, mut last, mut looked) = (Vec::<(Key, Held)>::new(), None, 0);
        let mut budget = Budget::default();
        while found.len() <= self.limit
            && let Some((key, _)) = all.next().await?
        {
            // Every shard has a state of its own.
            let start = keys::window_of_state(&key);
            let Some(start) = start.filter(|start| last != Some(*start)) else { continue };
            if self.between.until.is_some_and(|until| start >= until) {
                break;
            }
            if let Some(last) = last
                && looked == WINDOWS_MOST
            {
                let found_last = found.last().map(|(key, _)| key.clone());
                let stopped = found_last.max(Some(self.beginning_of(last)));
                return Ok((found, stopped));
            }
            (last, looked) = (Some(start), looked + 1);
            // A memory engine answers at once, and few of many windows may have what is asked for.
            budget.spend(0).await;
            let after = after.as_ref().filter(|_| reached == Some(start));
            self.find_in(store, start, after, &mut found).await?;
        }
        Ok((found, None))
    }

    /// What the keys of those groups of a window begin with that are asked for.
    pub(super) fn beginning_of(&self, start: Moment) -> Key {
        keys::group(&keys::window_groups(&self.view, start), &self.given)
    }

    async fn find_in(
        &self,
        store: &dyn Store,
        start: Moment,
        after: Option<&Key>,
        found: &mut Vec<(Key, Held)>,
    ) -> Result<(), QueryError> {
        let prefix = self.beginning_of(start);
        let kind = self.view.aggregate.cells();
        if self.given.len() == self.view.by.len() {
            let shard = keys::shard(&prefix, store.shards());
            let cell = Cell::new(kind, prefix.clone());
            let held = store.get(shard, &[cell]).await?.into_iter().next().flatten();
            found.extend(held.filter(|_| after.is_none()).map(|held| (prefix, held)));
            return Ok(());
        }
        let mut merge = Merge::new(store, kind, prefix, after.cloned(), self.limit + 1);
        while found.len() <= self.limit
            && let Some(row) = merge.next().await?
        {
            found.push(row);
        }
        Ok(())
    }

    /// The group under `key` alone.
    pub(super) async fn one_at(&self, store: &dyn Store, key: Key) -> Result<Page, QueryError> {
        let shard = keys::shard(&key, store.shards());
        let (outcome, next) = match &self.view.aggregate {
            Aggregate::Set(_) => {
                let after = self.after.as_deref();
                let (members, next) =
                    super::members(store, &self.view, &key, after, self.limit).await?;
                (super::Outcome::Members(members), next)
            }
            aggregate => {
                let cell = Cell::new(aggregate.cells(), key);
                let held = store.get(shard, &[cell]).await?.into_iter().next().flatten();
                (outcome(&self.view, held), None)
            }
        };
        let row = Row { group: self.given.clone(), window: None, outcome, more: next.is_some() };
        Ok(Page { single: true, rows: vec![row], next: next.map(|member| hex(&member)) })
    }
}
