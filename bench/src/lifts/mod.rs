//! The lift-ride service: posts in, six views out, beside a bare handler and beside the design everybody
//! writes. Every contestant is a process of its own; the load comes from the same machine.

mod ask;
mod bulk;
mod consort;
mod counters;
mod gate;
pub(crate) mod limit;
mod memory;
mod offer;
mod picture;
mod report;
mod ride;
mod served;
mod speed;
pub(crate) mod usual;
mod watch;
mod wire;
mod wrk;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use consort_testbed::{Fsync, RabbitOptions, RabbitServer, RedisOptions, RedisServer};

use crate::report::Results;
use consort::Consort;
use report::LiftsReport;
use speed::{Measured, Side};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds of all contestants, one more to warm up.
    rounds: usize,
    /// How long each of them is under load in a round. Whole seconds: `wrk` knows no others.
    each: Duration,
    /// How long each gate is overloaded.
    overload: Duration,
    /// Rides sent as lines.
    events: usize,
    /// Members of the group whose memory is measured.
    members: u64,
}

impl Pace {
    /// For figures: some nine minutes. The machine is faster in one second than in the next: few rounds say little.
    pub(crate) const FULL: Pace = Pace {
        rounds: 6,
        each: Duration::from_secs(5),
        overload: Duration::from_secs(10),
        events: 1_000_000,
        members: 1_000_000,
    };
    /// To see that it works.
    pub(crate) const QUICK: Pace = Pace {
        rounds: 1,
        each: Duration::from_secs(2),
        overload: Duration::from_secs(4),
        events: 40_000,
        members: 20_000,
    };
}

/// A part of it, for a run of that part alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Speed,
    Gate,
    Bulk,
    Memory,
}

/// The servers that the usual design and Consort share.
#[derive(Debug)]
struct Servers {
    redis: RedisServer,
    rabbit: RabbitServer,
}

/// Measures all of it, or one part. Figures that are to be kept are not kept without Consort's.
pub(crate) async fn run(pace: Pace, only: Option<Part>, keep: bool) -> Result<Results> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut report = LiftsReport::new(pace);
    let consort = match Consort::find() {
        Ok(consort) => Some(consort),
        Err(error) if keep => return Err(error),
        Err(error) => {
            eprintln!("Consort is left out: {error:#}");
            report.leave_out(&error);
            None
        }
    };
    let consort = consort.as_ref();
    if wanted(Part::Speed) || wanted(Part::Gate) {
        let servers = Servers {
            redis: RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await,
            rabbit: RabbitServer::start(RabbitOptions::new()).await,
        };
        eprintln!("speed");
        // The gate's load is a multiple of what is found here.
        let measured = speed::run(pace, &servers, consort).await?;
        let capacity = capacity(&measured);
        report.speed = measured;
        if wanted(Part::Gate) {
            eprintln!("gate");
            report.overloads = gate::run(pace.overload, capacity, &servers, consort).await?;
        }
    }
    if let Some(consort) = consort {
        if wanted(Part::Bulk) {
            eprintln!("bulk");
            report.bulk = bulk::run(pace.events, consort).await?;
        }
        if wanted(Part::Memory) {
            eprintln!("memory");
            report.memory = Some(memory::run(pace.members, consort).await?);
        }
    }
    report.results()
}

/// What Consort on the servers can take, in posts a second, or the usual design if Consort is left out.
fn capacity(measured: &[Measured]) -> f64 {
    let of = |side| {
        let rates = measured.iter().filter(|measured| measured.side == side);
        rates.map(|measured| measured.median(|stretch| stretch.sustained)).reduce(f64::max)
    };
    of(Side::Brokered).or(of(Side::Usual)).unwrap_or(0.0)
}
