//! From a piece sent to its row at a subscriber, while pieces come at a steady rate.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::Method;
use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{interval_at, timeout};

use super::documents::{COLLECTION, DOCUMENTS, id};
use super::node::Node;
use crate::measure::rank;
use crate::report::{Report, Time};

/// Pieces a second, and how many come at once.
const RATE: u64 = 5_000;
const AT_ONCE: u64 = 10;

/// Connections that the pieces come on. Each waits for its answer before it sends again.
const SENDERS: u64 = 20;

/// What we promise ourselves, in milliseconds: the median and the 99th percentile.
const P50_WANTED: f64 = 15.0;
const P99_WANTED: f64 = 60.0;

/// After the last piece, its row must have come within this time.
const LAST_WITHIN: Duration = Duration::from_secs(30);

/// Sends pieces that carry the moment of their sending, and reads them back from the feed.
pub(super) async fn run(time: Duration, node: &Node, report: &mut Report) -> Result<()> {
    let origin = Instant::now();
    let pieces = RATE * time.as_secs();
    let (ready, is_ready) = oneshot::channel();
    let subscriber = tokio::spawn(subscribe(node.address, origin, pieces, ready));
    // The subscriber begins with the newest row: it must stand there before the first piece is sent.
    is_ready.await.context("the subscriber did not get its place")?;
    let senders = (0..SENDERS).map(|sender| send(sender, pieces / AT_ONCE / SENDERS, origin, node));
    try_join_all(senders).await?;
    let mut times = timeout(LAST_WITHIN, subscriber).await.context("rows are missing")???;
    times.sort_by(f64::total_cmp);
    let (p50, p99) = (rank(&times, 0.5), rank(&times, 0.99));
    let worst = times.last().copied().unwrap_or_default();
    let name = format!("from a piece sent to its row at a subscriber, at {RATE} pieces/s");
    report.add_time(Time { name, p50, p99, worst, wanted: Some(P99_WANTED) });
    let verdict = if p50 <= P50_WANTED { "met" } else { "missed" };
    report.note(format!(
        "Goal of the median from a piece sent to its row: {P50_WANTED} ms, {verdict} with {p50:.1} ms."
    ));
    Ok(())
}

/// Posts requests of some pieces, each sender in its turn.
async fn send(sender: u64, requests: u64, origin: Instant, node: &Node) -> Result<()> {
    let turn = Duration::from_secs(1) / (RATE / AT_ONCE) as u32;
    let first = tokio::time::Instant::now() + turn * sender as u32;
    let mut beat = interval_at(first, turn * SENDERS as u32);
    let (mut connection, path) = (node.connection(), format!("/glue/{COLLECTION}"));
    for _ in 0..requests {
        // The moment that it was due: a request that waits for the one before it waits in this time.
        let due = beat.tick().await.into_std();
        let at = due.saturating_duration_since(origin).as_nanos();
        let line = |_| {
            let id = id(rand::random_range(1..=DOCUMENTS));
            format!("{{\"id\":\"{id}\",\"form\":\"merge-patch\",\"piece\":{{\"at\":{at}}}}}\n")
        };
        let body: String = (0..AT_ONCE).map(line).collect();
        let headers = [("content-type", "application/x-ndjson")];
        let reply = connection.send(Method::POST, &path, &headers, body).await?;
        ensure!(reply.status.as_u16() == 202, "{}", reply.status);
    }
    Ok(())
}

/// The times from sending to receiving of so many rows, in milliseconds. `ready` is told when the subscriber has its
/// place.
async fn subscribe(
    address: SocketAddr,
    origin: Instant,
    rows: u64,
    ready: oneshot::Sender<()>,
) -> Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /feeds/glue/{COLLECTION}?after=now HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut lines = BufReader::new(stream).lines();
    let (mut times, mut ready) = (Vec::with_capacity(rows as usize), Some(ready));
    while (times.len() as u64) < rows {
        let line = lines.next_line().await?.context("the stream of events ended")?;
        if line.starts_with("id: ") {
            let _ = ready.take().map(|ready| ready.send(()));
        }
        let Some((_, at)) = line.split_once("{\"at\":") else { continue };
        let digits = at.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let sent = Duration::from_nanos(digits.parse()?);
        times.push(origin.elapsed().saturating_sub(sent).as_secs_f64() * 1_000.0);
    }
    Ok(times)
}
