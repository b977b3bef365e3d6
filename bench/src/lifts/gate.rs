//! The gate: what becomes of three times the load that can be taken, with each kind of gate.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Servers;
use super::consort::{Consort, Definitions, Ground};
use super::offer::{Offer, Taken};
use super::served::Served;
use super::watch::{Sample, during};

const GATES: [&str; 3] = ["off", "breaker", "adaptive"];
/// The usual design in the same place.
const USUAL: &str = "usual design";
/// How much more is offered than can be taken.
const TIMES: f64 = 3.0;
/// Posts under way at once. A gate that lets its callers wait needs many.
const CONNECTIONS: usize = 1_000;
/// Without a gate everything that was accepted has to be worked off afterwards: give up if it takes
/// many times as long as the load itself.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(600);

/// What became of it.
#[derive(Debug, Serialize)]
pub(super) struct Overload {
    pub(super) gate: &'static str,
    pub(super) offered: f64,
    #[serde(flatten)]
    pub(super) taken: Taken,
    /// Seconds until nothing waited any more; `None` if that was not awaited.
    pub(super) caught_up: Option<f64>,
    pub(super) samples: Vec<Sample>,
}

impl Overload {
    /// The longest queue, in records.
    pub(super) fn longest_queue(&self) -> u64 {
        self.samples.iter().map(Sample::waiting).max().unwrap_or(0)
    }

    /// The most memory, in bytes.
    pub(super) fn most_memory(&self) -> u64 {
        self.samples.iter().map(|sample| sample.rss).max().unwrap_or(0)
    }
}

/// Offers three times `capacity`, posts a second, to each gate for this long.
pub(super) async fn run(
    time: Duration,
    capacity: f64,
    servers: &Servers,
    consort: Option<&Consort>,
) -> Result<Vec<Overload>> {
    let (redis, amqp) = (servers.redis.url(), servers.rabbit.url());
    let offer = Offer { rate: capacity * TIMES, time, connections: CONNECTIONS };
    let mut overloads = Vec::new();
    if let Some(consort) = consort {
        for gate in GATES {
            let namespace = format!("gate-{gate}");
            let ground = Ground::Servers { redis: &redis, amqp: &amqp, namespace: &namespace };
            let served = consort.start(gate, Definitions::Lifts, ground, Some(gate)).await?;
            overloads.push(overload(gate, offer, served).await?);
        }
    }
    let served = Served::usual(&redis, &amqp).await?;
    overloads.push(overload(USUAL, offer, served).await?);
    Ok(overloads)
}

async fn overload(gate: &'static str, offer: Offer, mut served: Served) -> Result<Overload> {
    let (taken, samples) = during(&served, offer.run(served.address)).await;
    let taken = taken?;
    served.still_runs()?;
    let caught_up = match served.caught_up(CAUGHT_UP_WITHIN).await {
        Ok(time) => Some(time.as_secs_f64()),
        Err(error) => {
            served.still_runs()?;
            eprintln!("  {error:#}");
            None
        }
    };
    let overload = Overload { gate, offered: offer.rate, taken, caught_up, samples };
    let Taken { rate, p50, p99, refused, failed, unsent, due, .. } = &overload.taken;
    eprintln!(
        "  {gate}: {:.0}/s offered, {rate:.0}/s accepted, p50 {p50:.0} ms, p99 {p99:.0} ms; of {due}: \
         {refused} refused, {failed} failed, {unsent} unsent; longest queue {}",
        offer.rate,
        overload.longest_queue(),
    );
    Ok(overload)
}
