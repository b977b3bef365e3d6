//! Heartbeats wait neither for requests nor for roles, in a node as it is put together.

use std::io::Write as _;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use consort::Extension;
use consort::parts::RolesPart;
use consort_client::{Client, Connection, Method};
use consort_cluster::Part;
use consort_cluster::node::TTL;
use consort_testbed::{RedisOptions, RedisServer, eventually};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bed::{PATIENCE, config_here, sees};
use crate::obstacles::{HoldersPart, ThreadHolders, stalling};
use crate::roles::{figure, metrics};

const STREAMS: &str = "
[stream.numbers]
fields = { number = 'int' }
[stream.lines]
form = 'line'
";

/// How long each obstacle stands: a node that missed its heartbeats for so long would have dropped its roles.
const OBSTRUCTED: Duration = TTL.saturating_add(Duration::from_secs(2));

/// Clients of each kind that send hostile bodies.
const ATTACKERS: usize = 4;

/// Posts the body again and again.
async fn attack(client: Client, path: &str, headers: &[(&'static str, &str)], body: Bytes) {
    let mut connection = Connection::new(client, PATIENCE);
    loop {
        let _ = connection.send(Method::POST, path, headers, body.clone()).await;
        tokio::task::yield_now().await;
    }
}

/// A few kilobytes that inflate to 16 MiB of line breaks.
fn line_breaks() -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![b'\n'; 16 << 20]).expect("memory takes it");
    encoder.finish().expect("memory takes it").into()
}

/// A list of which no item is an event.
fn zeros() -> Bytes {
    format!("[0{}]", ",0".repeat(500_000)).into()
}

/// Each role with its owner and epoch.
async fn owners(node: &consort::Node) -> Vec<(String, Option<String>, u64)> {
    let status = node.cluster().status().await.expect("a status");
    let roles = status.roles.into_iter();
    roles.map(|role| (role.role.to_string(), role.owner, role.epoch)).collect()
}

#[tokio::test]
async fn no_role_is_lost_to_hostile_bodies_a_stalled_store_or_busy_threads() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let (stall, stalls) = watch::channel(false);
    let threads = available_parallelism().map_or(1, usize::from);
    let holders = ThreadHolders::new(4 * threads);
    let part = Arc::clone(&holders);
    let part = RolesPart::new(move |_| vec![Arc::new(HoldersPart(part.clone())) as Arc<dyn Part>]);
    let extension = Extension::default()
        .with_part(Arc::new(part))
        .with_engine(move |engine| stalling(engine, stalls.clone()));
    // The lease is the default one.
    let config = config_here("a", &redis.url(), STREAMS);
    let node = consort::Node::start_extended(config, &extension).await.expect("a node");
    let client = Client::new(&format!("http://{}", node.address()), None).expect("an address");
    sees(&client, "all roles are at work", |cluster| {
        cluster.status.roles.iter().all(|role| role.owner.is_some() && role.ready)
    })
    .await;
    let before = owners(&node).await;
    assert!(before.len() > 4 * threads, "{before:?}");

    let mut attackers = JoinSet::new();
    for _ in 0..ATTACKERS {
        let gzip = &[("content-encoding", "gzip")];
        attackers.spawn(attack(client.clone(), "/write?db=lines", gzip, line_breaks()));
        attackers.spawn(attack(client.clone(), "/streams/numbers", &[], zeros()));
    }
    stall.send_replace(true);
    holders.hold();
    eventually("all threads of roles are held", PATIENCE, || async { holders.held() == threads })
        .await;
    tokio::time::sleep(OBSTRUCTED).await;
    // Requests are served on this thread alone.
    std::thread::sleep(OBSTRUCTED);
    attackers.shutdown().await;
    holders.release();
    stall.send_replace(false);

    assert_eq!(owners(&node).await, before);
    let metrics = metrics(&client).await;
    assert_eq!(figure(&metrics, "consort_cluster_fenced_total"), 0);
    assert!(figure(&metrics, "consort_stream_rejected_total{stream=\"numbers\"}") > 0, "{metrics}");
    node.stop().await;
}
