//! Pieces in bulk requests, until all of them are applied.

use std::time::Instant;

use anyhow::{Result, ensure};
use consort_client::Method;
use futures::future::try_join_all;
use serde_json::Value;

use super::documents::{COLLECTION, push_line};
use super::node::Node;

/// Requests at once. One request of NDJSON is taken by one thread.
const REQUESTS: usize = 4;

/// A round.
#[derive(Clone, Copy, Debug)]
pub(super) struct BulkRound {
    /// Pieces a second, from the first request to the last piece applied.
    pub(super) rate: f64,
    /// Bytes written to the disk for each piece.
    pub(super) written: f64,
}

/// Sends so many pieces, and waits until they are applied.
pub(super) async fn run(pieces: usize, node: &Node) -> Result<BulkRound> {
    run_of(COLLECTION, pieces, node, push_line).await
}

/// The same, for a collection whose pieces are written by `push`.
pub(super) async fn run_of(
    collection: &str,
    pieces: usize,
    node: &Node,
    push: impl Fn(&mut String),
) -> Result<BulkRound> {
    let bodies: Vec<String> = (0..REQUESTS)
        .map(|_| {
            let mut text = String::new();
            (0..pieces / REQUESTS).for_each(|_| push(&mut text));
            text
        })
        .collect();
    let pieces = (pieces / REQUESTS * REQUESTS) as u64;
    let (before, started) = (node.written()?, Instant::now());
    post_to(collection, node, bodies).await?;
    node.until_applied(pieces).await?;
    let rate = pieces as f64 / started.elapsed().as_secs_f64();
    Ok(BulkRound { rate, written: (node.written()? - before) as f64 / pieces as f64 })
}

/// Posts each of these bodies on a connection of its own. Every line must be accepted.
pub(super) async fn post(node: &Node, bodies: Vec<String>) -> Result<()> {
    post_to(COLLECTION, node, bodies).await
}

/// The same, to another collection.
pub(super) async fn post_to(collection: &str, node: &Node, bodies: Vec<String>) -> Result<()> {
    let posts = bodies.into_iter().map(|body| async move {
        let lines = body.lines().count() as u64;
        let headers = [("content-type", "application/x-ndjson")];
        let path = format!("/glue/{collection}");
        let reply = node.connection().send(Method::POST, &path, &headers, body).await?;
        let told = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status.as_u16() == 202, "{}: {told}", reply.status);
        let told: Value = serde_json::from_str(&told)?;
        ensure!(told["accepted"] == lines, "of {lines} lines: {told}");
        Ok(())
    });
    try_join_all(posts).await?;
    Ok(())
}
