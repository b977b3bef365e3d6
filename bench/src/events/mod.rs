//! Events by the minute: a million lines of distinct users over 50 series into the two views of
//! `examples/events.toml`, beside two peers that keep nothing, on the same lines in the same run.

mod closing;
mod lines;
mod ours;
mod parse;
mod peers;
mod usual;

use anyhow::Result;
use consort_testbed::{Fsync, RedisOptions, RedisServer};

use crate::measure::{Compared, median};
use crate::report::{Report, Results};
use ours::Node;
use peers::{Bytewax, StatsD};

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
    /// For figures.
    pub(crate) const FULL: Pace = Pace { rounds: 3, lines: 1_000_000, seconds: 4, windows: 100 };
    /// To see that it works.
    pub(crate) const QUICK: Pace = Pace { rounds: 1, lines: 50_000, seconds: 1, windows: 5 };
}

/// Rates of the rounds, in lines a second.
#[derive(Debug, Default)]
struct Rates {
    bytewax: Vec<f64>,
    statsd: Vec<f64>,
    write: Vec<f64>,
    datagrams: Vec<f64>,
    usual: Vec<f64>,
    redis: Vec<f64>,
}

/// Measures all contestants in turn, round after round.
pub(crate) async fn run(pace: Pace) -> Result<Results> {
    let lines = lines::make(pace.lines);
    let (bytewax, statsd) = (Bytewax::install()?, StatsD::install()?);
    let mut rates = Rates::default();
    let rounds = rounds(pace);
    for round in 0..rounds {
        let seconds = bytewax.run(&lines)?;
        rates.bytewax.push(pace.lines as f64 / seconds);
        let seconds = statsd.run(&lines).await?;
        rates.statsd.push(pace.lines as f64 / seconds);
        let seconds = Node::start(None).await?.write(&lines).await?;
        rates.write.push(pace.lines as f64 / seconds);
        rates.datagrams.push(ours::highest_rate(&lines, pace.seconds).await?);
        let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await;
        let seconds = usual::run(&lines, &redis.url()).await?;
        rates.usual.push(pace.lines as f64 / seconds);
        let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await;
        let seconds = Node::start(Some(&redis.url())).await?.write(&lines).await?;
        rates.redis.push(pace.lines as f64 / seconds);
        eprintln!(
            "  round {round}: Bytewax {:.0}/s, StatsD {:.0}/s, Consort by /write {:.0}/s, by UDP {:.0}/s; \
             on Redis a command per update {:.0}/s, Consort {:.0}/s",
            rates.bytewax[round],
            rates.statsd[round],
            rates.write[round],
            rates.datagrams[round],
            rates.usual[round],
            rates.redis[round]
        );
    }
    let mut report = Report::new("events");
    let write = "a million lines by POST /write, durable";
    let udp = "datagrams, highest rate without a drop, durable";
    for (ours, name) in [(&rates.write, write), (&rates.datagrams, udp)] {
        for (peer, of) in [
            (&rates.bytewax, "Bytewax 0.21, one worker, in memory"),
            (&rates.statsd, "StatsD over TCP, in memory"),
        ] {
            report.add(name, "lines", of, compared(peer, ours), Some(3.0));
        }
    }
    let one = "one command per update, four workers";
    let redis = "a million lines by POST /write, on Redis";
    report.add(redis, "lines", one, compared(&rates.usual, &rates.redis), Some(10.0));
    let (theirs, own) = parse::rates(&lines, rounds);
    let crate_of_the_field = "influxdb-line-protocol 2";
    report.add("lines parsed", "lines", crate_of_the_field, compared(&theirs, &own), Some(1.0));
    report.note(format!("Medians of {rounds} round(s)."));
    let took = closing::latencies(pace.windows).await?;
    let at = |part: f64| took[((took.len() - 1) as f64 * part).round() as usize];
    report.note(format!(
        "From when a window may be closed to its row in InfluxDB, {} windows of a second: p50 {:.0} ms, \
         p99 {:.0} ms.",
        took.len(),
        at(0.5),
        at(0.99)
    ));
    report.results()
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
