//! Events by the minute: a million lines of distinct users over 50 series into the two views of
//! `examples/events.toml`, beside two peers that keep nothing, on the same lines in the same run.

mod closing;
mod datagrams;
mod lines;
mod ours;
mod parse;
pub(crate) mod peers;
mod statsd;
mod usual;

use anyhow::Result;
use clap::ValueEnum;
use consort_testbed::{Fsync, RedisOptions, RedisServer};

use crate::measure::{Compared, median};
use crate::report::{Report, Results};
use datagrams::Load;
use lines::{Lines, METRICS};
use ours::Node;
use peers::Bytewax;
use statsd::StatsD;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    rounds: usize,
    lines: usize,
    /// Seconds at each rate of datagrams.
    seconds: u64,
    /// Windows whose rows are waited for.
    windows: usize,
}

impl Pace {
    /// For figures. The machine is faster in one second than in the next: few rounds say little.
    pub(crate) const FULL: Pace = Pace { rounds: 5, lines: 1_000_000, seconds: 4, windows: 100 };
    /// To see that it works.
    pub(crate) const QUICK: Pace = Pace { rounds: 1, lines: 50_000, seconds: 1, windows: 5 };
}

/// A part of it, for a run of that part alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Write,
    Datagrams,
    Redis,
    Parsing,
    Closing,
}

/// Rates of the rounds, in lines a second.
#[derive(Debug, Default)]
struct Rates {
    bytewax: Vec<f64>,
    /// StatsD over TCP with two sets, and with a set and a counter; and by datagrams.
    sets: Vec<f64>,
    counters: Vec<f64>,
    statsd_datagrams: Vec<f64>,
    write: Vec<f64>,
    datagrams: Vec<f64>,
    usual: Vec<f64>,
    redis: Vec<f64>,
}

/// Measures all contestants in turn, round after round; or those of one part.
pub(crate) async fn run(pace: Pace, only: Option<Part>) -> Result<Results> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let lines = lines::make(pace.lines);
    let mut rates = Rates::default();
    let rounds = rounds(pace);
    let (bytewax, statsd) = (Bytewax::install()?, StatsD::install()?);
    for round in 0..rounds {
        eprintln!("  round {round}");
        if wanted(Part::Write) || wanted(Part::Datagrams) {
            tell("Bytewax", &mut rates.bytewax, pace.lines as f64 / bytewax.run(&lines)?);
        }
        if wanted(Part::Write) {
            let seconds = statsd.run(&lines.sets, lines.count).await?;
            tell("StatsD, two sets", &mut rates.sets, pace.lines as f64 / seconds);
            let seconds = statsd.run(&lines.counters, lines.count).await?;
            tell("StatsD, set and counter", &mut rates.counters, pace.lines as f64 / seconds);
            let seconds = Node::start(None).await?.write(&lines).await?;
            tell("Consort by /write", &mut rates.write, pace.lines as f64 / seconds);
        }
        if wanted(Part::Datagrams) {
            let load = |text: &bytes::Bytes, lines_of_each| Load {
                text: text.clone(),
                lines: lines_of_each,
                events: lines.count,
                seconds: pace.seconds,
            };
            let theirs = load(&lines.sets, METRICS);
            let rate = datagrams::highest_rate(&theirs, async || statsd.receiver().await).await?;
            tell("StatsD by datagrams", &mut rates.statsd_datagrams, rate);
            let own = load(&lines.text, 1);
            let rate = datagrams::highest_rate(&own, async || Node::start(None).await).await?;
            tell("Consort by datagrams", &mut rates.datagrams, rate);
        }
        if wanted(Part::Redis) {
            on_redis(&lines, &mut rates).await?;
        }
    }
    let mut report = Report::new("events");
    rates.report(&mut report);
    if wanted(Part::Parsing) {
        let (theirs, own) = parse::rates(&lines, rounds);
        let crate_of_the_field = "influxdb-line-protocol 2";
        report.add("lines parsed", "lines", crate_of_the_field, compared(&theirs, &own), Some(1.0));
    }
    report.note(format!("Medians of {rounds} round(s)."));
    if wanted(Part::Closing) {
        closing(pace, &mut report).await?;
    }
    report.results()
}

/// The usual design and Consort, each with a Redis of its own.
async fn on_redis(lines: &Lines, rates: &mut Rates) -> Result<()> {
    let fresh = || RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec));
    let redis = fresh().await;
    let seconds = usual::run(lines, &redis.url()).await?;
    tell("a command per update", &mut rates.usual, lines.count as f64 / seconds);
    let redis = fresh().await;
    let seconds = Node::start(Some(&redis.url())).await?.write(lines).await?;
    tell("Consort on Redis", &mut rates.redis, lines.count as f64 / seconds);
    Ok(())
}

fn tell(who: &str, rates: &mut Vec<f64>, rate: f64) {
    eprintln!("    {who}: {rate:.0}/s");
    rates.push(rate);
}

impl Rates {
    fn report(&self, report: &mut Report) {
        let write = "a million lines by POST /write, durable";
        let datagrams = "datagrams, highest rate without a drop, durable";
        let redis = "a million lines by POST /write, on Redis";
        let bytewax = "Bytewax 0.21, one worker, in memory";
        let lines = [
            (write, &self.write, bytewax, &self.bytewax, Some(3.0)),
            (
                write,
                &self.write,
                "StatsD over TCP: the same two sets, in memory",
                &self.sets,
                Some(3.0),
            ),
            (
                write,
                &self.write,
                "StatsD over TCP: a set and a counter, in memory",
                &self.counters,
                None,
            ),
            (datagrams, &self.datagrams, bytewax, &self.bytewax, Some(3.0)),
            (
                datagrams,
                &self.datagrams,
                "StatsD by datagrams, highest rate without a drop: the same two sets",
                &self.statsd_datagrams,
                Some(3.0),
            ),
            (redis, &self.redis, "one command per update, four workers", &self.usual, Some(10.0)),
        ];
        for (name, ours, of, peer, wanted) in lines {
            if !ours.is_empty() {
                report.add(name, "lines", of, compared(peer, ours), wanted);
            }
        }
    }
}

/// How long after a window may be closed its row stands in InfluxDB.
async fn closing(pace: Pace, report: &mut Report) -> Result<()> {
    let took = closing::latencies(pace.windows).await?;
    let at = |part: f64| took[((took.len() - 1) as f64 * part).round() as usize];
    report.note(format!(
        "From when a window may be closed to its row in InfluxDB, {} windows of a second: p50 {:.0} ms, \
         p99 {:.0} ms.",
        took.len(),
        at(0.5),
        at(0.99)
    ));
    Ok(())
}

/// As many as the environment says, for those who have less time or more.
fn rounds(pace: Pace) -> usize {
    let said = std::env::var("BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    said.filter(|rounds| *rounds > 0).unwrap_or(pace.rounds)
}

fn compared(peer: &[f64], ours: &[f64]) -> Compared {
    let ratio = median(ours.iter().zip(peer).map(|(ours, peer)| ours / peer));
    Compared { limit: median(peer.iter().copied()), ours: median(ours.iter().copied()), ratio }
}
