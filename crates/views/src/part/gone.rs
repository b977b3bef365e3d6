//! Letting windows go: the floor is raised first, so that no worker changes what lies below it any more; then
//! what is not emitted is, and then all of it is deleted.

use bytes::Bytes;
use consort_cluster::format;
use consort_kernel::{Cell, Commit, Expect, Key, Kind, Moment, Operation};

use super::closer::{Closer, GROUPS, Halt, Window};
use super::rules::Rule;
use crate::keys;
use crate::window::{Phase, WindowState};

impl Closer {
    /// Says that windows up to `start` are gone: from now on no worker changes them.
    pub(super) async fn raise_floor(
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
    pub(super) async fn let_go(&self, window: Window) -> Result<(), Halt> {
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
            self.emit_again(&window, &groups).await?;
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
        let amendments = keys::amendments(&self.view, window.start);
        let delete = [Cell::new(Kind::Bytes, state), Cell::new(Kind::Counter, amendments)];
        let delete = Commit::of(delete.map(Operation::Delete));
        self.store.commit(self.shard, delete.expecting(expect)).await?;
        Ok(())
    }
}
