//! What a node knows of a database: its head, its workers, and which of them are live. It is looked at a few
//! times a second, and at once when the head changes. Nothing is safe because of it: it only tells whom to ask.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Handle, Member, Roster};
use consort_kernel::{Fault, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::head::{DbHead, HeadState};
use crate::store::{DatabaseStore, DbStoreError};
use crate::supervise::wanted::WantedWorkers;
use crate::worker::cell::WorkerCell;

/// How often a node looks at a database: a dead worker is noticed about this much later than its cell is gone.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks on demand follow one another no faster than this, however many requests want one.
const LOOK_GAP: Duration = Duration::from_millis(10);
/// How old a node's list of members may be when a database is looked at: all its databases share one.
const MEMBERS_FOR: Duration = Duration::from_millis(200);

/// One look.
#[derive(Clone, Debug, Default)]
pub struct DatabaseView {
    /// The head; `None` before the first look, or if there is none.
    pub head: Option<DbHead>,
    /// The wanted workers.
    pub wanted: Option<WantedWorkers>,
    /// The live workers, by id.
    pub workers: Vec<WorkerCell>,
    /// Workers whose process is dead. The supervisor deletes their cells.
    pub dead: Vec<WorkerCell>,
    /// The live nodes.
    pub nodes: BTreeMap<String, LiveNode>,
    /// The store's time at the look.
    pub now: Timestamp,
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Its process.
    pub incarnation: u64,
    /// Host and port of its HTTP interface.
    pub address: String,
}

/// A node's view of one database, now and later. All clones share it.
#[derive(Clone, Debug)]
pub struct ViewHandle {
    view: watch::Receiver<Arc<DatabaseView>>,
    wanted: Arc<Notify>,
}

/// The members of the cluster as a node last saw them, for all its databases.
#[derive(Debug)]
pub struct MembersCache {
    node: OwnNode,
    last: Mutex<Option<(Instant, Arc<Roster>)>>,
}

/// The node of this process, which is known once it has joined.
#[derive(Clone)]
pub struct OwnNode(Arc<dyn Fn() -> Option<Handle> + Send + Sync>);

/// Keeps the view of one database.
#[derive(Debug)]
pub struct ViewKeeper {
    store: DatabaseStore,
    members: Arc<MembersCache>,
    view: watch::Sender<Arc<DatabaseView>>,
    wanted: Arc<Notify>,
}

impl DatabaseView {
    /// The live worker that leads.
    pub fn leader(&self) -> Option<&WorkerCell> {
        let head = self.head.as_ref().filter(|head| head.state == HeadState::Led)?;
        let holder = head.holder.as_ref()?;
        self.workers.iter().find(|worker| worker.id == holder.worker)
    }

    /// Whether this live worker leads.
    pub fn leads(&self, worker: u64) -> bool {
        self.leader().is_some_and(|leader| leader.id == worker)
    }

    /// Why the database is stopped, if it is.
    pub fn stopped(&self) -> Option<&str> {
        match &self.head.as_ref()?.state {
            HeadState::Stopped { reason } => Some(reason),
            HeadState::Led | HeadState::Vacant { .. } => None,
        }
    }
}

impl ViewHandle {
    /// The last look.
    pub fn now(&self) -> Arc<DatabaseView> {
        Arc::clone(&self.view.borrow())
    }

    /// The looks, now and later.
    pub fn views(&self) -> watch::Receiver<Arc<DatabaseView>> {
        self.view.clone()
    }

    /// Has the database looked at again soon.
    pub fn refresh(&self) {
        self.wanted.notify_one();
    }

    /// Has the database looked at again, and waits for a look that began after this call, or the time.
    pub async fn refreshed(&self, within: Duration) -> Arc<DatabaseView> {
        let mut views = self.view.clone();
        views.mark_unchanged();
        self.refresh();
        // A look that was under way may be of before the call; the one after it is not. Callers ask again.
        let _ = tokio::time::timeout(within, views.changed()).await;
        self.now()
    }
}

impl ViewKeeper {
    /// A keeper, and the view that it keeps.
    pub fn new(store: DatabaseStore, members: Arc<MembersCache>) -> (ViewKeeper, ViewHandle) {
        let (view, receiver) = watch::channel(Arc::default());
        let wanted = Arc::new(Notify::new());
        let handle = ViewHandle { view: receiver, wanted: Arc::clone(&wanted) };
        (ViewKeeper { store, members, view, wanted }, handle)
    }

    /// Looks again and again until it is dropped.
    pub async fn run(self) {
        let mut failing = false;
        loop {
            let mut wake = self.store.watch_head();
            let began = Instant::now();
            match self.look().await {
                Ok(view) => {
                    failing = false;
                    self.view.send_replace(Arc::new(view));
                }
                Err(error) if !failing => {
                    failing = true;
                    tracing::warn!(database = %self.store.cells().name(), %error, "cannot look at the database");
                }
                Err(_) => {}
            }
            tokio::time::sleep_until(began + LOOK_GAP).await;
            tokio::select! {
                biased;
                () = self.wanted.notified() => {}
                () = wake.changed() => self.skip_own_writes(began).await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Every write changes the head, so a busy database would be looked at all the time. Only another holder or
    /// state matters, and a look reads that in one small request.
    async fn skip_own_writes(&self, began: Instant) {
        while began.elapsed() < LOOK_EVERY {
            let known =
                self.view.borrow().head.as_ref().map(|head| (head.epoch, head.state.clone()));
            let found = match self.store.head().await {
                Ok(head) => head.map(|head| (head.epoch, head.state)),
                Err(_) => return,
            };
            if known != found {
                return;
            }
            tokio::select! {
                biased;
                () = self.wanted.notified() => return,
                () = tokio::time::sleep(LOOK_GAP) => {}
            }
        }
    }

    async fn look(&self) -> Result<DatabaseView, DbStoreError> {
        let sight = self.store.sight().await?;
        let cells = self.store.workers().await?;
        let mut roster = self.members.roster().await?;
        // A list of members that is older than a cell may lack the cell's node, which would then pass for dead.
        if cells.iter().any(|cell| !is_live(cell, &live_nodes(&roster))) {
            roster = self.members.read().await?;
        }
        let nodes = live_nodes(&roster);
        let (workers, dead) = cells.into_iter().partition(|cell| is_live(cell, &nodes));
        Ok(DatabaseView {
            head: sight.head,
            wanted: sight.wanted,
            workers,
            dead,
            nodes,
            now: roster.now,
        })
    }
}

fn live_nodes(roster: &Roster) -> BTreeMap<String, LiveNode> {
    let node = |member: &Member| {
        let live = LiveNode { incarnation: member.incarnation, address: member.address.clone() };
        (member.id.clone(), live)
    };
    roster.live().map(node).collect()
}

fn is_live(cell: &WorkerCell, nodes: &BTreeMap<String, LiveNode>) -> bool {
    nodes.get(&cell.node).is_some_and(|node| node.incarnation == cell.incarnation)
}

impl MembersCache {
    /// The members of the cluster that `node` takes part in.
    pub fn new(node: OwnNode) -> Self {
        MembersCache { node, last: Mutex::new(None) }
    }

    /// The members, as of a moment ago. Before this node has joined, there are none.
    pub async fn roster(&self) -> Result<Arc<Roster>, Fault> {
        let known = self.last.lock().clone();
        if let Some((at, roster)) = known
            && at.elapsed() < MEMBERS_FOR
        {
            return Ok(roster);
        }
        self.read().await
    }

    /// The members, as of now.
    async fn read(&self) -> Result<Arc<Roster>, Fault> {
        let Some(node) = self.node.handle() else { return Ok(Arc::default()) };
        let began = Instant::now();
        let roster = Arc::new(node.roster().await?);
        *self.last.lock() = Some((began, Arc::clone(&roster)));
        Ok(roster)
    }
}

impl OwnNode {
    /// The node that this asks for.
    pub fn new(ask: impl Fn() -> Option<Handle> + Send + Sync + 'static) -> Self {
        OwnNode(Arc::new(ask))
    }

    /// The node, once it has joined its cluster.
    pub fn handle(&self) -> Option<Handle> {
        (self.0)()
    }
}

impl fmt::Debug for OwnNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnNode")
    }
}
