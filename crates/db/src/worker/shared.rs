//! The worker as the rest of its node sees it: where its file is, how far it is, and whether it leads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::cell::WorkerState;
use crate::position::DbPosition;
use crate::write::queue::JobSender;

/// A worker of this node. All clones are of the same one.
#[derive(Clone, Debug)]
pub struct LocalWorker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    slot: u16,
    /// Changes with every step of the worker; closed by nobody while the worker lives.
    status: watch::Sender<WorkerStatus>,
    /// When the worker last looked at the head, by [`boot_time`], in milliseconds; 0 for never.
    looked: AtomicU64,
    /// There while the worker leads.
    jobs: RwLock<Option<JobSender>>,
    kill: watch::Sender<bool>,
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// What it does.
    pub state: WorkerState,
    /// The database and the file that reads may use; `None` while it loads.
    pub file: Option<ServedFile>,
    /// How far the file is.
    pub applied: DbPosition,
    /// Whether it leads.
    pub leads: bool,
    /// What hinders it, for operators.
    pub trouble: Option<String>,
}

/// The file that a worker serves. A file that was loaded anew has another generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServedFile {
    /// Where it is.
    pub path: Arc<PathBuf>,
    /// Drawn for each file, so that no connection to an old file serves a new one.
    pub generation: u64,
    /// The database in it (H4).
    pub database: u128,
}

/// Time since the machine started, in milliseconds, by a clock that goes on while the machine sleeps: a
/// paused worker must not take old data for fresh (H4).
pub fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl LocalWorker {
    /// A worker that begins to load.
    pub(crate) fn new(id: u64, slot: u16) -> Self {
        let status = WorkerStatus {
            state: WorkerState::Loading,
            file: None,
            applied: DbPosition { era: 0, index: 0 },
            leads: false,
            trouble: None,
        };
        LocalWorker(Arc::new(Shared {
            id,
            slot,
            status: watch::Sender::new(status),
            looked: AtomicU64::new(0),
            jobs: RwLock::new(None),
            kill: watch::Sender::new(false),
        }))
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The slot that it fills.
    pub fn slot(&self) -> u16 {
        self.0.slot
    }

    /// What it says of itself now.
    pub fn status(&self) -> WorkerStatus {
        self.0.status.borrow().clone()
    }

    /// What it says of itself, now and later.
    pub fn statuses(&self) -> watch::Receiver<WorkerStatus> {
        self.0.status.subscribe()
    }

    /// How long ago the worker last looked at the head; `None` if it never did.
    pub fn stale_for(&self) -> Option<Duration> {
        match self.0.looked.load(Ordering::Acquire) {
            0 => None,
            at => Some(boot_time().saturating_sub(Duration::from_millis(at))),
        }
    }

    /// The way to its writer, while it leads.
    pub fn jobs(&self) -> Option<JobSender> {
        self.0.jobs.read().clone()
    }

    /// Ends the worker at once, without draining, as a crash would.
    pub fn crash(&self) {
        self.0.kill.send_replace(true);
    }

    /// Becomes true when the worker is to end at once.
    pub(crate) fn kills(&self) -> watch::Receiver<bool> {
        self.0.kill.subscribe()
    }

    /// The worker saw the head in a look that began at `began`, by [`boot_time`].
    pub(crate) fn looked(&self, began: Duration) {
        let at = u64::try_from(began.as_millis()).unwrap_or(u64::MAX).max(1);
        self.0.looked.fetch_max(at, Ordering::AcqRel);
    }

    /// The worker serves nothing until it looks again: its data may be of another history.
    pub(crate) fn forget_looks(&self) {
        self.0.looked.store(0, Ordering::Release);
    }

    /// Changes what it says of itself.
    pub(crate) fn say(&self, change: impl FnOnce(&mut WorkerStatus)) {
        self.0.status.send_modify(change);
    }

    /// Its writer takes jobs from now on, or no more.
    pub(crate) fn set_jobs(&self, jobs: Option<JobSender>) {
        let leads = jobs.is_some();
        *self.0.jobs.write() = jobs;
        self.0
            .status
            .send_if_modified(|status| std::mem::replace(&mut status.leads, leads) != leads);
    }
}
