//! The cluster as operators see it: `GET /cluster`, and the table of `consort status`.

use consort_kernel::{Fault, Store};
use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::report::Pause;
use crate::role::Role;
use crate::roster::Roster;
use crate::scaling::ScalingStatus;

/// Nodes and roles at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The store's time, in milliseconds since the Unix epoch.
    pub now: u64,
    /// The nodes by id: the live ones, and those that died lately.
    pub nodes: Vec<NodeStatus>,
    /// All roles there are.
    pub roles: Vec<RoleStatus>,
    /// Cells that this release cannot read, and why.
    pub unreadable: Vec<String>,
    /// How many nodes the cluster wants; absent where no scaler has decided within the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<ScalingStatus>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its id.
    pub id: String,
    /// Where its HTTP interface is reached.
    pub address: String,
    /// Its release.
    pub version: String,
    /// When it joined, in milliseconds since the Unix epoch.
    pub since: u64,
    /// How many roles it holds.
    pub load: u64,
    /// Whether it is about to leave.
    pub draining: bool,
    /// Whether it was heard of lately.
    pub live: bool,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleStatus {
    /// Which role.
    pub role: Role,
    /// The node that holds it.
    pub owner: Option<String>,
    /// How often it has changed hands.
    pub epoch: u64,
    /// Whether its work has begun.
    pub ready: bool,
    /// The age of the oldest input not yet applied, in milliseconds, if it knows.
    pub lag: Option<u64>,
    /// How much its owner applied since it began.
    pub applied: u64,
    /// What hinders it at the moment.
    pub trouble: Option<String>,
    /// Why it stopped until an operator decides.
    pub stopped: Option<String>,
    /// The pause before its present tenure.
    pub pause: Option<Pause>,
    /// Which nodes gave it up lately.
    pub refusals: Vec<RefusalStatus>,
}

/// A node that gave a role up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalStatus {
    /// The node.
    pub node: String,
    /// Why.
    pub reason: String,
    /// Until when it is not given the role again, in milliseconds since the Unix epoch.
    pub until: u64,
}

impl ClusterStatus {
    /// Reads it from the store, for `roles`.
    pub async fn read(store: &dyn Store, roles: &[Role]) -> Result<Self, Fault> {
        Ok(ClusterStatus::of(&Roster::read(store).await?, roles))
    }

    /// What a roster shows of `roles`.
    pub fn of(roster: &Roster, roles: &[Role]) -> Self {
        let mut roles: Vec<&Role> = roles.iter().collect();
        roles.sort_unstable();
        roles.dedup();
        let members = roster.members.values().map(|found| &found.value);
        ClusterStatus {
            now: roster.now.0,
            nodes: members.map(|member| node_status(roster, member)).collect(),
            roles: roles.into_iter().map(|role| role_status(roster, role)).collect(),
            unreadable: roster
                .unreadable
                .iter()
                .map(|cell| format!("{:?}: {}", cell.key, cell.reason))
                .collect(),
            scaling: roster.scale.as_ref().and_then(|found| found.value.status(roster.now)),
        }
    }
}

fn node_status(roster: &Roster, member: &Member) -> NodeStatus {
    NodeStatus {
        id: member.id.clone(),
        address: member.address.clone(),
        version: member.version.clone(),
        since: member.since.0,
        load: member.load,
        draining: roster.is_draining(member),
        live: roster.is_live(member),
    }
}

fn role_status(roster: &Roster, role: &Role) -> RoleStatus {
    let epoch = roster.leases.get(role).map_or(0, |found| found.value.epoch);
    let owner = roster.owner(role);
    // What an earlier owner said of an earlier epoch says nothing of now.
    let report = owner.and_then(|id| roster.reports.get(id)?.of(role, epoch));
    let refusals = roster.refusals.iter().filter(|((refused, _), _)| refused == role);
    RoleStatus {
        role: role.clone(),
        owner: owner.map(str::to_string),
        epoch,
        ready: report.is_some_and(|report| report.ready),
        lag: report.and_then(|report| report.lag),
        applied: report.map_or(0, |report| report.applied),
        trouble: report.and_then(|report| report.trouble.clone()),
        stopped: report.and_then(|report| report.stopped.clone()),
        pause: report.and_then(|report| report.pause),
        refusals: refusals
            .map(|((_, node), refusal)| RefusalStatus {
                node: node.clone(),
                reason: refusal.reason.clone(),
                until: refusal.until.0,
            })
            .collect(),
    }
}
