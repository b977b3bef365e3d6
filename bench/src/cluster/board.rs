//! Who works on what at this moment, as the work itself tells: no look at the store delays or disturbs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use consort_cluster::Role;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::PATIENCE;

/// The node that works on each role.
pub(super) type Owners = BTreeMap<Role, String>;

/// All work of a cluster, and how it should be shared.
#[derive(Debug, Default)]
pub(super) struct Board {
    shared: Mutex<Shared>,
    /// When the work was first shared as wanted.
    settled: watch::Sender<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Shared {
    working: Owners,
    wanted: Owners,
}

/// The work of a role by a node, from its beginning to its end, which may be that it is dropped.
#[derive(Debug)]
pub(super) struct Shift {
    board: Arc<Board>,
    role: Role,
    node: String,
}

impl Board {
    /// `node` begins to work on `role`.
    pub(super) fn begin(self: &Arc<Self>, role: &Role, node: &str) -> Shift {
        let mut shared = self.shared.lock();
        shared.working.insert(role.clone(), node.into());
        if shared.working == shared.wanted {
            self.settled.send_if_modified(|at| at.replace(Instant::now()).is_none());
        }
        Shift { board: Arc::clone(self), role: role.clone(), node: node.into() }
    }

    fn end(&self, shift: &Shift) {
        let mut shared = self.shared.lock();
        // The next owner may have begun before this one noticed its end.
        if shared.working.get(&shift.role) == Some(&shift.node) {
            shared.working.remove(&shift.role);
        }
    }

    /// Says how the work should be shared from now on.
    pub(super) fn want(&self, wanted: Owners) {
        let mut shared = self.shared.lock();
        let settled = (shared.working == wanted).then(Instant::now);
        shared.wanted = wanted;
        self.settled.send_replace(settled);
    }

    /// Waits until all roles are worked on by whom it is wanted; gives when that was.
    pub(super) async fn settled(&self) -> Result<Instant> {
        let mut settled = self.settled.subscribe();
        let wait = settled.wait_for(Option::is_some);
        if let Ok(Ok(at)) = tokio::time::timeout(PATIENCE, wait).await
            && let Some(at) = *at
        {
            return Ok(at);
        }
        let shared = self.shared.lock();
        let wrong = |role: &Role| shared.working.get(role) != shared.wanted.get(role);
        let wrong: Vec<&Role> = shared.wanted.keys().filter(|role| wrong(role)).collect();
        bail!("after {PATIENCE:?} these roles are not where they should be: {wrong:?}");
    }

    /// How the work should be shared.
    pub(super) fn wanted(&self) -> Owners {
        self.shared.lock().wanted.clone()
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.board.end(self);
    }
}
