//! One document that gets many pieces: its last ones must cost as much as its first.

use std::time::Instant;

use anyhow::{Result, ensure};
use consort_client::Method;

use super::bulk;
use super::documents::{COLLECTION, patch};
use super::node::Node;
use super::single::Wait;
use crate::measure::{Compared, median};
use crate::report::Report;

/// Pieces before the first timed ones, and pieces that are timed.
const BEFORE: u64 = 50;
const TIMED: usize = 100;

/// Pieces of a bulk request in between.
const BULK: u64 = 10_000;

/// Times pieces of documents that have had 50, and of documents that have had `pieces`. Each round has a new document.
pub(super) async fn run(
    rounds: usize,
    pieces: u64,
    node: &Node,
    report: &mut Report,
) -> Result<()> {
    let mut compared = Vec::new();
    for round in 0..=rounds {
        let id = format!("long-{round}");
        fill(node, &id, BEFORE).await?;
        let early = rate(node, &id).await?;
        fill(node, &id, pieces.saturating_sub(BEFORE + TIMED as u64)).await?;
        let late = rate(node, &id).await?;
        eprintln!("  round {round}: {early:.0}/s at first and {late:.0}/s at last");
        if round > 0 {
            compared.push((early, late));
        }
    }
    let compared = Compared {
        limit: median(compared.iter().map(|(early, _)| *early)),
        ours: median(compared.iter().map(|(_, late)| *late)),
        ratio: median(compared.iter().map(|(early, late)| late / early)),
    };
    let name = format!("pieces of one document, one after another, behind {pieces} pieces");
    report.add(&name, "pieces", "the same behind 50 pieces", compared, Some(0.91));
    Ok(())
}

/// Gives the document so many pieces.
async fn fill(node: &Node, id: &str, pieces: u64) -> Result<()> {
    let mut left = pieces;
    while left > 0 {
        let now = left.min(BULK);
        let line =
            |_| format!("{{\"id\":\"{id}\",\"form\":\"merge-patch\",\"piece\":{}}}\n", patch());
        bulk::post(node, vec![(0..now).map(line).collect()]).await?;
        node.until_applied(now).await?;
        left -= now;
    }
    Ok(())
}

/// Pieces a second of one client that waits for each: the median of their times.
async fn rate(node: &Node, id: &str) -> Result<f64> {
    let (mut connection, mut times) = (node.connection(), Vec::with_capacity(TIMED));
    let path = format!("/glue/{COLLECTION}/{id}{}", Wait::Applied.query());
    for _ in 0..TIMED {
        let started = Instant::now();
        let headers = [("content-type", "application/merge-patch+json")];
        let reply = connection.send(Method::PATCH, &path, &headers, patch()).await?;
        ensure!(reply.status.as_u16() == Wait::Applied.status(), "{}", reply.status);
        times.push(started.elapsed().as_secs_f64());
    }
    node.note_sent(TIMED as u64);
    Ok(1.0 / median(times))
}
