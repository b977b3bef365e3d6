//! What the nodes tell of the pauses of their roles.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_cluster::{Observer, PauseCause, Role};
use consort_testbed::eventually;
use parking_lot::Mutex;

use super::PATIENCE;

/// How long nobody worked on a role, and why.
pub(super) type Pauses = BTreeMap<Role, (PauseCause, Duration)>;

/// Listens to all nodes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Witness(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    pauses: Pauses,
    fenced: usize,
}

impl Witness {
    /// The pauses told since the last time, once there is one of each of these roles.
    pub(super) async fn pauses(&self, of: &[Role]) -> Pauses {
        eventually("every role that moved tells its pause", PATIENCE, || {
            let told = of.iter().all(|role| self.0.lock().pauses.contains_key(role));
            async move { told }
        })
        .await;
        std::mem::take(&mut self.0.lock().pauses)
    }

    /// How often a node could not renew its leases in time.
    pub(super) fn fenced(&self) -> usize {
        self.0.lock().fenced
    }
}

impl Observer for Witness {
    fn on_fenced(&self, _roles: usize) {
        self.0.lock().fenced += 1;
    }

    fn on_pause(&self, role: &Role, cause: PauseCause, pause: Duration) {
        self.0.lock().pauses.insert(role.clone(), (cause, pause));
    }
}
