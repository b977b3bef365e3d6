//! How long a node takes to answer what many ask of it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::Method;

use super::node::Node;
use crate::measure::rank;

/// Between two requests. They are few: it is their time that is measured, not how many there could be.
const PAUSE: Duration = Duration::from_millis(2);

/// A ride, which goes to its stream's own route.
const RIDE: (&str, &str) = ("/lifts/7/rides", r#"{"time":217}"#);

/// Times of answers in milliseconds, the quickest first.
#[derive(Debug)]
pub(super) struct Latencies(Vec<f64>);

impl Latencies {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The least time that so many of all do not exceed.
    pub(super) fn rank(&self, part: f64) -> f64 {
        rank(&self.0, part)
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| self.rank(part));
        write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms, at most {most:.1} ms of {}", self.count())
    }
}

/// Asks for `/healthz` for so long.
pub(super) async fn health(node: &Node, time: Duration) -> Result<Latencies> {
    ask(node, time, Method::GET, "/healthz", "").await
}

/// Posts single events for so long.
pub(super) async fn posts(node: &Node, time: Duration) -> Result<Latencies> {
    let (path, ride) = RIDE;
    ask(node, time, Method::POST, path, ride).await
}

async fn ask(
    node: &Node,
    time: Duration,
    method: Method,
    path: &'static str,
    body: &'static str,
) -> Result<Latencies> {
    let (mut connection, mut all, began) = (node.connection(), Vec::new(), Instant::now());
    while began.elapsed() < time || all.is_empty() {
        let asked = Instant::now();
        let reply = connection.send(method.clone(), path, &[], body).await?;
        let took = asked.elapsed();
        let said = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status.is_success(), "{method} {path}: {}: {said}", reply.status);
        all.push(took.as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    all.sort_by(f64::total_cmp);
    Ok(Latencies(all))
}
