//! How long work stands still when the cluster changes: a node joins, is drained, or is killed.
//!
//! All nodes run in this process, each with connections of its own to one private Redis.

mod board;
mod changes;
mod counting;
mod crew;
mod pauses;
mod picture;
mod producer;
mod report;
mod spread;
mod trail;
mod witness;

use std::time::Duration;

use anyhow::Result;
use consort_engines::{Durability, Engine};
use consort_testbed::{Fsync, RedisOptions, RedisServer};
use rand::Rng;

use crate::report::Results;
use report::ClusterReport;

/// Shards of the store: as many as a node has unless set otherwise.
const SHARDS: u16 = 16;

/// How long anything here may take before the run is given up: many times what it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// Rounds with workers at work on a stream.
    pauses: usize,
    /// Rounds at each number of nodes, with work that is ready at once.
    changes: usize,
}

impl Rounds {
    /// For figures: about four minutes, of which most is waiting for the leases of killed nodes.
    pub(crate) const FULL: Rounds = Rounds { pauses: 14, changes: 8 };
    /// To see that it works.
    pub(crate) const QUICK: Rounds = Rounds { pauses: 1, changes: 1 };
}

/// Measures all of it.
pub(crate) async fn run(rounds: Rounds) -> Result<Results> {
    let mut report = ClusterReport::default();
    eprintln!("pauses");
    pauses::run(rounds.pauses, &mut report).await?;
    for nodes in changes::NODES {
        eprintln!("changes at {nodes} nodes");
        changes::run(nodes, rounds.changes, &mut report).await?;
    }
    report.results()
}

async fn server() -> RedisServer {
    RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await
}

/// Connections of one's own.
async fn open(url: &str) -> Result<Engine> {
    let options = consort_engines::Options {
        url: url.into(),
        broker: None,
        namespace: "bench".into(),
        shards: SHARDS,
        durability: Durability::Fsync,
        allow_volatile: false,
        tls_ca: None,
    };
    Ok(consort_engines::open(&options).await?)
}

/// Lets the cluster work for somewhat longer than a heartbeat, and not always for as long: a node is
/// killed now shortly after a heartbeat, now shortly before the next.
async fn work_on() {
    let millis = rand::rng().random_range(600..1100);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
