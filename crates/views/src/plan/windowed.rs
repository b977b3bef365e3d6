//! What an event meets in a view with windows: the floor below which windows are gone, and the state of its
//! own window. Both are cells of the group's shard, and the commit expects them as they were read.
//!
//! The closer moves a window from open to closing by a commit on the same state cell. So of two commits at
//! the same moment one is refused: either the event came first, and the closer's scan finds it; or the
//! window is closing, the event is planned again, and counts up its group's dirty counter.

use bytes::Bytes;
use consort_cluster::format;
use consort_cluster::worker::{Record, Sheet};
use consort_kernel::{Key, Moment, Name, Note, Shard};

use super::Untakable;
use super::memo::Group;
use crate::keys;
use crate::part::{Rule, Rules};
use crate::rejects::Rejected;
use crate::view::View;
use crate::window::{Late, Phase, WindowState, Windows};

/// A view's windows with their keys.
#[derive(Debug)]
pub(super) struct WindowPlan {
    windows: Windows,
    states: Key,
    dirties: Key,
    late: Name,
    listed: Key,
    /// See [`keys::floor`].
    pub(super) floor: Key,
    /// How many events the view has taken.
    pub(super) applied: Key,
    rules: Rules,
}

impl WindowPlan {
    pub(super) fn new(view: &View, rules: Rules) -> Option<Self> {
        Some(WindowPlan {
            windows: view.windows.clone()?,
            states: keys::windows(view),
            dirties: keys::dirties(view),
            late: keys::late(&view.name),
            listed: keys::seen(view, "late"),
            floor: keys::floor(view),
            applied: keys::seen(view, "applied"),
            rules,
        })
    }

    /// Whether an event may change `group` in the window that begins at `start`. Opens the window if it is
    /// the first; lists the event if it is too late.
    pub(super) fn enter(
        &self,
        record: &Record<'_>,
        start: Moment,
        group: &mut Group,
        sheet: &mut Sheet,
        late: impl FnOnce() -> Rejected,
    ) -> Result<bool, Untakable> {
        let shard = group.shard;
        // What the commit expects was said when the group was first met in it, unless the shard did not take
        // that record.
        if group.entered != Some(sheet.turn()) && !self.look(record, start, group, sheet, late)? {
            return Ok(false);
        }
        sheet.add_near(&mut group.applied, shard, &self.applied, 1);
        Ok(true)
    }

    /// Looks at the window, as [`enter`](WindowPlan::enter) does where nothing is known of it.
    fn look(
        &self,
        record: &Record<'_>,
        start: Moment,
        group: &mut Group,
        sheet: &mut Sheet,
        late: impl FnOnce() -> Rejected,
    ) -> Result<bool, Untakable> {
        let shard = group.shard;
        let floor = self
            .read(Rule::FloorExpected, shard, &self.floor, sheet)
            .map(|bytes| format::decode::<Moment>(&bytes));
        let floor = floor.transpose().map_err(|_| Untakable::Window)?;
        let key = self.states.extended([start.0.into()]);
        let state = self
            .read(Rule::StateExpected, shard, &key, sheet)
            .map(|bytes| WindowState::decode(&bytes));
        let state = state.transpose().map_err(|_| Untakable::Window)?;
        let gone = floor.is_some_and(|floor| start < floor);
        match state.map(|state| state.phase) {
            _ if gone => return Ok(self.list(shard, sheet, &late())),
            None => sheet.put(shard, key, WindowState::opened(record.time).encode()),
            Some(Phase::Open) => {}
            Some(_) if self.windows.late == Late::List => {
                return Ok(self.list(shard, sheet, &late()));
            }
            Some(_) => {
                sheet.add(shard, keys::dirty(&self.dirties, &group.key), 1, None);
                return Ok(true);
            }
        }
        group.entered = sheet.takes(shard).then_some(sheet.turn());
        Ok(true)
    }

    /// Reads a cell that the commit expects.
    fn read(&self, rule: Rule, shard: Shard, key: &Key, sheet: &mut Sheet) -> Option<Bytes> {
        #[cfg(feature = "mutations")]
        if !self.rules.keep(rule) {
            return sheet.look(shard, key);
        }
        debug_assert!(self.rules.keep(rule));
        sheet.read(shard, key)
    }

    fn list(&self, shard: Shard, sheet: &mut Sheet, late: &Rejected) -> bool {
        sheet.append(shard, Note { feed: self.late.clone(), entry: late.encode() });
        sheet.add(shard, self.listed.clone(), 1, None);
        false
    }

    /// What the list of late events says.
    pub(super) fn lateness(&self, start: Moment) -> String {
        format!("its window {start} .. {} is closed", self.windows.end_of(start))
    }
}
