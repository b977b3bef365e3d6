//! A trial of scaling: `consort up` follows a load that rises and falls, while a node is killed at the peak. Afterwards
//! every view equals an independent count of the posts that were acknowledged.

pub mod capped;
pub mod decisions;
pub mod load;
pub mod pauses;
pub mod pieces;
pub mod up;

use std::sync::Arc;
use std::time::Duration;

use consort_client::Cluster;
use consort_cluster::PauseCause;
use consort_testbed::eventually;
use tokio::time::Instant;

use crate::lifts::servers::{Servers, Upon};
use crate::seed::seed;
use decisions::Decisions;
use load::{PostLoad, PostSender, Rides};
use pauses::{LOG_PAUSES, Pauses};
use pieces::Pieces;
use up::Up;

/// What one record costs a node: two hundred a second fill it. That is twice what a gate lets in whatever the lag
/// (`PACE_LEAST` of the server), so that a gate can hold the lag of a full node.
const COST: Duration = Duration::from_millis(5);

/// Posts a second: half of what one node does; more than two nodes do, while three have about 30 % to spare; and hardly
/// any.
const LOW: f64 = 100.0;
const HIGH: f64 = 430.0;
const END: f64 = 5.0;

/// How long the scaler sees the low load before it rises: its decisions are five seconds apart.
const LOW_FOR: Duration = Duration::from_secs(5);

/// How long each phase may take. It bounds a hang, and is no measure of speed: steps up are half a minute apart.
const PHASE_WITHIN: Duration = Duration::from_secs(180);

/// Between two looks at the cluster.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Short, so that much happens within a trial.
const SETTINGS: [&str; 4] =
    ["cluster.lease=2s", "cluster.heartbeat=200ms", "scale.down_after=10s", LOG_PAUSES];

/// A collection beside the streams, for posts that are pieces.
const COLLECTION: &str = "[glue.pieces]\nformat = 'json'\npartitions = 8\ngap_for = '120s'\n";

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct ScalingTrial {
    /// What it is called; also the names of its nodes begin with it.
    pub name: &'static str,
    /// The program, which is `env!("CARGO_BIN_EXE_capped-consort")`.
    pub program: &'static str,
    /// What the nodes stand on.
    pub upon: Upon,
}

struct Stage {
    up: Up,
    pauses: Pauses,
    decisions: Decisions,
}

impl ScalingTrial {
    /// Runs it with lift rides.
    pub async fn run(self) {
        self.run_with(vec![Arc::new(Rides::default())]).await;
    }

    /// Runs it with lift rides and pieces of documents at the same time.
    pub async fn run_with_pieces(self) {
        self.run_with(vec![Arc::new(Rides::default()), Arc::new(Pieces::default())]).await;
    }

    /// Runs it with these kinds of posts, all of them all the time.
    ///
    /// # Panics
    ///
    /// If the nodes do not follow the load, or an acknowledged post is missing or counts twice.
    pub async fn run_with(self, senders: Vec<Arc<dyn PostSender>>) {
        let servers = Servers::start(self.upon).await;
        let prefix = format!("{}-{}", self.name, std::process::id());
        let engine = servers.engine();
        let up = Up::start(self.program, &prefix, &engine, 3, COST, &SETTINGS, COLLECTION);
        let mut stage = Stage { up, pauses: Pauses::default(), decisions: Decisions::new() };
        stage.until("one node works", |cluster| live(cluster) == 1 && works(cluster)).await;
        let load = PostLoad::start(senders, stage.up.ports(), LOW, seed(self.name));
        let first = stage.until("the scaler has decided", |cluster| decided(cluster) > 0).await;
        let sees_load = decided(&first) + LOW_FOR.as_millis() as u64;
        let sees_load = |cluster: &Cluster| decided(cluster) >= sees_load;
        let seen = stage.until("the scaler has seen the load", sees_load).await;
        assert_eq!(seen.wanted, Some(1), "one node is enough for the low load: {seen:#?}");

        load.set_rate(HIGH);
        stage.tell("the load rises", &load);
        let three = |cluster: &Cluster| live(cluster) == 3 && works(cluster);
        let peak = stage.until("three nodes work", three).await;
        stage.tell("three nodes work", &load);
        stage.up.kill_node(2);
        let is_back = |cluster: &Cluster| youngest(cluster) > youngest(&peak);
        stage.until("another process has its id", is_back).await;
        stage.until("it works", three).await;
        stage.tell("a killed node is back", &load);

        load.set_rate(END);
        stage.until("two nodes are left", |cluster| live(cluster) == 2).await;
        stage.until("one node is left", |cluster| live(cluster) == 1 && works(cluster)).await;
        stage.tell("one node is left", &load);
        let acknowledged = load.count();
        let senders = load.stop().await;
        let address = stage.up.address(1);
        for sender in &senders {
            let what = format!("the answers equal the count of {} posts", sender.count());
            exact(&what, &**sender, &address).await;
        }
        stage.has_followed(acknowledged);
        assert_eq!(stage.up.terminate().await, Some(0), "{}", stage.up.output());
        assert!(stage.up.node_pids().is_empty(), "nothing is left behind");
    }
}

impl Stage {
    /// Looks at the cluster until it is as it should be, and takes note of pauses and decisions meanwhile.
    async fn until(&mut self, what: &str, fits: impl Fn(&Cluster) -> bool) -> Cluster {
        let deadline = Instant::now() + PHASE_WITHIN;
        loop {
            if let Some(cluster) = self.up.cluster().await {
                self.pauses.note(&cluster);
                self.decisions.note(&cluster);
                if fits(&cluster) {
                    return cluster;
                }
                let decisions = || self.up.decisions();
                let at_last = || format!("{:#?}; at last {cluster:#?}", decisions());
                assert!(Instant::now() < deadline, "{what}: never; decisions {}", at_last());
            }
            assert!(self.up.exit_code().is_none(), "`consort up` runs until {what}");
            assert!(Instant::now() < deadline, "{what}: never, and no node answers");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn tell(&self, what: &str, load: &PostLoad) {
        self.decisions.tell(&format!("{what}; {} posts acknowledged", load.count()));
    }

    /// Looks whether every step was decided for a reason and in order, and shows what it took.
    fn has_followed(&mut self, acknowledged: usize) {
        self.pauses.read(&self.up.output());
        let decisions = self.up.decisions();
        eprintln!("{acknowledged} posts; {}\n{decisions:#?}", self.pauses.report());
        let numbers: Vec<u64> = decisions.iter().map(|(_, after, _)| *after).collect();
        let changes: Vec<(u64, u64)> = decisions
            .iter()
            .map(|(before, after, _)| (*before, *after))
            .filter(|(before, after)| before != after)
            .collect();
        assert_eq!(changes, [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1)], "{numbers:?}");
        assert!(decisions.iter().all(|(_, _, why)| !why.is_empty()));
        let missing = self.pauses.missing();
        assert!(missing.is_empty(), "the pauses before these tenures are not known: {missing:?}");
        assert!(!self.pauses.of_cause(PauseCause::HandedOver).is_empty(), "roles were handed over");
        assert!(!self.pauses.of_cause(PauseCause::TakenOver).is_empty(), "roles were taken over");
        let retired = self.up.output().matches("hands its roles over and leaves").count();
        assert_eq!(retired, 2, "both nodes left by draining");
    }
}

impl Drop for Stage {
    /// Also when the trial fails: the pauses show what the hand-overs took until then.
    fn drop(&mut self) {
        self.pauses.read(&self.up.output());
        eprintln!("{}\n{}", self.pauses.report(), self.pauses.lines());
    }
}

/// When the scaler last decided; 0 if it has not.
fn decided(cluster: &Cluster) -> u64 {
    cluster.status.scaling.as_ref().map_or(0, |scaling| scaling.decided)
}

fn live(cluster: &Cluster) -> usize {
    cluster.status.nodes.iter().filter(|node| node.live && !node.draining).count()
}

/// When the node joined that joined last.
fn youngest(cluster: &Cluster) -> u64 {
    cluster.status.nodes.iter().map(|node| node.since).max().unwrap_or_default()
}

/// Whether every role has an owner that works, and every live node has some.
fn works(cluster: &Cluster) -> bool {
    let roles = &cluster.status.roles;
    let owned = roles.iter().all(|role| role.owner.is_some() && role.ready);
    let nodes = cluster.status.nodes.iter().filter(|node| node.live);
    let shared = nodes.clone().all(|node| {
        roles
            .iter()
            .any(|role| role.role.kind() == "worker" && role.owner.as_ref() == Some(&node.id))
    });
    owned && shared && !roles.is_empty()
}

async fn exact(what: &str, sender: &dyn PostSender, address: &str) {
    eventually(what, PHASE_WITHIN, || async {
        let differences = sender.differences(address).await;
        if !differences.is_empty() {
            eprintln!("not yet: {} and more", differences[0]);
        }
        differences.is_empty()
    })
    .await;
}
