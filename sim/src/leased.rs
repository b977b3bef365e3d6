//! Owners by lease: the cluster's own nodes, which join, take roles, hand them over and leave.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::node::{HEARTBEAT, Options, TTL};
use consort_cluster::{
    ClusterNode, ClusterStatus, Ended, Handle, Left, Observer, Part, Role, Roster, Tenure,
    request_drain, worker,
};
use consort_kernel::memory::MemoryStore;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::outcome::Coverage;
use crate::shape::Shape;
use crate::station::Station;
use crate::tally::Tally;
use crate::world::at_once;

/// Of a thousand turns, in how many a node is asked to leave, by one way or the other.
const ASKED_TO_LEAVE: u32 = 15;

/// How long a node that left stays away.
const AWAY: Duration = Duration::from_secs(1);

/// An understudy has its node's number and this.
pub(crate) const UNDERSTUDY: u32 = 50;

const KIND: &str = "worker";

/// The nodes and what they complain of.
#[derive(Debug)]
pub(crate) struct Leased {
    shape: Shape,
    tally: Arc<Tally>,
    shared: Arc<Shared>,
    /// How often a node was asked to leave.
    pub(crate) asked: u64,
}

#[derive(Debug, Default)]
struct Shared {
    handles: Mutex<BTreeMap<u32, Handle>>,
    complaint: Mutex<Option<String>>,
    happened: Mutex<Coverage>,
    /// How many workers each partition has.
    working: Mutex<BTreeMap<u32, u64>>,
}

impl Shared {
    fn count(&self, what: &str) {
        self.happened.lock().add(what, 1);
    }
}

/// Counts as a worker of its partition for as long as it is there.
struct AtWork {
    partition: u32,
    shared: Arc<Shared>,
}

impl AtWork {
    fn new(partition: u32, shared: Arc<Shared>) -> Self {
        *shared.working.lock().entry(partition).or_default() += 1;
        AtWork { partition, shared }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(workers) = self.shared.working.lock().get_mut(&self.partition) {
            *workers -= 1;
        }
    }
}

/// Counts what nodes tell.
#[derive(Debug)]
struct Told(Arc<Shared>);

impl Observer for Told {
    fn on_acquired(&self, _: &Role, _: u64) {
        self.0.count("roles acquired");
    }

    fn on_released(&self, _: &Role, _: u64) {
        self.0.count("roles released");
    }

    fn on_lost(&self, _: &Role, _: u64) {
        self.0.count("roles lost to others");
    }

    fn on_fenced(&self, _: usize) {
        self.0.count("nodes fenced");
    }
}

/// The workers that a node can run.
struct Workers {
    station: Station,
    shape: Shape,
    tally: Arc<Tally>,
    shared: Arc<Shared>,
}

impl Leased {
    /// No nodes yet.
    pub(crate) fn new(shape: Shape, tally: Arc<Tally>) -> Self {
        Leased { shape, tally, shared: Arc::default(), asked: 0 }
    }

    /// Starts a node, which joins again whenever it has left.
    pub(crate) fn start(&self, station: &Station) {
        let workers = Workers {
            station: station.clone(),
            shape: self.shape.clone(),
            tally: Arc::clone(&self.tally),
            shared: Arc::clone(&self.shared),
        };
        let options = Options {
            id: id(station.node),
            address: format!("{}:7400", id(station.node)),
            version: "sim".into(),
            ttl: TTL,
            heartbeat: HEARTBEAT,
            sole: false,
            parts: vec![Arc::new(workers)],
            store: Arc::clone(&station.store),
            lease_store: Arc::clone(&station.store),
            runtime: station.runtime.clone(),
            work_runtime: station.runtime.clone(),
            entropy: Arc::clone(&station.entropy),
            observer: Arc::new(Told(Arc::clone(&self.shared))),
            load: Arc::new(consort_cluster::UnmeasuredLoad),
        };
        let (node, shared) = (station.node, Arc::clone(&self.shared));
        station.runtime.spawn("member", belong(node, shared, options));
    }

    /// A node is gone.
    pub(crate) fn crashed(&mut self, node: u32) {
        self.shared.handles.lock().remove(&node);
    }

    /// Asks a node to leave now and then; an error if something panicked.
    pub(crate) fn turn(&mut self, dice: &Dice, up: &BTreeMap<u32, Station>) -> Result<(), String> {
        self.complaint()?;
        if !dice.per_mille(ASKED_TO_LEAVE) {
            return Ok(());
        }
        let nodes: Vec<u32> = up.keys().copied().collect();
        let Some(node) = dice.pick(&nodes) else { return Ok(()) };
        self.asked += 1;
        if dice.per_mille(500) {
            if let Some(handle) = self.shared.handles.lock().get(&node) {
                handle.stop();
            }
        } else if let Some(station) = dice.pick(&nodes).and_then(|by| up.get(&by)) {
            let store = Arc::clone(&station.store);
            station.runtime.spawn("drain", async move {
                // The last one is not let go, and the store may fail: then nobody leaves.
                let _ = request_drain(&*store, &id(node)).await;
            });
        }
        Ok(())
    }

    /// What panicked, if anything.
    pub(crate) fn complaint(&self) -> Result<(), String> {
        self.shared.complaint.lock().clone().map_or(Ok(()), Err)
    }

    /// Whether every partition has one worker and no more, as it should when nothing goes wrong.
    pub(crate) fn check_workers(&self) -> Result<(), String> {
        let working = self.shared.working.lock();
        for partition in self.shape.all_partitions() {
            let workers = working.get(&partition).copied().unwrap_or_default();
            if workers != 1 {
                return Err(format!("partition {partition} has {workers} workers"));
            }
        }
        Ok(())
    }

    /// What the nodes went through.
    pub(crate) fn happened(&self) -> Coverage {
        self.shared.happened.lock().clone()
    }

    /// Whether the cluster says that this partition is stopped.
    pub(crate) fn is_stopped(&self, store: &MemoryStore, partition: u32) -> bool {
        let Ok(roster) = at_once(Roster::read(store)) else { return false };
        let role = role(&self.shape, partition);
        let status = ClusterStatus::of(&roster, std::slice::from_ref(&role));
        status.roles.iter().any(|status| status.role == role && status.stopped.is_some())
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // A node's handle holds its parts, and those hold this: somebody has to let go.
        let handles = std::mem::take(&mut *self.shared.handles.lock());
        drop(handles);
    }
}

async fn belong(node: u32, shared: Arc<Shared>, options: Options) {
    loop {
        match ClusterNode::join(options.clone()).await {
            Ok(member) => {
                shared.handles.lock().insert(node, member.handle());
                let left = member.ended().await;
                shared.handles.lock().remove(&node);
                shared.count(match &left {
                    Left::Drained => "nodes drained",
                    Left::Stopped => "nodes stopped",
                    Left::Replaced { .. } => "nodes replaced",
                    Left::Failed { .. } => "nodes failed",
                });
                if let Left::Failed { reason } = left {
                    shared.complaint.lock().get_or_insert(format!("node {node} failed: {reason}"));
                }
            }
            Err(_) => shared.count("joins refused"),
        }
        options.runtime.sleep(AWAY).await;
    }
}

/// A node and its understudy share their id.
fn id(node: u32) -> String {
    format!("n{}", node % UNDERSTUDY)
}

fn role(shape: &Shape, partition: u32) -> Role {
    Role::new(KIND, shape.partition(partition).to_string())
}

impl Part for Workers {
    fn roles(&self) -> Vec<Role> {
        self.shape.all_partitions().map(|partition| role(&self.shape, partition)).collect()
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let named = |partition: &u32| role(&self.shape, *partition) == *tenure.role();
        let Some(partition) = self.shape.all_partitions().find(named) else {
            panic!("{} is no role of this part", tenure.role());
        };
        let options = self.station.worker(&self.shape, &self.tally, partition);
        let (shared, mutation) = (Arc::clone(&self.shared), self.shape.mutation());
        let work = async move {
            let _at_work = AtWork::new(partition, Arc::clone(&shared));
            let worker = worker::run_broken(options, tenure, mutation);
            match AssertUnwindSafe(worker).catch_unwind().await {
                Ok(ended) => ended,
                Err(_) => {
                    let what = format!("the worker of partition {partition} panicked");
                    shared.complaint.lock().get_or_insert(what.clone());
                    Ended::Yielded { reason: what }
                }
            }
        };
        work.boxed()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("node", &self.station.node).finish_non_exhaustive()
    }
}
