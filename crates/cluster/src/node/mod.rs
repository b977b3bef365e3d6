//! A node of the cluster: joins, keeps its leases alive, takes and gives up roles, and leaves.
//!
//! One loop does all of it, one store call after the other, so there is never a question which of two
//! calls came first. What must not wait for a store that does not answer — dropping the work of leases
//! that are about to lapse — happens while a call is waited for.
//!
//! The loop never shares a thread or a store connection with requests or with the work of roles, if its
//! `Options` give it a runtime and a store handle of its own. So neither can delay a heartbeat.

mod acquire;
mod handle;
mod heartbeat;
mod holding;
mod leave;
mod release;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Entropy, Store, Timestamp};
use tokio::sync::watch;

pub use handle::{Handle, Health};

use crate::join::{self, JoinError};
use crate::lease::Holder;
use crate::load::NodeLoad;
use crate::member::{Member, validate_id};
use crate::observer::Observer;
use crate::runtime::{Runtime, Task};
use crate::tenure::Part;
use handle::Shared;
use run::NodeLoop;

/// How long a lease lasts without a heartbeat, unless set otherwise.
pub const TTL: Duration = Duration::from_secs(3);

/// How often leases are renewed, unless set otherwise.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// How many heartbeats fit a time to live at least: one may be lost, and another be late.
const HEARTBEATS_PER_TTL: u32 = 3;

/// What a node needs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's id: no two live nodes may share one.
    pub id: String,
    /// Where its HTTP interface is reached.
    pub address: String,
    /// Its release.
    pub version: String,
    /// How long a lease lasts without a heartbeat.
    pub ttl: Duration,
    /// How often leases are renewed.
    pub heartbeat: Duration,
    /// Whether opening the store proves that every other process is dead. A sole node keeps its work
    /// however late its heartbeats are: no process is there that could take its leases.
    pub sole: bool,
    /// What brings roles.
    pub parts: Vec<Arc<dyn Part>>,
    /// Where the cluster's cells are, for callers of the handle: they may wait.
    pub store: Arc<dyn Store>,
    /// The same cells for the node's loop, by a connection and a lane that other work does not fill.
    pub lease_store: Arc<dyn Store>,
    /// Runs the node's loop: heartbeats wait for whatever else runs on its threads.
    pub runtime: Arc<dyn Runtime>,
    /// Runs the work of roles, by the same local time as `runtime`.
    pub work_runtime: Arc<dyn Runtime>,
    /// Where incarnations are drawn from.
    pub entropy: Arc<dyn Entropy>,
    /// Who is told what happens.
    pub observer: Arc<dyn Observer>,
    /// What the process uses and takes in: the node reports it for scaling.
    pub load: Arc<dyn NodeLoad>,
}

/// How a node left the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// An operator retired it; its roles were handed over.
    Drained,
    /// It was stopped; its roles were handed over.
    Stopped,
    /// Another process took its id while it was out of touch. Its work was dropped.
    Replaced {
        /// Where that one is reached.
        address: String,
    },
    /// It ended without leaving: the task was dropped, or has a defect. Its leases lapse.
    Failed {
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Drained => f.write_str("the node was retired"),
            Left::Stopped => f.write_str("the node was stopped"),
            Left::Replaced { address } => write!(
                f,
                "another process, at {address}, has this node's id since this one was out of touch: \
                 give each node an id of its own with --node"
            ),
            Left::Failed { reason } => write!(f, "the node ended without leaving: {reason}"),
        }
    }
}

/// A node that has joined. Dropping it ends its task, and all work, as a crash would.
#[derive(Debug)]
pub struct ClusterNode {
    handle: Handle,
    task: Task<Left>,
}

impl ClusterNode {
    /// Joins the cluster, and starts to take roles. Returns when the node's id is its own: a dead
    /// predecessor is waited out.
    pub async fn join(options: Options) -> Result<ClusterNode, JoinError> {
        validate_id(&options.id)?;
        let Options { ttl, heartbeat, .. } = options;
        if heartbeat.is_zero() || heartbeat * HEARTBEATS_PER_TTL > ttl {
            return Err(JoinError::Timing { heartbeat, ttl });
        }
        let member = Member {
            id: options.id.clone(),
            incarnation: options.entropy.next(),
            address: options.address.clone(),
            version: options.version.clone(),
            since: Timestamp::default(),
            load: 0,
            draining: false,
            renewed: Timestamp::default(),
            until: Timestamp::default(),
        };
        let (member, stored) = join_apart(&options, member).await?;
        tracing::info!(node = %member.id, address = %member.address, "joined the cluster");

        let (health, said) = watch::channel(Health::Member);
        let me = Holder { id: member.id.clone(), incarnation: member.incarnation };
        let shared = Arc::new(Shared::new(&options, me, said));
        let name = format!("node {}", member.id);
        let runtime = Arc::clone(&options.runtime);
        let looping = NodeLoop::new(options, Arc::clone(&shared), member, stored, health);
        let task = Task::spawn(&*runtime, &name, looping.run());
        Ok(ClusterNode { handle: Handle(shared), task })
    }

    /// A handle to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until it has left.
    pub async fn ended(self) -> Left {
        let ClusterNode { handle, task } = self;
        let left = task.await;
        drop(handle);
        left.unwrap_or_else(|panicked| Left::Failed { reason: panicked.to_string() })
    }
}

/// Joins on the node's own runtime: a store connection that is made on the way belongs to its threads.
async fn join_apart(options: &Options, member: Member) -> Result<(Member, Bytes), JoinError> {
    let (store, runtime) = (Arc::clone(&options.lease_store), Arc::clone(&options.runtime));
    let (sole, ttl) = (options.sole, options.ttl);
    let name = format!("join {}", member.id);
    let joining = async move { join::join(&*store, &*runtime, &member, sole, ttl).await };
    let joined = Task::spawn(&*options.runtime, &name, joining).await;
    joined.unwrap_or_else(|panicked| Err(JoinError::Failed(panicked.to_string())))
}
