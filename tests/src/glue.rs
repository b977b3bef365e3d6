//! A trial of glue: nodes of the program behind a balancer, killed, paused, added and retired while editors send
//! pieces of JSON and XML documents to any of them. Afterwards the feed's rows are folded by plain code, and compared
//! with the documents of every node, with the reject list and with all answers.

pub mod editors;
pub mod ledger;
mod pauses;
pub mod pieces;
pub mod replay;
mod served;

use std::time::Duration;

use consort_testbed::{Balancer, eventually};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::lifts::all_owned;
use crate::lifts::faults::{Fault, Scene};
use crate::lifts::nodes::Nodes;
use crate::lifts::servers::{Servers, Upon};
use crate::seed::seed;
use editors::Editors;
use ledger::PieceLedger;
use pieces::Collection;
use replay::Replay;
use served::{Accounts, Served};

/// The config of the nodes, relative to the package.
const CONFIG: &str = "src/glue/content.toml";

/// Nodes at the start.
const NODES: usize = 3;

/// How often each fault happens.
const DECK: [(Fault, usize); 5] = [
    (Fault::Kill, 10),
    (Fault::Pause, 8),
    (Fault::Join, 6),
    (Fault::Drain, 6),
    (Fault::Restart, 2),
];

/// Pieces that a trial has acknowledged at least: some dozen for each fault.
const PIECES: usize = 1_000;

/// How long all pieces may take to be applied when nothing hinders. It bounds a hang, and is no measure of speed.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct GlueTrial {
    /// Its name.
    pub name: &'static str,
    /// The program, which is `env!("CARGO_BIN_EXE_consort-under-test")`.
    pub program: &'static str,
    /// The servers below the nodes.
    pub upon: Upon,
}

impl GlueTrial {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If a piece that was acknowledged is missing, counts twice or is out of order, if nodes serve other documents
    /// than the replay has, or the cluster gets stuck.
    pub async fn run(self) {
        let mut random = StdRng::seed_from_u64(seed(self.name));
        let servers = Servers::start(self.upon).await;
        let balancer = Balancer::start().await;
        let mut nodes = Nodes::new(self.program, CONFIG, servers.engine(), balancer);
        (0..NODES).for_each(|_| drop(nodes.add()));
        let ledger = PieceLedger::default();
        let editors = Editors::start(nodes.balancer(), &ledger, &mut random);
        let mut scene = Scene::new(servers, nodes, random);
        scene.all_over().await;
        all_owned(&scene.nodes).await;

        scene.suffer(&DECK, || ledger.acknowledged()).await;
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        editors.stop().await;

        let addresses = scene.nodes.addresses();
        compare(&addresses, &ledger).await;
        eprintln!("{}", pauses::report(&addresses).await);
        assert!(ledger.acknowledged() >= PIECES, "too little happened between the faults");
        assert!(ledger.broken() > 0, "no client noticed anything: the trial is too mild");
        scene.nodes.stop().await;
    }
}

/// Waits until all pieces are applied, and compares all that the nodes serve with a replay.
async fn compare(addresses: &[String], ledger: &PieceLedger) {
    let served = Served::new(addresses);
    let accounts = eventually("no piece is on its way", SETTLED_WITHIN, || async {
        let accounts = Accounts::read(&addresses[0]).await?;
        (accounts.waiting() == 0).then_some(accounts)
    });
    let accounts = accounts.await;
    let (sent, mut replay) = (ledger.sent(), Replay::default());
    let mut rows = 0;
    for collection in Collection::ALL {
        for row in served.rows(collection).await {
            replay.row(collection, &row, &sent);
            rows += 1;
        }
        for reject in served.rejects(collection).await {
            replay.reject(collection, &reject, &sent);
        }
    }
    let (applied, rejected) = replay.meets(&sent);
    let expected = replay.documents();
    for address in addresses {
        assert_eq!(Served::documents(address).await, expected, "the documents at {address}");
    }
    eprintln!(
        "{}; {} documents, {rows} versions and {rejected} rejects ({:?}) are as they must be; {accounts:?}",
        ledger.report(),
        expected.len(),
        replay.reasons(),
    );
    assert_eq!(accounts.received, accounts.applied + accounts.repeats + accounts.rejected);
    assert_eq!(accounts.applied, applied as u64);
    assert_eq!(accounts.rejected, rejected as u64);
    assert!(rejected > 0 && accounts.repeats > 0, "the trial is too mild");
}
