//! How long a new reader takes to load a snapshot and to reach the end of the feed, while writes go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::Method;
use serde_json::{Value, json};

use super::node::{Ground, Nodes};
use crate::report::Report;

const MIB: usize = 1024 * 1024;
/// Bytes of one row while the database is filled, and rows of one request.
const ROW_BYTES: usize = 8 * 1024;
const ROWS: usize = 128;
/// Snapshots are made of what was written before; nothing here may take longer.
const WITHIN: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn run(mib: usize, report: &mut Report) -> Result<()> {
    let nodes = Nodes::start(Ground::Embedded, 1).await?;
    let sql = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS}) \
         INSERT INTO points (value) SELECT hex(randomblob({})) FROM n",
        ROW_BYTES / 2
    );
    for _ in 0..mib * MIB / (ROW_BYTES * ROWS) {
        nodes.until_written(0, json!([[sql]])).await?;
    }
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writing = async {
        while !is_over.load(Ordering::Relaxed) {
            nodes
                .until_written(0, json!([["INSERT INTO points (value) VALUES ('while')"]]))
                .await?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), anyhow::Error>(())
    };
    let growing = async {
        let took = replaced(&nodes).await;
        is_over.store(true, Ordering::Relaxed);
        took
    };
    let (wrote, took) = tokio::join!(writing, growing);
    wrote?;
    let took = took?;
    report.note(format!(
        "A reader of {mib} MiB is crashed while one client writes: a new one has loaded, and reached the end of the \
         feed, after {:.1} s; {} writes were acknowledged meanwhile.",
        took.as_secs_f64(),
        written.load(Ordering::Relaxed)
    ));
    eprintln!("  {:.1} s", took.as_secs_f64());
    Ok(())
}

async fn replaced(nodes: &Nodes) -> Result<Duration> {
    let id = |worker: &Value| worker["id"].as_u64().unwrap_or_default();
    let before = nodes.workers(0).await?;
    let reader = before.iter().find(|worker| worker["role"] == "reader").context("no reader")?;
    let reader = id(reader);
    let began = Instant::now();
    let path = format!("/db/bench/workers/{reader}/crash");
    let headers = [("content-type", "application/json")];
    let reply = nodes.connection(0).send(Method::POST, &path, &headers, "{}").await?;
    ensure!(reply.status.is_success(), "{}", String::from_utf8_lossy(&reply.body));
    loop {
        let is_back = |worker: &Value| {
            worker["role"] == "reader"
                && id(worker) > reader
                && worker["lag"].as_u64() == Some(0)
                && worker["index"].as_u64().is_some_and(|index| index > 0)
        };
        if nodes.workers(0).await?.iter().any(is_back) {
            return Ok(began.elapsed());
        }
        ensure!(began.elapsed() < WITHIN, "the reader is not replaced");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
