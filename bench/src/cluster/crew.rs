//! The nodes of a cluster, of which one joins, is drained or is killed at a time.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_cluster::node::{HEARTBEAT, TTL};
use consort_cluster::ownership::{Candidate, owners};
use consort_cluster::{ClusterNode, Left, Options, Part, Role, Runtime, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::SystemEntropy;

use super::board::{Board, Owners};
use super::open;
use super::witness::{Pauses, Witness};

/// What happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A node joins.
    Join,
    /// The node that has been there for longest is retired.
    Drain,
    /// The node that has been there for longest is gone without a word.
    Kill,
}

impl Event {
    /// One round: the cluster ends with as many nodes as it began with.
    pub(super) const ROUND: [Event; 4] = [Event::Join, Event::Drain, Event::Join, Event::Kill];
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Event::Join => "a node joins",
            Event::Drain => "a node is drained",
            Event::Kill => "a node is killed",
        })
    }
}

/// What came of an event.
#[derive(Debug)]
pub(super) struct Change {
    /// From the event until all roles were worked on by whom they should be.
    pub(super) took: Duration,
    /// The roles that have another owner than before.
    pub(super) moved: Vec<Role>,
    /// Those of them that came to the node that joined, or were of the one that left.
    pub(super) had_to: BTreeSet<Role>,
    /// The pauses of those that moved.
    pub(super) pauses: Pauses,
}

/// Makes the part that does the work on the node with this id.
pub(super) type MakePart = Box<dyn Fn(&str, &Engine) -> Arc<dyn Part> + Send + Sync>;

/// A cluster.
pub(super) struct Crew {
    url: String,
    roles: Vec<Role>,
    make_part: MakePart,
    board: Arc<Board>,
    witness: Arc<Witness>,
    /// By age, the oldest first.
    nodes: VecDeque<Crewman>,
    joined: usize,
}

/// A node with its connections.
struct Crewman {
    id: String,
    node: ClusterNode,
    _engine: Engine,
}

impl Crew {
    /// Nobody yet.
    pub(super) fn new(url: &str, roles: &[Role], board: &Arc<Board>, make_part: MakePart) -> Self {
        Crew {
            url: url.into(),
            roles: roles.to_vec(),
            make_part,
            board: Arc::clone(board),
            witness: Arc::default(),
            nodes: VecDeque::new(),
            joined: 0,
        }
    }

    /// Lets nodes join until there are so many.
    pub(super) async fn grow(&mut self, nodes: usize) -> Result<()> {
        while self.nodes.len() < nodes {
            self.undergo(Event::Join).await?;
        }
        Ok(())
    }

    /// Lets something happen, and waits until every role is where it should be then.
    pub(super) async fn undergo(&mut self, event: Event) -> Result<Change> {
        let before = self.board.wanted();
        let (who, since) = match event {
            Event::Join => self.join().await?,
            Event::Drain => self.drain().await?,
            Event::Kill => self.kill()?,
        };
        let took = self.board.settled().await?.saturating_duration_since(since);
        let after = self.board.wanted();
        let moved: Vec<Role> =
            after.keys().filter(|role| before.get(role) != after.get(role)).cloned().collect();
        let had_to = |role: &&Role| {
            [before.get(*role), after.get(*role)].into_iter().flatten().any(|owner| *owner == who)
        };
        let had_to = moved.iter().filter(had_to).cloned().collect();
        let mut pauses = self.witness.pauses(&moved).await;
        pauses.retain(|role, _| moved.contains(role));
        Ok(Change { took, moved, had_to, pauses })
    }

    /// How often a node could not renew its leases in time.
    pub(super) fn fenced(&self) -> usize {
        self.witness.fenced()
    }

    /// An id that was not there before: so each round has other owners.
    async fn join(&mut self) -> Result<(String, Instant)> {
        self.joined += 1;
        let id = format!("node-{}", self.joined);
        let engine = open(&self.url).await?;
        let runtime: Arc<dyn Runtime> = TokioRuntime::current();
        let options = Options {
            id: id.clone(),
            address: format!("{id}.example:7400"),
            version: env!("CARGO_PKG_VERSION").into(),
            ttl: TTL,
            heartbeat: HEARTBEAT,
            sole: engine.sole,
            parts: vec![(self.make_part)(&id, &engine)],
            store: Arc::clone(&engine.store),
            lease_store: Arc::clone(&engine.lease_store),
            work_runtime: Arc::clone(&runtime),
            runtime,
            entropy: Arc::new(SystemEntropy),
            observer: Arc::clone(&self.witness) as _,
            load: Arc::new(consort_cluster::UnmeasuredLoad),
        };
        self.want(Some(&id));
        let node = ClusterNode::join(options).await?;
        let since = Instant::now();
        self.nodes.push_back(Crewman { id: id.clone(), node, _engine: engine });
        Ok((id, since))
    }

    /// Returns when the node has left, which takes no longer than its roles need to settle.
    async fn drain(&mut self) -> Result<(String, Instant)> {
        let crewman = self.nodes.pop_front().context("there is a node to drain")?;
        self.want(None);
        let since = Instant::now();
        crewman.node.handle().drain().await?;
        let left = crewman.node.ended().await;
        ensure!(left == Left::Drained, "{} was to be drained: {left}", crewman.id);
        Ok((crewman.id, since))
    }

    fn kill(&mut self) -> Result<(String, Instant)> {
        let crewman = self.nodes.pop_front().context("there is a node to kill")?;
        self.want(None);
        let since = Instant::now();
        drop(crewman.node);
        Ok((crewman.id, since))
    }

    /// How the work should be shared by the nodes that are there, and this one.
    fn want(&self, joins: Option<&str>) {
        let ids = self.nodes.iter().map(|crewman| crewman.id.as_str()).chain(joins);
        let candidate = |id: &str| Candidate { id: id.into(), draining: false };
        let candidates: Vec<Candidate> = ids.map(candidate).collect();
        let wanted: Owners = owners(&candidates, &self.roles, &BTreeSet::new(), &BTreeSet::new());
        self.board.want(wanted);
    }
}
