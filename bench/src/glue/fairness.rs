//! A quiet tenant that waits for each of its pieces, alone and while one and three other tenants flood the one partition.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::Method;
use futures::future::try_join_all;
use serde_json::Value;

use super::documents::{COLLECTION, patch, push_line};
use super::node::{Ground, Node};
use crate::measure::rank;
use crate::report::{Report, Time};

/// Lines of one request of a flood.
const LINES: usize = 2_000;

/// The tenants that flood.
const FLOODS: [&str; 3] = ["flood-a", "flood-b", "flood-c"];

/// Measures without a flood, with one, and with three. Tenants have the default quota.
pub(super) async fn run(time: Duration, report: &mut Report) -> Result<()> {
    for floods in [0, 1, 3] {
        let node = Node::start_as(Ground::Embedded, "partitions = 1").await?;
        let over = AtomicBool::new(false);
        let tenants = &FLOODS[..floods];
        let flooding = try_join_all(tenants.iter().map(|tenant| flood(&node, tenant, &over)));
        let quiet = async {
            let times = quiet(&node, time).await;
            over.store(true, Ordering::Relaxed);
            times
        };
        let (times, pieces) = tokio::join!(quiet, flooding);
        let (mut times, pieces) = (times?, pieces?.into_iter().sum::<u64>());
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (rank(&times, 0.5), rank(&times, 0.99));
        let worst = times.last().copied().unwrap_or_default();
        let name = format!("a quiet tenant's piece, applied, beside {floods} floods");
        eprintln!("  {name}: p50 {p50:.1} ms, p99 {p99:.1} ms, {pieces} pieces of floods");
        report.add_time(Time { name, p50, p99, worst, wanted: None });
    }
    Ok(())
}

/// Posts bulk requests until it is over; lines beyond the quota are slowed down or refused.
async fn flood(node: &Node, tenant: &str, over: &AtomicBool) -> Result<u64> {
    let (mut connection, mut stored) = (node.connection(), 0);
    let mut body = String::new();
    (0..LINES).for_each(|_| push_line(&mut body));
    while !over.load(Ordering::Relaxed) {
        let headers = [("content-type", "application/x-ndjson"), ("consort-tenant", tenant)];
        let path = format!("/glue/{COLLECTION}");
        let reply = connection.send(Method::POST, &path, &headers, body.clone()).await?;
        ensure!([202, 429].contains(&reply.status.as_u16()), "{}", reply.status);
        let told: Value = serde_json::from_slice(&reply.body)?;
        stored += told["accepted"].as_u64().unwrap_or_default();
    }
    Ok(stored)
}

/// The time of each piece, in milliseconds.
async fn quiet(node: &Node, time: Duration) -> Result<Vec<f64>> {
    let (mut connection, mut times, began) = (node.connection(), Vec::new(), Instant::now());
    while began.elapsed() < time {
        let sent = Instant::now();
        let headers =
            [("content-type", "application/merge-patch+json"), ("consort-tenant", "quiet")];
        let path = format!("/glue/{COLLECTION}/quiet?wait=applied");
        let reply = connection.send(Method::PATCH, &path, &headers, patch()).await?;
        ensure!(reply.status.as_u16() == 200, "{}", reply.status);
        times.push(sent.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(times)
}
