//! A trial of glue: nodes of the program behind a balancer, killed, paused, added and retired while editors send
//! pieces of JSON and XML documents of several tenants to any of them, writers change documents of their own that halt, and
//! subscribers and a sink follow. Servers are restarted and killed as well. Afterwards the feed's rows are folded by plain
//! code, and compared with the documents of every node, with the reject list, with what followers saw and with all answers.
//!
//! `CONSORT_GLUE_FAULTS` says how many times the deck of faults is dealt: once by default, twice for an extensive run.

pub mod editors;
pub mod ledger;
mod pauses;
pub mod pieces;
pub mod replay;
mod served;
mod subscriber;
mod writers;

use std::time::Duration;

use consort_testbed::{Balancer, eventually};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::lifts::all_owned;
use crate::lifts::faults::{Fault, Scene};
use crate::lifts::nodes::Nodes;
use crate::lifts::servers::{Servers, Upon};
use crate::once::effort::times;
use crate::seed::seed;
use editors::Editors;
use ledger::PieceLedger;
use pauses::PauseWatch;
use pieces::Collection;
use replay::Replay;
use served::{Accounts, Served};
use subscriber::{RowsById, Subscribers, by_id, delivered};
use writers::{OwnedDocument, Writers};

/// The config of the nodes, in which each trial names a file of its own for the sink.
const CONFIG: &str = include_str!("glue/content.toml");
const SINK_FILE: &str = "changes.ndjson";

/// Nodes at the start.
const NODES: usize = 3;

/// How often each fault happens.
const DECK: [(Fault, usize); 6] = [
    (Fault::Kill, 10),
    (Fault::Pause, 8),
    (Fault::Join, 6),
    (Fault::Drain, 6),
    (Fault::Restart, 2),
    (Fault::KillServer, 2),
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
        let folder = tempfile::Builder::new().prefix("consort-sink-").tempdir().expect("a folder");
        let (file, config) = (folder.path().join("changes"), folder.path().join("content.toml"));
        let text = CONFIG.replace(SINK_FILE, &file.display().to_string());
        std::fs::write(&config, text).expect("a config can be written");
        let servers = Servers::start_to_be_killed(self.upon).await;
        let balancer = Balancer::start().await;
        let config = config.display().to_string();
        let mut nodes = Nodes::new(self.program, config, servers.engine(), balancer);
        (0..NODES).for_each(|_| drop(nodes.add()));
        let ledger = PieceLedger::default();
        let balancer = nodes.balancer();
        let editors = Editors::start(balancer, &ledger, &mut random);
        let writers = Writers::start(balancer, &mut random);
        let subscribers = Subscribers::start(balancer);
        let pauses = PauseWatch::start(format!("http://{balancer}"));
        let mut scene = Scene::new(servers, nodes, random);
        scene.all_over().await;
        all_owned(&scene.nodes).await;

        for _ in 0..times("CONSORT_GLUE_FAULTS", 1) {
            scene.suffer(&DECK, || ledger.acknowledged()).await;
        }
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        eprintln!("{}", pauses.stop().await);
        let (owned, ()) = tokio::join!(writers.stop(), editors.stop());

        let addresses = scene.nodes.addresses();
        compare(&addresses, &ledger).await;
        compare_owned(&addresses, &owned).await;
        let followed = subscribers.stop().await;
        for collection in Collection::ALL {
            let rows = by_id(Served::new(&addresses).rows(collection.name()).await);
            assert_eq!(followed[&collection], rows, "a subscriber of {}", collection.name());
        }
        let films = &followed[&Collection::Films];
        eventually("the sink has every version", SETTLED_WITHIN, || async {
            delivered(&file) == *films
        })
        .await;
        assert!(ledger.acknowledged() >= PIECES, "too little happened between the faults");
        assert!(ledger.broken() > 0, "no client noticed anything: the trial is too mild");
        scene.nodes.stop().await;
    }
}

/// Compares the documents that have one client each.
async fn compare_owned(addresses: &[String], owned: &[OwnedDocument]) {
    let collections = [writers::COLLECTION];
    eventually("no piece of a writer is on its way", SETTLED_WITHIN, || async {
        let accounts = Accounts::read(&addresses[0], &collections).await;
        accounts.is_some_and(|accounts| accounts.waiting() == 0)
    })
    .await;
    let served = Served::new(addresses);
    let rows: RowsById = by_id(served.rows(writers::COLLECTION).await);
    for one in owned {
        let document = served.document(writers::COLLECTION, &one.id, "default").await;
        one.meets(&document, &rows[&one.id]);
    }
    let sum = |count: fn(&OwnedDocument) -> usize| owned.iter().map(count).sum::<usize>();
    let (requests, discarded) = (sum(|one| one.requests), sum(|one| one.discarded));
    eprintln!("{requests} requests of writers were answered, {discarded} halts were discarded");
    assert!(discarded > 0, "no document halted: the trial is too mild");
}

/// Waits until all pieces are applied, and compares all that the nodes serve with a replay.
async fn compare(addresses: &[String], ledger: &PieceLedger) {
    let served = Served::new(addresses);
    let accounts = eventually("no piece is on its way", SETTLED_WITHIN, || async {
        let names = Collection::ALL.map(Collection::name);
        let accounts = Accounts::read(&addresses[0], &names).await?;
        (accounts.waiting() == 0).then_some(accounts)
    });
    let accounts = accounts.await;
    let (sent, mut replay) = (ledger.sent(), Replay::default());
    let mut rows = 0;
    for collection in Collection::ALL {
        for row in served.rows(collection.name()).await {
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
