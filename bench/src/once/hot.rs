//! A hot key: `wrk` with 64 connections asks for it, of one contestant after the other.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::contestant::{Ground, Served};
use super::{ANSWER_BYTES, Pace, ask};
use crate::measure::{Compared, median};
use crate::report::Report;

const CONNECTIONS: usize = 64;
const THREADS: usize = 2;
/// Beyond its time `wrk` ends within moments.
const END_WITHIN: Duration = Duration::from_secs(60);
/// The share of the limit that we promise ourselves.
const WANTED: f64 = 0.9;

/// The rates of a round, in answers a second.
#[derive(Clone, Copy, Debug)]
struct Round {
    bare: f64,
    nginx: f64,
    varnish: f64,
    consort: f64,
}

/// What a round is held against.
type Limit = fn(&Round) -> f64;

pub(super) async fn run(pace: Pace, origin: &Served, report: &mut Report) -> Result<()> {
    let bare = Served::bare().await?;
    let nginx = Served::nginx(origin).await?;
    let varnish = Served::varnish(origin).await?;
    let consort = Served::consort(Ground::Embedded, origin).await?;
    let key = ask::fresh_key();
    for server in [&bare, &nginx, &varnish, &consort] {
        let answer = ask::get(server.address, &server.path(&key)).await?;
        ensure!(answer.len() == ANSWER_BYTES, "{} bytes instead of {ANSWER_BYTES}", answer.len());
    }
    let mut rounds = Vec::new();
    for number in 0..=pace.hot {
        let round = Round {
            bare: rate(&bare, &key, pace.each).await?,
            consort: rate(&consort, &key, pace.each).await?,
            nginx: rate(&nginx, &key, pace.each).await?,
            varnish: rate(&varnish, &key, pace.each).await?,
        };
        eprintln!(
            "  round {number}: bare {:.0}/s, nginx {:.0}/s, Varnish {:.0}/s, Consort {:.0}/s ({:.2} of the bare one)",
            round.bare,
            round.nginx,
            round.varnish,
            round.consort,
            round.consort / round.bare
        );
        if number > 0 {
            rounds.push(round);
        }
    }
    let name = "hot key, 1 KiB, 64 connections";
    let sides: [(&str, Limit, Option<f64>); 4] = [
        (
            "bare axum handler or nginx, the lesser",
            |round| round.bare.min(round.nginx),
            Some(WANTED),
        ),
        ("bare axum handler, the same answer", |round| round.bare, None),
        ("nginx, from its cache", |round| round.nginx, None),
        ("Varnish, from its cache", |round| round.varnish, None),
    ];
    for (beside, limit, wanted) in sides {
        report.add(name, "answers", beside, compared(&rounds, limit), wanted);
    }
    Ok(())
}

fn compared(rounds: &[Round], limit: impl Fn(&Round) -> f64) -> Compared {
    Compared {
        limit: median(rounds.iter().map(&limit)),
        ours: median(rounds.iter().map(|round| round.consort)),
        ratio: median(rounds.iter().map(|round| round.consort / limit(round))),
    }
}

/// Answers a second, all of them good ones.
async fn rate(server: &Served, key: &str, time: Duration) -> Result<f64> {
    let output = Command::new("wrk")
        .arg(format!("--threads={THREADS}"))
        .arg(format!("--connections={CONNECTIONS}"))
        .arg(format!("--duration={}s", time.as_secs().max(1)))
        .arg(format!("http://{}{}", server.address, server.path(key)))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(time + END_WITHIN, output)
        .await
        .context("wrk does not end")?
        .context("cannot run wrk; as root, run: apt-get install wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "wrk failed:\n{text}{complaint}");
    read(&text)
}

fn read(output: &str) -> Result<f64> {
    let line = |name: &str| output.lines().find_map(|line| line.trim().strip_prefix(name));
    let bad = line("Non-2xx").or(line("Socket errors"));
    ensure!(bad.is_none(), "not all answers were good:\n{output}");
    let rate = line("Requests/sec:").and_then(|rate| rate.trim().parse().ok());
    rate.with_context(|| format!("wrk told no rate:\n{output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_and_bad_answers_are_no_answers() {
        let good =
            "  2 threads and 64 connections\n  9 requests in 1.00s\nRequests/sec:  57894.13\n";
        assert_eq!(read(good).unwrap(), 57894.13);
        for bad in ["  Non-2xx or 3xx responses: 3\n", "  Socket errors: connect 0, read 1\n"] {
            assert!(read(&format!("{bad}{good}")).is_err());
        }
        assert!(read("unable to connect").is_err());
    }
}
