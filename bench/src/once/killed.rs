//! A holder that is killed while it computes: how long those wait on who asked the other node.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::contestant::{Ground, Served};
use super::{ORIGIN_TAKES, ask, redis};
use crate::measure::median;
use crate::report::Report;

/// Between two looks at the origin's count.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Many times what it takes until the origin is asked.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn run(rounds: usize, origin: &Served, report: &mut Report) -> Result<()> {
    let redis = redis().await;
    let url = redis.url();
    let on_redis = Ground::Redis { url: &url, namespace: "killed" };
    let waiter = Served::consort(on_redis, origin).await?;
    let mut seconds = Vec::new();
    for round in 0..rounds {
        let holder = Served::consort(on_redis, origin).await?;
        let took = once(holder, &waiter, origin).await?.as_secs_f64();
        eprintln!("  round {round}: {took:.2} s");
        seconds.push(took);
    }
    let worst = seconds.iter().copied().fold(0.0, f64::max);
    report.note(format!(
        "The holder killed (SIGKILL) in the middle of its computation, two nodes on Redis, a lease of 3 s: from the \
         kill to the first good answer, which the other node computes anew, {:.2} s at the median and {worst:.2} s \
         at the worst of {rounds} rounds. Each time the origin was asked exactly once more.",
        median(seconds.iter().copied())
    ));
    Ok(())
}

/// From the kill to the answer.
async fn once(mut holder: Served, waiter: &Served, origin: &Served) -> Result<Duration> {
    let key = ask::fresh_key();
    let (address, path) = (holder.address, holder.path(&key));
    // Whoever is killed answers nothing.
    let asks_holder = tokio::spawn(async move { ask::get(address, &path).await });
    let began = Instant::now();
    while ask::calls(origin, &key).await? == 0 {
        ensure!(began.elapsed() < ASKED_WITHIN, "the holder does not ask the origin");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let (address, path) = (waiter.address, waiter.path(&key));
    let asks_waiter = tokio::spawn(async move {
        let answer = ask::get(address, &path).await;
        (answer, Instant::now())
    });
    // In the middle: it asked a moment ago.
    tokio::time::sleep(ORIGIN_TAKES / 2).await;
    let kill = Instant::now();
    holder.process.kill().await;
    let (answer, answered) = asks_waiter.await?;
    answer.context("the one that waited")?;
    ensure!(asks_holder.await?.is_err(), "the holder answered before it was killed");
    let calls = ask::calls(origin, &key).await?;
    ensure!(calls == 2, "the origin was asked {calls} times, not once more");
    Ok(answered.saturating_duration_since(kill))
}
