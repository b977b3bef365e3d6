//! A trial of the lift rides: nodes of the program itself behind a balancer, killed, paused, added and
//! retired while rides are posted to any of them and questions asked of any of them. Afterwards all views
//! are compared with an independent count of what was acknowledged.

pub mod compare;
pub mod count;
pub mod faults;
pub mod ledger;
pub mod nodes;
pub mod rider;
pub mod rides;
pub mod servers;

use std::time::Duration;

use consort_testbed::{Balancer, eventually};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::cluster::operator;
use crate::seed::seed;
use compare::Views;
use count::Count;
use faults::Scene;
use ledger::Ledger;
use nodes::Nodes;
use rider::Riders;
use servers::{Servers, Upon};

/// Nodes at the start.
const NODES: usize = 3;

/// Rides that a trial has acknowledged at least: some hundred for each fault.
const RIDES: usize = 1_000;

/// How long all roles may take to be owned, and the views to hold all rides, when nothing hinders. It
/// bounds a hang, and is no measure of speed.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What it is called.
    pub name: &'static str,
    /// The program, which is `env!("CARGO_BIN_EXE_consort-under-test")`.
    pub program: &'static str,
    /// What the nodes stand on.
    pub upon: Upon,
}

impl Trial {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If a ride that was acknowledged is missing or counts twice, an answer leaves out what it was asked
    /// to include, or the cluster gets stuck.
    pub async fn run(self) {
        let mut random = StdRng::seed_from_u64(seed(self.name));
        let servers = Servers::start(self.upon).await;
        let balancer = Balancer::start().await;
        let mut nodes = Nodes::new(self.program, nodes::LIFTS, servers.engine(), balancer);
        (0..NODES).for_each(|_| drop(nodes.add()));
        let ledger = Ledger::default();
        let riders = Riders::start(nodes.balancer(), &ledger, &mut random);
        let mut scene = Scene::new(servers, nodes, random);
        scene.all_over().await;
        all_owned(&scene.nodes).await;

        scene.suffer(&faults::DECK, || ledger.len()).await;
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        riders.stop().await;

        let rides = ledger.acknowledged();
        let count = Count::of(&rides);
        let groups = exact(&scene.nodes, &count).await;
        let tallies = compare::tallies(&scene.nodes.addresses()[0]).await;
        eprintln!("{}; {groups} groups are as they must be; {tallies:?}", ledger.report());
        assert_eq!(tallies["applied"], rides.len() as i64);
        assert_eq!(tallies["unreadable"], 0);
        assert!(tallies["duplicate"] > 0, "no ride came twice: the trial is too mild");
        assert!(rides.len() >= RIDES, "too little happened between the faults");
        assert!(ledger.broken() > 0, "no client noticed anything: the trial is too mild");
        scene.nodes.stop().await;
    }
}

/// Waits until the first node answers with all rides, and looks whether all others do. Gives how many
/// groups there are.
async fn exact(nodes: &Nodes, count: &Count) -> usize {
    let expected = Views::of(count);
    let addresses = nodes.addresses();
    let mut differences = Vec::new();
    let waited = tokio::time::timeout(SETTLED_WITHIN, async {
        loop {
            let answered = Views::asked(&addresses[0]).await;
            differences = expected.differences(&answered);
            if differences.is_empty() {
                return;
            }
        }
    });
    let waited = waited.await;
    assert!(waited.is_ok(), "the views never became what was acknowledged:\n{differences:#?}");
    for address in &addresses[1..] {
        let differences = expected.differences(&Views::asked(address).await);
        assert!(differences.is_empty(), "{address} answers otherwise: {differences:#?}");
    }
    expected.groups()
}

/// Waits until every node says that every role has an owner that works, and that nobody else is there.
pub async fn all_owned(nodes: &Nodes) {
    let ids = nodes.well();
    for id in &ids {
        let address = nodes.address(id);
        let what = format!("{id} says that every role has an owner that works");
        eventually(&what, SETTLED_WITHIN, || async {
            let status = operator::cluster(&address).await.ok()?.status;
            let live = status.nodes.iter().filter(|node| node.live).map(|node| &node.id);
            let works = status.roles.iter().all(|role| role.owner.is_some() && role.ready);
            (works && !status.roles.is_empty() && live.eq(&ids)).then_some(())
        })
        .await;
    }
}
