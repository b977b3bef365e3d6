//! What the rest of the program holds of a node: asks how it does, and tells it to leave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Fault, Store};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Left, Options};
use crate::drain::{DrainError, request_drain_as};
use crate::lease::Holder;
use crate::role::Role;
use crate::roster::Roster;
use crate::runtime::Runtime;
use crate::status::ClusterStatus;
use crate::tenure::{Gauge, Part};

/// How a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// A member that renews its leases in time.
    Member,
    /// It could not renew its leases, has dropped all work, and keeps trying.
    Fenced {
        /// What hinders it.
        reason: String,
    },
    /// It could not renew its leases in time and keeps its work: no other process can take them.
    Late {
        /// What hinders it.
        reason: String,
    },
    /// It hands its roles over and is about to leave.
    Leaving,
    /// It has left.
    Left(Left),
}

impl Health {
    /// Why the node cannot do its work, if so.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Health::Member | Health::Late { .. } => None,
            Health::Fenced { reason } => {
                Some(format!("all work is dropped, since leases could not be renewed: {reason}"))
            }
            Health::Leaving => Some("the node is about to leave".into()),
            Health::Left(left) => Some(left.to_string()),
        }
    }
}

/// A handle to a node; all clones are of the same one.
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<Shared>);

/// What a node's loop and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) me: Holder,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) parts: Vec<Arc<dyn Part>>,
    pub(super) sole: bool,
    ttl: Duration,
    pub(super) stop: watch::Sender<bool>,
    pub(super) nudge: Notify,
    pub(super) health: watch::Receiver<Health>,
    /// What the work of each role says, or said last if it has ended.
    gauges: Mutex<BTreeMap<Role, watch::Receiver<Gauge>>>,
}

impl Shared {
    pub(super) fn new(options: &Options, me: Holder, health: watch::Receiver<Health>) -> Self {
        Shared {
            me,
            store: Arc::clone(&options.store),
            runtime: Arc::clone(&options.runtime),
            parts: options.parts.clone(),
            sole: options.sole,
            ttl: options.ttl,
            stop: watch::Sender::new(false),
            nudge: Notify::new(),
            health,
            gauges: Mutex::default(),
        }
    }

    /// The work of a role begins, and says of itself what `gauge` shows.
    pub(super) fn listen_to(&self, role: &Role, gauge: watch::Receiver<Gauge>) {
        self.gauges.lock().insert(role.clone(), gauge);
    }

    /// The incarnation of the only process there can be, if that is so.
    pub(super) fn alone(&self) -> Option<u64> {
        self.sole.then_some(self.me.incarnation)
    }
}

impl Handle {
    /// The node's id.
    pub fn id(&self) -> &str {
        &self.0.me.id
    }

    /// The number of this start of the node.
    pub fn incarnation(&self) -> u64 {
        self.0.me.incarnation
    }

    /// How long a lease lasts without a heartbeat.
    pub fn lease(&self) -> Duration {
        self.0.ttl
    }

    /// The cluster as the store shows it now.
    pub async fn status(&self) -> Result<ClusterStatus, Fault> {
        let roster = self.roster().await?;
        let roles: Vec<Role> = self.0.parts.iter().flat_map(|part| part.roles()).collect();
        Ok(ClusterStatus::of(&roster, &roles))
    }

    /// Members, leases and reports as the store shows them now.
    pub async fn roster(&self) -> Result<Roster, Fault> {
        Ok(Roster::read(&*self.0.store).await?.seen_by(self.0.alone()))
    }

    /// How far behind the roles are that this node works on, as far as they know. It is known here at once,
    /// while what [`Handle::status`] shows comes as late as the store is slow.
    pub fn own_lags(&self) -> BTreeMap<Role, Duration> {
        let elapsed = self.0.runtime.elapsed();
        let lag = |gauge: &watch::Receiver<Gauge>| {
            // The other side is gone: the work has ended.
            gauge.has_changed().ok()?;
            let gauge = gauge.borrow();
            gauge.lag_at(elapsed).filter(|_| gauge.stopped.is_none())
        };
        let gauges = self.0.gauges.lock();
        gauges.iter().filter_map(|(role, gauge)| Some((role.clone(), lag(gauge)?))).collect()
    }

    /// How the node does.
    pub fn health(&self) -> Health {
        self.0.health.borrow().clone()
    }

    /// Asks the node to hand its roles over and leave, as an operator does. Refused for the last one.
    pub async fn drain(&self) -> Result<(), DrainError> {
        self.request_drain(self.id()).await
    }

    /// Asks node `id`, whichever it is, to hand its roles over and leave.
    pub async fn request_drain(&self, id: &str) -> Result<(), DrainError> {
        request_drain_as(&*self.0.store, id, self.0.alone()).await
    }

    /// Tells the node to hand its roles over and leave, within a bounded time. Returns at once.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// Tells the node that its parts bring other roles than before.
    pub fn roles_changed(&self) {
        self.0.nudge.notify_one();
    }

    /// Waits until the node has left.
    pub async fn ended(&self) -> Left {
        let mut health = self.0.health.clone();
        let ended = health.wait_for(|health| matches!(health, Health::Left(_))).await;
        match ended.as_deref() {
            Ok(Health::Left(left)) => left.clone(),
            _ => Left::Failed { reason: "its task was ended".into() },
        }
    }
}
