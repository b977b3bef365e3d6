//! How long a partition has no owner when a node joins or leaves under load, on a Redis that all nodes share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::Cluster;
use consort_cluster::PauseCause;
use consort_testbed::{RedisOptions, RedisServer};

use super::node::{Ground, Node};
use super::{bulk, documents};
use crate::measure::rank;
use crate::report::{Report, Time};

/// Pieces of each request while nodes come and go: about 5,000 a second.
const PIECES: usize = 500;
const EVERY: Duration = Duration::from_millis(100);

/// How long roles may take to move.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Pauses by role and epoch, in milliseconds.
type Pauses = BTreeMap<(String, u64), f64>;

/// A second node joins and leaves again, so many times.
pub(super) async fn run(rounds: usize, report: &mut Report) -> Result<()> {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let node = Node::start(Ground::Redis(&url)).await?;
    documents::put_all(&node).await?;
    let over = AtomicBool::new(false);
    let (joined, left) = (&mut Pauses::new(), &mut Pauses::new());
    let moving = async {
        for round in 0..rounds {
            let before = seen(&node, &Pauses::new()).await?;
            let second = Node::start(Ground::Redis(&url)).await?;
            let after = settled(&node, 2, &before).await?;
            joined.extend(after.clone());
            second.leave().await;
            let known = before.into_iter().chain(after).collect();
            left.extend(settled(&node, 1, &known).await?);
            eprintln!(
                "  round {round}: {} pauses at joins, {} at leaves",
                joined.len(),
                left.len()
            );
        }
        over.store(true, Ordering::Relaxed);
        Ok(())
    };
    let load = async {
        while !over.load(Ordering::Relaxed) {
            let mut body = String::new();
            (0..PIECES).for_each(|_| documents::push_line(&mut body));
            bulk::post(&node, vec![body]).await?;
            node.note_sent(PIECES as u64);
            tokio::time::sleep(EVERY).await;
        }
        node.until_idle().await
    };
    let (moved, loaded): (Result<()>, Result<()>) = tokio::join!(moving, load);
    moved.and(loaded)?;
    for (name, pauses) in [("joins", joined), ("leaves", left)] {
        let mut times: Vec<f64> = pauses.values().copied().collect();
        ensure!(!times.is_empty(), "no partition moved when a node {name}");
        times.sort_by(f64::total_cmp);
        let name = format!("pause of a partition when a node {name}, at 5,000 pieces/s on Redis");
        let (p50, p99) = (rank(&times, 0.5), rank(&times, 0.99));
        let worst = times.last().copied().unwrap_or_default();
        report.add_time(Time { name, p50, p99, worst, wanted: None });
    }
    Ok(())
}

/// The pauses that were not known, once so many nodes share all roles.
async fn settled(node: &Node, nodes: usize, known: &Pauses) -> Result<Pauses> {
    let began = Instant::now();
    loop {
        let cluster = node.client.cluster().await?;
        let pauses = new_pauses(&cluster, known);
        if is_settled(&cluster, nodes) && !pauses.is_empty() {
            return Ok(pauses);
        }
        ensure!(
            began.elapsed() < SETTLED_WITHIN,
            "{nodes} nodes do not share the roles: {cluster:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn seen(node: &Node, known: &Pauses) -> Result<Pauses> {
    Ok(new_pauses(&node.client.cluster().await?, known))
}

fn new_pauses(cluster: &Cluster, known: &Pauses) -> Pauses {
    let workers = cluster.status.roles.iter().filter(|role| role.role.kind() == "worker");
    let handed = workers.filter_map(|role| {
        let pause = role.pause.filter(|pause| pause.cause == PauseCause::HandedOver)?;
        Some(((role.role.to_string(), role.epoch), pause.millis as f64))
    });
    handed.filter(|(key, _)| !known.contains_key(key)).collect()
}

/// Whether so many nodes are there, each works on something, and every role has an owner that works.
fn is_settled(cluster: &Cluster, nodes: usize) -> bool {
    let roles = &cluster.status.roles;
    let live = cluster.status.nodes.iter().filter(|node| node.live && !node.draining);
    let workers = || roles.iter().filter(|role| role.role.kind() == "worker");
    let at_work =
        live.clone().filter(|node| workers().any(|role| role.owner.as_ref() == Some(&node.id)));
    let all_owned = roles.iter().all(|role| role.owner.is_some() && role.ready);
    live.count() == nodes && at_work.count() == nodes && all_owned
}
