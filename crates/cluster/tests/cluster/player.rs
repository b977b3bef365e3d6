//! Work that does nothing but say when it began and ended, and end as it is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::{Ended, Part, Role, Tenure};
use consort_kernel::{Clock, Timestamp};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// How the work of a role behaves on a node.
#[derive(Clone, Debug, Default)]
pub(crate) enum Manner {
    /// Ends when asked to.
    #[default]
    Obeys,
    /// Gives the role up with this reason.
    Yields(&'static str),
    /// Panics with this text.
    Panics(&'static str),
    /// Returns although nobody asked.
    Quits,
    /// Finds a loss and returns.
    Stops(&'static str),
    /// Finds a loss, says so, and stays until it is asked to end.
    StandsStill(&'static str),
    /// Does not end when asked to.
    Ignores,
}

/// One stretch of work.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    pub(crate) node: String,
    pub(crate) role: Role,
    pub(crate) epoch: u64,
    pub(crate) ended: Option<Timestamp>,
}

/// Who worked on what, and when.
#[derive(Debug)]
pub(crate) struct Record {
    clock: Arc<dyn Clock>,
    shifts: Mutex<Vec<Shift>>,
    manners: Mutex<BTreeMap<(String, Role), Manner>>,
    overlaps: Mutex<Vec<String>>,
}

impl Record {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Record {
            clock,
            shifts: Mutex::default(),
            manners: Mutex::default(),
            overlaps: Mutex::default(),
        })
    }

    /// Tells the work of `role` on `node` how to behave from its next beginning on.
    pub(crate) fn set(&self, node: &str, role: &Role, manner: Manner) {
        self.manners.lock().insert((node.into(), role.clone()), manner);
    }

    pub(crate) fn shifts(&self) -> Vec<Shift> {
        self.shifts.lock().clone()
    }

    /// The shifts of one role, in their order.
    pub(crate) fn shifts_of(&self, role: &Role) -> Vec<Shift> {
        self.shifts().into_iter().filter(|shift| shift.role == *role).collect()
    }

    /// Who works now, by role.
    pub(crate) fn working(&self) -> BTreeMap<Role, String> {
        let shifts = self.shifts();
        let open = shifts.into_iter().filter(|shift| shift.ended.is_none());
        open.map(|shift| (shift.role, shift.node)).collect()
    }

    /// The roles that `node` works on now.
    pub(crate) fn working_on(&self, node: &str) -> Vec<Role> {
        let working = self.working().into_iter().filter(|(_, worker)| worker == node);
        working.map(|(role, _)| role).collect()
    }

    /// Fails if two nodes ever worked on one role at once, which is right but wasteful.
    pub(crate) fn assert_no_overlap(&self) {
        assert_eq!(*self.overlaps.lock(), Vec::<String>::new());
    }

    fn manner(&self, node: &str, role: &Role) -> Manner {
        self.manners.lock().get(&(node.into(), role.clone())).cloned().unwrap_or_default()
    }

    fn begin(self: &Arc<Self>, node: &str, tenure: &Tenure) -> Presence {
        let mut shifts = self.shifts.lock();
        let (role, epoch) = (tenure.role().clone(), tenure.epoch());
        for other in shifts.iter().filter(|shift| shift.role == role && shift.ended.is_none()) {
            self.overlaps.lock().push(format!("{role}: {node} while {}", other.node));
        }
        shifts.push(Shift { node: node.into(), role, epoch, ended: None });
        Presence { record: Arc::clone(self), at: shifts.len() - 1 }
    }
}

/// Somebody at work; dropped when the work returns, panics or is dropped.
struct Presence {
    record: Arc<Record>,
    at: usize,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let now = self.record.clock.now();
        self.record.shifts.lock()[self.at].ended = Some(now);
    }
}

/// The kind of roles whose groups are kept apart.
pub(crate) const REPLICA: &str = "replica";

/// A part whose work is recorded.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) node: String,
    pub(crate) roles: Arc<Mutex<Vec<Role>>>,
    pub(crate) record: Arc<Record>,
}

impl Part for Player {
    fn roles(&self) -> Vec<Role> {
        self.roles.lock().clone()
    }

    fn apart_kinds(&self) -> &'static [&'static str] {
        &[REPLICA]
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        let presence = self.record.begin(&self.node, &tenure);
        let manner = self.record.manner(&self.node, tenure.role());
        async move {
            let _presence = presence;
            tenure.ready();
            tenure.say(|gauge| gauge.applied = 7);
            match manner {
                Manner::Obeys => {
                    tenure.ending().await;
                    Ended::Drained
                }
                Manner::Yields(reason) => Ended::Yielded { reason: reason.into() },
                Manner::Panics(text) => panic!("{text}"),
                Manner::Quits => Ended::Drained,
                Manner::Stops(reason) => Ended::Stopped { reason: reason.into() },
                Manner::StandsStill(reason) => {
                    tenure.say(|gauge| gauge.stopped = Some(reason.into()));
                    tenure.ending().await;
                    Ended::Drained
                }
                Manner::Ignores => std::future::pending().await,
            }
        }
        .boxed()
    }
}
