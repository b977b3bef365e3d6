//! A stage for clusters: one memory store, virtual time, and nodes that can be killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use consort_cluster::format::{decode, encode};
use consort_cluster::member::Member;
use consort_cluster::ownership::{Candidate, owners};
use consort_cluster::status::{ClusterStatus, RoleStatus};
use consort_cluster::{
    ClusterNode, Lease, Observer, Options, PauseCause, Role, Roster, Runtime, TokioRuntime, keys,
};
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Clock, Commit, Operation, SeededEntropy, Shard, Store, Timestamp, Value};
use parking_lot::Mutex;

use crate::player::{Player, REPLICA, Record};
use crate::unsound::UnsoundStore;

pub(crate) const TTL: Duration = Duration::from_secs(3);
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

/// How long, in virtual time, a condition may take: far longer than anything here should.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The store's clock, which goes as tokio's virtual time does.
#[derive(Debug)]
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000).after(self.0.elapsed())
    }
}

/// The pauses and losses that nodes were seen to tell.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) pauses: Mutex<Vec<(Role, PauseCause, Duration)>>,
    pub(crate) lost: Mutex<Vec<Role>>,
    pub(crate) fenced: Mutex<Vec<usize>>,
}

impl Observer for Witness {
    fn on_lost(&self, role: &Role, _epoch: u64) {
        self.lost.lock().push(role.clone());
    }

    fn on_fenced(&self, roles: usize) {
        self.fenced.lock().push(roles);
    }

    fn on_pause(&self, role: &Role, cause: PauseCause, pause: Duration) {
        self.pauses.lock().push((role.clone(), cause, pause));
    }
}

pub(crate) struct Stage {
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) record: Arc<Record>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) roles: Arc<Mutex<Vec<Role>>>,
    runtime: Arc<dyn Runtime>,
    starts: AtomicU64,
}

impl Stage {
    /// A cluster with so many roles, and no nodes.
    pub(crate) fn with_roles(count: usize) -> Stage {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock(tokio::time::Instant::now()));
        let roles = (0..count).map(|n| Role::new("worker", format!("rides/{n}"))).collect();
        Stage {
            memory: Arc::new(MemoryStore::new(2, Arc::clone(&clock))),
            record: Record::new(Arc::clone(&clock)),
            clock,
            witness: Arc::default(),
            roles: Arc::new(Mutex::new(roles)),
            runtime: TokioRuntime::current(),
            starts: AtomicU64::new(0),
        }
    }

    /// A store of its own for a node, sound until told otherwise.
    pub(crate) fn store(&self) -> Arc<UnsoundStore> {
        UnsoundStore::new(Arc::clone(&self.memory) as Arc<dyn Store>, false)
    }

    /// What a node needs.
    pub(crate) fn options(&self, id: &str) -> Options {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let player = Player {
            node: id.into(),
            roles: Arc::clone(&self.roles),
            record: Arc::clone(&self.record),
        };
        Options {
            id: id.into(),
            address: format!("{id}.example:7400"),
            version: "0.1.0".into(),
            ttl: TTL,
            heartbeat: HEARTBEAT,
            sole: false,
            parts: vec![Arc::new(player)],
            store: Arc::clone(&self.memory) as Arc<dyn Store>,
            lease_store: Arc::clone(&self.memory) as Arc<dyn Store>,
            runtime: Arc::clone(&self.runtime),
            work_runtime: Arc::clone(&self.runtime),
            entropy: Arc::new(SeededEntropy::new(start)),
            observer: Arc::clone(&self.witness) as Arc<dyn Observer>,
            load: Arc::new(consort_cluster::UnmeasuredLoad),
        }
    }

    /// A node that has joined.
    pub(crate) async fn node(&self, id: &str) -> ClusterNode {
        ClusterNode::join(self.options(id)).await.expect("joins")
    }

    /// A node on a store of its own.
    pub(crate) async fn node_on(&self, id: &str, store: &Arc<UnsoundStore>) -> ClusterNode {
        let (store, lease_store) = (Arc::clone(store) as _, Arc::clone(store) as _);
        let options = Options { store, lease_store, ..self.options(id) };
        ClusterNode::join(options).await.expect("joins")
    }

    pub(crate) fn role(&self, n: usize) -> Role {
        self.roles.lock()[n].clone()
    }

    pub(crate) async fn status(&self) -> ClusterStatus {
        let roles = self.roles.lock().clone();
        ClusterStatus::read(&*self.memory, &roles).await.expect("answers")
    }

    pub(crate) async fn status_of(&self, role: &Role) -> RoleStatus {
        self.status().await.roles.into_iter().find(|status| status.role == *role).expect("is there")
    }

    pub(crate) async fn roster(&self) -> Roster {
        Roster::read(&*self.memory).await.expect("answers")
    }

    pub(crate) async fn lease(&self, role: &Role) -> Lease {
        self.roster().await.leases[role].value.clone()
    }

    /// Who should work on what if just these nodes are there.
    pub(crate) fn meant(&self, ids: &[&str]) -> BTreeMap<Role, String> {
        let node = |id: &&str| Candidate { id: id.to_string(), draining: false };
        let nodes: Vec<Candidate> = ids.iter().map(node).collect();
        owners(&nodes, &self.roles.lock(), &[REPLICA].into(), &Default::default())
    }

    /// Waits until just these nodes share the work as they should, the store says the same, and all of
    /// it has begun.
    pub(crate) async fn settled(&self, ids: &[&str]) {
        let meant = self.meant(ids);
        self.until("the work is shared", async || {
            let status = self.status().await;
            let owned = status.roles.iter().filter(|role| role.ready);
            let owned = owned.filter_map(|role| Some((role.role.clone(), role.owner.clone()?)));
            let live = status.nodes.iter().filter(|node| node.live);
            live.map(|node| node.id.as_str()).eq(ids.iter().copied())
                && self.record.working() == meant
                && owned.collect::<BTreeMap<_, _>>() == meant
        })
        .await;
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let since = tokio::time::Instant::now();
        while !condition().await {
            if since.elapsed() > PATIENCE {
                panic!("never: {what}; {:?}", self.status().await);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Writes a cell past everybody.
    pub(crate) async fn force<T: serde::Serialize>(&self, key: consort_kernel::Key, value: &T) {
        let put = Operation::Put { key, value: encode(value) };
        self.memory.commit(Shard(0), Commit::of([put])).await.expect("commits");
    }

    /// The member cell of a node.
    pub(crate) async fn member(&self, id: &str) -> Option<Member> {
        let cell = keys::cell(keys::member(id));
        match self.memory.get(Shard(0), &[cell]).await.expect("answers").remove(0) {
            Some(Value::Bytes(stored)) => Some(decode(&stored).expect("is a member")),
            _ => None,
        }
    }

    /// Every pause that was told for this reason.
    pub(crate) fn pauses(&self, cause: PauseCause) -> Vec<Duration> {
        let pauses = self.witness.pauses.lock();
        pauses.iter().filter(|(_, c, _)| *c == cause).map(|(_, _, pause)| *pause).collect()
    }
}
