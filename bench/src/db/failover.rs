//! How long writes stand still when the leader's process is killed, when its node falls silent, and when the lead is
//! handed over: from the event to the next acknowledged write, as a client sees it that asks another node.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::Method;
use serde_json::json;

use super::node::{Ground, Nodes};
use crate::measure::rank;
use crate::report::{Report, Time};

const NODES: usize = 3;
/// The leader and one reader.
const WORKERS: usize = 2;
/// No failover may take longer.
const WITHIN: Duration = Duration::from_secs(60);
/// The default lease of a node.
const LEASE_MS: f64 = 3000.0;

/// What happens to the node of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Killed,
    Silent,
    Terminated,
}

pub(super) async fn run(rounds: usize, report: &mut Report) -> Result<()> {
    let mut nodes = Nodes::start(Ground::Redis, NODES).await?;
    for (event, name, wanted) in [
        (Event::Killed, "leader's process killed → next acknowledged write", None),
        (Event::Silent, "leader's node silent → next acknowledged write", Some(LEASE_MS + 500.0)),
        (Event::Terminated, "leader's node stopped in order → next acknowledged write", None),
    ] {
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(one(&mut nodes, event).await?.as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (rank(&times, 0.5), rank(&times, 0.99));
        let worst = times.last().copied().unwrap_or_default();
        eprintln!("  {event:?}: {times:.0?} ms");
        report.add_time(Time { name: name.into(), p50, p99, worst, wanted });
    }
    report.note(format!(
        "Failover: {NODES} nodes on Redis, {rounds} times each; the p50 after a kill is wanted at 300 ms at most, and a \
         silent node's at its lease (3 s) and half a second."
    ));
    Ok(())
}

async fn one(nodes: &mut Nodes, event: Event) -> Result<Duration> {
    let leader = nodes.leader(0, WORKERS).await?;
    let other = (leader + 1) % NODES;
    nodes.until_written(other, json!([["INSERT INTO points (value) VALUES ('before')"]])).await?;
    let began = Instant::now();
    match event {
        Event::Killed => nodes.node(leader).process.kill().await,
        Event::Silent => nodes.node(leader).process.pause(),
        Event::Terminated => nodes.node(leader).process.terminate(WITHIN).await,
    }
    let took = until_acknowledged(nodes, other, began).await?;
    match event {
        Event::Silent => nodes.node(leader).process.resume(),
        Event::Killed | Event::Terminated => nodes.node(leader).restart(),
    }
    Ok(took)
}

/// Writes under one key until a write is acknowledged.
async fn until_acknowledged(nodes: &Nodes, at: usize, began: Instant) -> Result<Duration> {
    let body = json!({ "statements": [["INSERT INTO points (value) VALUES ('after')"]] });
    let key = format!("failover-{}", rand::random::<u64>());
    let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
    loop {
        let mut connection = nodes.connection(at);
        let sent = connection.send(Method::POST, "/db/bench/write", &headers, body.to_string());
        if let Ok(reply) = sent.await
            && reply.status.as_u16() == 200
        {
            return Ok(began.elapsed());
        }
        ensure!(began.elapsed() < WITHIN, "no write is acknowledged");
    }
}
