//! A trial of a cluster: nodes that fold a stream while they and their servers are killed, paused, joined
//! and retired at random, and the comparison with an independent count afterwards.

pub mod compare;
pub mod faults;
pub mod fold;
pub mod ledger;
pub mod lossy;
pub mod nodes;
pub mod operator;
pub mod producer;
pub mod servers;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use consort_engines::Engine;
use consort_testbed::eventually;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::seed::seed;
use crate::tally::{self, PARTITIONS};
use faults::Scene;
use fold::Fold;
use ledger::Ledger;
use nodes::Nodes;
use producer::Producers;
use servers::Servers;
use watch::{Seen, Watch};

/// Nodes at the start.
const NODES: usize = 3;

/// Faults that a trial has at least.
const FAULTS: usize = 60;

/// Records that a trial has acknowledged at least.
const RECORDS: usize = 5_000;

/// How long all roles may take to be owned, and the log to be applied, when nothing hinders. It bounds a
/// hang, and is no measure of speed.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What it is called.
    pub name: &'static str,
    /// The node's program, which is `env!("CARGO_BIN_EXE_tally-node")`.
    pub node: &'static str,
    /// Whether the log is on RabbitMQ.
    pub broker: bool,
}

impl Trial {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If the cluster lost, doubled or reordered anything, or got stuck.
    pub async fn run(self) {
        let mut random = StdRng::seed_from_u64(seed(self.name));
        let servers = Servers::start(self.broker).await;
        let engine = consort_engines::open(&servers.options()).await.expect("the engine opens");
        let mut nodes = Nodes::new(self.node, servers.options());
        (0..NODES).for_each(|_| drop(nodes.add()));

        let ledger = Ledger::default();
        let watch = Watch::start(Arc::clone(&engine.store));
        let producers = Producers::start(&engine, &ledger, &mut random);
        let mut scene = Scene::new(servers, nodes, ledger.clone(), random);
        scene.all_over().await;
        all_owned(&scene.nodes).await;

        let happened = scene.suffer(self.broker).await;
        scene.all_over().await;
        all_owned(&scene.nodes).await;
        producers.stop().await;
        all_applied(&engine, &ledger).await;
        let seen = watch.end().await;
        scene.nodes.stop().await;

        let fold = Fold::of(&engine).await;
        report(&ledger, &fold, &seen);
        eprintln!("{happened:?}");
        let cells = compare::compare(&engine, &fold, &ledger.fates()).await;
        eprintln!("{cells} cells are as they must be");
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
        assert!(faults::is_whole(&happened, self.broker), "{happened:?}");
        assert!(happened.values().sum::<usize>() >= FAULTS);
        assert!(ledger.acknowledged() >= RECORDS, "too little happened between the faults");
        assert!(fold.repeats > 0, "no frame was repeated: the trial is too mild");
    }
}

/// Waits until every node says that every role has an owner that works, and that nobody else is there.
async fn all_owned(nodes: &Nodes) {
    let ids = nodes.well();
    for id in &ids {
        let address = nodes.address(id).expect("a node that is well has an address");
        let what = format!("{id} says that every role has an owner that works");
        eventually(&what, SETTLED_WITHIN, || async {
            let status = operator::cluster(address).await.ok()?.status;
            let live = status.nodes.iter().filter(|node| node.live).map(|node| &node.id);
            let works = status.roles.iter().all(|role| role.owner.is_some() && role.ready);
            // Those of the tally, and the scaler.
            (works && status.roles.len() == tally::roles().len() + 1 && live.eq(&ids)).then_some(())
        })
        .await;
    }
}

/// Waits until every partition's checkpoint is behind all that was acknowledged, and behind what ended
/// unknown as far as it is in the log.
async fn all_applied(engine: &Engine, ledger: &Ledger) {
    for index in 0..PARTITIONS {
        let what = format!("partition {index} is applied as far as it was acknowledged");
        eventually(&what, SETTLED_WITHIN, || async {
            let checkpoint = tally::cells(index).read_checkpoint(&*engine.store).await.ok()?;
            ledger.is_behind_all(index, &checkpoint).then_some(())
        })
        .await;
    }
    for (index, end) in Fold::of(engine).await.ends {
        let what = format!("partition {index} is applied up to its last event, {end}");
        eventually(&what, SETTLED_WITHIN, || async {
            let checkpoint = tally::cells(index).read_checkpoint(&*engine.store).await.ok()?;
            (checkpoint.stand.next > end).then_some(())
        })
        .await;
    }
}

fn report(ledger: &Ledger, fold: &Fold, seen: &Seen) {
    let (acknowledged, possible, failed) = ledger.summary();
    let duplicates: u64 = fold.keys.values().map(|count| count.duplicates).sum();
    let counted: usize = fold.keys.values().map(|count| count.values.len()).sum();
    eprintln!(
        "records: {acknowledged} acknowledged, {possible} unknown, {failed} failed; {counted} counted \
         of {} keys, {duplicates} sent again",
        fold.keys.len(),
    );
    eprintln!(
        "frames: {} with events, {} repeats, {} control",
        fold.frames, fold.repeats, fold.controls
    );
    eprintln!("{}", seen.report());
}
