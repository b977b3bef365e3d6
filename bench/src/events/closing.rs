//! How long after a window may be closed its row stands in InfluxDB.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use consort_testbed::InfluxServer;
use tokio::time::sleep;

use super::ours::Node;

/// Windows of a second, which may be closed half a second after their end.
const SECOND: u64 = 1_000;
const GRACE: u64 = 500;

/// How often the database is asked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Far longer than a row should take.
const WITHIN: Duration = Duration::from_secs(30);

const CONFIG: &str = r#"
[log]
level = "warn"
[stream.events]
form = "line"
key = ["event_type"]
[sink.influx]
kind = "influx"
url = "INFLUX"
database = "events"
[view.users]
from = "events"
by = ["event_type"]
window = "1s"
grace = "500ms"
distinct = "value"
sink = ["influx"]
"#;

/// Milliseconds for so many windows, from the least to the most.
pub(super) async fn latencies(windows: usize) -> Result<Vec<f64>> {
    let influx = InfluxServer::start().await;
    influx.query("", "CREATE DATABASE events").await;
    let node = Node::with(&CONFIG.replace("INFLUX", &influx.url()), None).await?;
    // Seen first, by the start of the window.
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    let first = now() / SECOND + 1;
    let mut posted = first;
    let last = first + windows as u64;
    while seen.len() < windows {
        let at = now();
        if posted < last && at >= posted * SECOND {
            let line = format!("events,event_type=a value=\"user-{posted}\" {}000000\n", at);
            node.post(line).await?;
            posted += 1;
        }
        let answer = influx.query("events", "SELECT value FROM \"users\"").await;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        let rows = answer["results"][0]["series"][0]["values"].as_array().cloned();
        for row in rows.unwrap_or_default() {
            // The test bed asks for times in nanoseconds.
            let start = row[0].as_u64().with_context(|| format!("a row has a time: {row}"))?;
            seen.entry(start / 1_000_000_000).or_insert_with(now);
        }
        let overdue = last * SECOND + GRACE + WITHIN.as_millis() as u64;
        ensure!(now() < overdue, "{} of {windows} windows have rows", seen.len());
        sleep(LOOK_EVERY).await;
    }
    let due = |start: u64| (start + 1) * SECOND + GRACE;
    let mut took: Vec<f64> =
        seen.iter().map(|(&start, &seen)| seen.saturating_sub(due(start)) as f64).collect();
    took.sort_by(f64::total_cmp);
    Ok(took)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
