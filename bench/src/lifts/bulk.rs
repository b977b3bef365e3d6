//! Many rides at once: lines of JSON on a few connections, from the first byte sent until the views have
//! all of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::ask;
use super::consort::{self, Consort, Definitions, Ground, LINES};
use super::ride::lines;

/// Posts under way at once.
const POSTS: usize = 4;
/// Many times what it should take.
const WITHIN: Duration = Duration::from_secs(600);

/// What a run gave.
#[derive(Debug, Serialize)]
pub(super) struct Bulk {
    pub(super) name: &'static str,
    pub(super) events: u64,
    pub(super) seconds: f64,
    /// Events a second.
    pub(super) rate: f64,
    /// What is wanted at least.
    pub(super) wanted: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    accepted: u64,
}

/// Sends so many rides to two views whose updates merge, and to all views of the example.
pub(super) async fn run(events: usize, consort: &Consort) -> Result<Vec<Bulk>> {
    let runs = [
        ("two views whose updates merge", Definitions::TwoViews, Some(200_000.0)),
        ("all views of the example", Definitions::Lifts, None),
    ];
    let mut bulks = Vec::new();
    for (name, definitions, wanted) in runs {
        let bulk = send(name, definitions, wanted, events, consort).await?;
        eprintln!("  {name}: {:.0} events/s", bulk.rate);
        bulks.push(bulk);
    }
    Ok(bulks)
}

async fn send(
    name: &'static str,
    definitions: Definitions,
    wanted: Option<f64>,
    events: usize,
    consort: &Consort,
) -> Result<Bulk> {
    let mut served = consort.start(name, definitions, Ground::Embedded, None).await?;
    let bodies: Vec<_> = (0..POSTS).map(|_| lines(events / POSTS)).collect();
    let started = Instant::now();
    let posts = bodies.into_iter().map(|body| ask::post_lines(served.address, LINES, body, WITHIN));
    let mut accepted = 0;
    for answer in try_join_all(posts).await? {
        let text = answer.text()?;
        let answer: Answer = serde_json::from_str(&text).with_context(|| text.clone())?;
        accepted += answer.accepted;
    }
    served.caught_up(WITHIN).await?;
    let sent = (events / POSTS * POSTS) as u64;
    // The tally of a batch may be committed a moment before the other shards of the same batch.
    let mut counted = consort::rides(&served).await?;
    while counted < sent && started.elapsed() < WITHIN {
        tokio::time::sleep(Duration::from_millis(50)).await;
        counted = consort::rides(&served).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    ensure!(
        accepted == sent && counted == sent,
        "{name}: of {sent} rides {accepted} were accepted and {counted} are counted"
    );
    Ok(Bulk { name, events: sent, seconds, rate: sent as f64 / seconds, wanted })
}
