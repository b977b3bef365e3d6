//! Trials of the database part: nodes with two databases, killed, paused, cut off and drained while clients write to
//! registers and move money between accounts. Afterwards the histories of all calls are judged ([`lin`](crate::lin)),
//! and all workers must have the same contents.

pub mod bank;
pub mod caller;
pub mod client;
pub mod clock;
pub mod faults;
pub mod feed;
pub mod judge;
pub mod load;
#[cfg(test)]
mod model;
pub mod nodes;
pub mod pauses;
pub mod register;
pub mod scaling;
pub mod scene;
pub mod status;
pub mod stores;
pub mod stream;
pub mod watch;
pub mod workers;

use std::time::Duration;

use consort_testbed::eventually;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::operator;
use crate::once::effort::times;
use crate::seed::seed;
use clock::TrialClock;
use nodes::DbNodes;
use pauses::FaultLog;
use scene::DbScene;
use stores::{DbStore, DbUpon};
use watch::WorkerWatch;

/// The database of the registers.
pub const REGISTER: &str = "register";

/// The database of the accounts.
pub const BANK: &str = "bank";

/// Says how many faults a trial has, for the extensive trials: at least 200.
const FAULTS_VARIABLE: &str = "CONSORT_TESTBED_DB_FAULTS";

/// Writes that a trial has acknowledged for each fault, at least.
const WRITES_EACH: usize = 20;

/// How long all roles may take to be owned, and the workers to be equal, when nothing hinders. It bounds a hang, and
/// is no measure of speed.
pub const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// The databases, as the nodes declare them. Paths are relative to this package.
const DATABASES: [(&str, &str, &str); 2] = [
    (REGISTER, "src/db/schema/register", "readers = { min = 2, max = 2 }"),
    (BANK, "src/db/schema/bank", "readers = { min = 1, max = 1 }"),
];

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct DbTrial {
    /// Its name.
    pub name: &'static str,
    /// The program, which is `env!("CARGO_BIN_EXE_consort-under-test")`.
    pub program: &'static str,
    /// The store below the nodes.
    pub upon: DbUpon,
}

impl DbTrial {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If an acknowledged write is missing or took effect twice, money was made or lost, an answer is out of order,
    /// workers differ, or the cluster gets stuck.
    pub async fn run(self) {
        let mut random = StdRng::seed_from_u64(seed(self.name));
        let faults = times(FAULTS_VARIABLE, faults::all(self.upon).len());
        let clock = TrialClock::start();
        let store = DbStore::start(self.upon).await;
        let mut nodes = DbNodes::new(self.program, &DATABASES);
        for _ in 0..self.upon.nodes() {
            nodes.add(&store).await;
        }
        let chance = StdRng::seed_from_u64(random.random());
        let mut scene = DbScene::new(store, nodes, FaultLog::new(clock), chance);
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        for database in [REGISTER, BANK] {
            workers::have_schema(&scene.nodes.list(), database).await;
        }

        let watch = WorkerWatch::start(scene.nodes.list());
        let registers = register::start(scene.nodes.list(), clock, &mut random);
        let accounts = bank::start(scene.nodes.list(), clock, &mut random);
        let acknowledged = || registers.acknowledged() + accounts.acknowledged();
        scene.suffer(self.upon, faults, acknowledged).await;
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        let (records, calls) = (registers.stop().await, accounts.stop().await);
        let seen = watch.stop().await;

        for database in [REGISTER, BANK] {
            workers::all_equal(self.program, &scene.nodes.list(), database).await;
        }
        let told = [
            stream::history(&scene.nodes.list(), REGISTER).await,
            stream::history(&scene.nodes.list(), BANK).await,
        ];
        scene.nodes.stop().await;
        let engine = scene.store.open().await;
        judge::registers(&records, &feed::read(&engine, REGISTER).await, &told[0]);
        judge::accounts(&calls, &feed::read(&engine, BANK).await, &told[1]);

        eprintln!("{}\n{seen}", scene.log.report(&records, &calls));
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
        assert!(scene.log.len() >= faults, "{} faults, and not {faults}", scene.log.len());
        let writes = pauses::acknowledged(&records, &calls).len();
        assert!(writes >= WRITES_EACH * faults, "too little happened between the faults: {writes}");
    }
}

/// Waits until every node says that every role has an owner that works, and that no other node is there.
async fn all_owned(nodes: &DbNodes) {
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
