//! Once: a cold herd, one key on two nodes, a hot key, and a holder that is killed, beside nginx with
//! `proxy_cache_lock`, beside Varnish, and beside a bare handler. Every contestant is a process of its own, and so
//! is the origin that they ask; the load comes from the same machine.

mod ask;
pub(crate) mod bare;
mod contestant;
mod herd;
mod hot;
mod killed;
pub(crate) mod origin;
mod outcome;

use std::time::Duration;

use anyhow::Result;
use consort_testbed::{Fsync, RedisOptions, RedisServer};

use crate::report::{Report, Results};
use contestant::{Ground, Served};
use outcome::Herds;

/// How long the origin takes for an answer.
const ORIGIN_TAKES: Duration = Duration::from_millis(200);

/// Requests of a herd.
const HERD: usize = 1_000;

/// The bytes of an answer.
const ANSWER_BYTES: usize = 1_024;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Cold herds for each contestant, one more to warm up.
    herds: usize,
    /// Rounds of the hot key, one more to warm up.
    hot: usize,
    /// How long each contestant serves the hot key in a round. Whole seconds: `wrk` knows no others.
    each: Duration,
    /// Holders that are killed.
    kills: usize,
}

impl Pace {
    /// For figures: some four minutes.
    pub(crate) const FULL: Pace =
        Pace { herds: 15, hot: 7, each: Duration::from_secs(4), kills: 7 };
    /// To see that it works.
    pub(crate) const QUICK: Pace =
        Pace { herds: 2, hot: 1, each: Duration::from_secs(2), kills: 2 };
}

/// A part of it, for a run of that part alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Herd,
    Hot,
    Killed,
}

/// Measures all of it, or one part.
pub(crate) async fn run(pace: Pace, only: Option<Part>) -> Result<Results> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut report = Report::new("once");
    report.note(format!(
        "The origin takes {} ms for an answer of {ANSWER_BYTES} bytes. {}, {}, both from Debian.",
        ORIGIN_TAKES.as_millis(),
        contestant::nginx_version(),
        contestant::varnish_version(),
    ));
    let origin = Served::origin().await?;
    if wanted(Part::Hot) {
        eprintln!("hot key");
        hot::run(pace, &origin, &mut report).await?;
    }
    if wanted(Part::Herd) {
        eprintln!("cold herds");
        herds(pace.herds, &origin, &mut report).await?;
    }
    if wanted(Part::Killed) {
        eprintln!("holders killed");
        killed::run(pace.kills, &origin, &mut report).await?;
    }
    report.results()
}

/// Herds for one contestant after the other, round after round: at one server, and spread over two.
async fn herds(rounds: usize, origin: &Served, report: &mut Report) -> Result<()> {
    let redis = redis().await;
    let on_redis = Ground::Redis { url: &redis.url(), namespace: "herds" };
    let mut sides = [
        (Herds::new("Consort, embedded"), vec![Served::consort(Ground::Embedded, origin).await?]),
        (Herds::new("bare axum handler, one wait for all"), vec![Served::bare_wait().await?]),
        (Herds::new("nginx, proxy_cache_lock"), vec![Served::nginx(origin).await?]),
        (Herds::new("Varnish"), vec![Served::varnish(origin).await?]),
        (
            Herds::new("Consort, two nodes on Redis"),
            vec![
                Served::consort(on_redis, origin).await?,
                Served::consort(on_redis, origin).await?,
            ],
        ),
        (Herds::new("two nginx"), vec![Served::nginx(origin).await?, Served::nginx(origin).await?]),
        (
            Herds::new("two Varnish"),
            vec![Served::varnish(origin).await?, Served::varnish(origin).await?],
        ),
    ];
    for round in 0..=rounds {
        for (herds, servers) in &mut sides {
            let herd = herd::run(HERD, servers, origin).await?;
            eprintln!(
                "  {}, round {round}: {} calls, {:.1} ms and {:.1} ms at p50 and p99",
                herds.name,
                herd.calls,
                herd.p(0.5),
                herd.p(0.99)
            );
            if round > 0 {
                herds.add(&herd);
            }
        }
    }
    outcome::report(&sides.map(|(herds, _)| herds), report);
    Ok(())
}

async fn redis() -> RedisServer {
    RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await
}
