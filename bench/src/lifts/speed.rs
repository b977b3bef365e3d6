//! Posts a second: all contestants in turn, round after round, since the machine's own speed varies. What
//! counts is the ratios within a round.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::consort::{self, Consort, Definitions, Ground};
use super::served::Served;
use super::watch::{during, furthest_behind, furthest_told};
use super::wrk::{Seen, Wrk};
use super::{Pace, Servers};
use crate::measure::median;

/// Connections of the load.
pub(super) const CONNECTIONS: [usize; 2] = [128, 256];
/// Different rides of a stretch, which come round over and over, as skiers do.
pub(super) const RIDES: usize = 10_000;
/// So many that hardly one comes again within a stretch: then little can be merged, and nothing is known.
pub(super) const DIFFERENT_RIDES: usize = 200_000;
/// What waits after a stretch is worked off within this, or the run is given up: the usual design falls
/// behind by more than it accepted in the same time, but not by many times that.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(300);

/// When nobody posts any more, what was under way is applied within this time.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Side {
    /// (a) The bare handler.
    Limit,
    /// (b) Consort in its own folder.
    Embedded,
    /// (c) The usual design.
    Usual,
    /// (d) Consort on the servers of the usual design.
    Brokered,
}

impl Side {
    pub(super) fn title(self) -> &'static str {
        match self {
            Side::Limit => "(a) the limit: bare axum",
            Side::Embedded => "(b) Consort, embedded, fsync",
            Side::Usual => "(c) usual design: two queues, Redis",
            Side::Brokered => "(d) Consort on Redis and RabbitMQ",
        }
    }
}

/// What one contestant did in one round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Stretch {
    #[serde(flatten)]
    pub(super) seen: Seen,
    /// Posts a second until all of them were in the views.
    pub(super) sustained: f64,
    /// How far the views were behind at worst during it, in seconds; and by the contestant's own word.
    pub(super) behind: f64,
    pub(super) told_behind: Option<f64>,
    /// Records that waited at its end, and the seconds until they were applied.
    pub(super) left: u64,
    pub(super) caught_up: f64,
}

/// All rounds of a contestant at one number of connections.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measured {
    pub(super) side: Side,
    pub(super) connections: usize,
    /// How many different rides there are in a stretch.
    pub(super) rides: usize,
    pub(super) rounds: Vec<Stretch>,
}

impl Measured {
    /// The median of the rounds.
    pub(super) fn median(&self, of: impl Fn(&Stretch) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }

    /// The worst of the rounds.
    pub(super) fn worst(&self, of: impl Fn(&Stretch) -> f64) -> f64 {
        self.rounds.iter().map(of).fold(0.0, f64::max)
    }

    /// The median of the rounds' ratios to those of another contestant.
    pub(super) fn ratio(&self, to: &Measured, of: impl Fn(&Stretch) -> f64) -> f64 {
        median(self.rounds.iter().zip(&to.rounds).map(|(ours, theirs)| of(ours) / of(theirs)))
    }
}

/// Measures all contestants that there are.
pub(super) async fn run(
    pace: Pace,
    servers: &Servers,
    consort: Option<&Consort>,
) -> Result<Vec<Measured>> {
    let (redis, amqp) = (servers.redis.url(), servers.rabbit.url());
    let mut sides = vec![(Side::Limit, Served::limit().await?)];
    if let Some(consort) = consort {
        let served = consort.start("consort, embedded", Definitions::Lifts, Ground::Embedded, None);
        sides.push((Side::Embedded, served.await?));
    }
    sides.push((Side::Usual, Served::usual(&redis, &amqp).await?));
    if let Some(consort) = consort {
        let ground = Ground::Servers { redis: &redis, amqp: &amqp, namespace: "speed" };
        let served = consort.start("consort on servers", Definitions::Lifts, ground, None);
        sides.push((Side::Brokered, served.await?));
    }
    let loads = CONNECTIONS.map(|connections| (connections, RIDES));
    let loads = loads.into_iter().chain([(CONNECTIONS[0], DIFFERENT_RIDES)]);
    let mut measured = Vec::new();
    let mut broken_off = 0;
    for (connections, rides) in loads {
        let wrk = Wrk::new(rides)?;
        // The usual design neither merges nor remembers: what comes again is nothing to it.
        let measured_now = |side: Side| rides == RIDES || side != Side::Usual;
        let mut all: Vec<(&mut (Side, Served), Measured)> = sides
            .iter_mut()
            .filter(|(side, _)| measured_now(*side))
            .map(|side| {
                let rounds = Vec::new();
                let measured = Measured { side: side.0, connections, rides, rounds };
                (side, measured)
            })
            .collect();
        // The first round warms up and is left out.
        for round in 0..=pace.rounds {
            broken_off += connections;
            for ((side, served), measured) in &mut all {
                let stretch = stretch(&wrk, served, connections, pace.each).await?;
                tell(*side, connections, round, &stretch);
                if round > 0 {
                    measured.rounds.push(stretch);
                }
            }
        }
        measured.extend(all.into_iter().map(|(_, measured)| measured));
    }
    for (side, served) in &mut sides {
        if matches!(side, Side::Embedded | Side::Brokered) {
            every_ride_is_counted(served, broken_off as u64).await?;
        }
    }
    Ok(measured)
}

async fn stretch(
    wrk: &Wrk,
    served: &mut Served,
    connections: usize,
    time: Duration,
) -> Result<Stretch> {
    let (seen, samples) = during(served, wrk.run(served.address, connections, time)).await;
    let seen = seen?;
    served.still_runs()?;
    let left = served.counts().await?.map_or(0, |counts| counts.waiting());
    let caught_up = served.caught_up(CAUGHT_UP_WITHIN).await?.as_secs_f64();
    let caught_up = if left == 0 { 0.0 } else { caught_up };
    Ok(Stretch {
        seen,
        sustained: seen.accepted as f64 / (seen.seconds + caught_up),
        behind: furthest_behind(&samples),
        told_behind: furthest_told(&samples),
        left,
        caught_up,
    })
}

/// A view of counts must sum up to what was accepted, or the figures mean nothing.
///
/// The load breaks off what is under way when its time is over: those rides are stored, and nobody was
/// told. So a few more may be counted than were accepted, at most one for each connection of a stretch.
async fn every_ride_is_counted(served: &mut Served, broken_off: u64) -> Result<()> {
    served.caught_up(CAUGHT_UP_WITHIN).await?;
    let began = Instant::now();
    loop {
        let Some(counts) = served.counts().await? else { return Ok(()) };
        let (accepted, counted) = (counts.accepted, consort::rides(served).await?);
        if counted == counts.applied && (accepted..=accepted + broken_off).contains(&counted) {
            return Ok(());
        }
        ensure!(
            began.elapsed() < SETTLED_WITHIN,
            "{}: {counted} of {accepted} rides are counted, {} are applied",
            served.name,
            counts.applied
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn tell(side: Side, connections: usize, round: usize, stretch: &Stretch) {
    let Stretch { seen, sustained, behind, left, caught_up, .. } = stretch;
    eprintln!(
        "  {}, {connections} connections, round {round}: {:.0}/s ({sustained:.0}/s sustained), p50 {:.1} ms, \
         p99 {:.1} ms, {} refused, {} broken, {behind:.1} s behind, {left} left for {caught_up:.1} s",
        side.title(),
        seen.rate,
        seen.p50,
        seen.p99,
        seen.refused,
        seen.broken,
    );
}
