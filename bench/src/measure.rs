//! How two ways of doing the same are compared: in turn, for a few rounds, by the ratio of each round.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How long and how often is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds; the median counts. The first one warms up and is left out. Many short ones rather than few
    /// long ones: a disk that is slow for some seconds then slows both sides alike.
    pub(crate) rounds: usize,
    /// How long each side works in a round.
    pub(crate) each: Duration,
    /// Counters that are there before counting begins.
    pub(crate) counters: u64,
}

impl Pace {
    /// For figures.
    pub(crate) const FULL: Pace =
        Pace { rounds: 31, each: Duration::from_millis(300), counters: 1_000_000 };
    /// To see that it works.
    pub(crate) const QUICK: Pace =
        Pace { rounds: 1, each: Duration::from_millis(100), counters: 20_000 };
}

/// What a comparison gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// The limit's or peer's rate in a median round, in units a second.
    pub(crate) limit: f64,
    /// Ours.
    pub(crate) ours: f64,
    /// The median of the rounds' ratios.
    pub(crate) ratio: f64,
}

/// Repeats `step`, which does some units of work and says how many, for as long as the pace says.
/// Answers units a second.
pub(crate) async fn rate<F, Fut>(pace: Pace, mut step: F) -> Result<f64>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<u64>>,
{
    let started = Instant::now();
    let mut units = 0;
    while started.elapsed() < pace.each {
        units += step().await?;
    }
    Ok(units as f64 / started.elapsed().as_secs_f64())
}

/// Measures `limit` and `ours` in turn.
pub(crate) async fn compare<L, LF, O, OF>(
    pace: Pace,
    name: &str,
    mut limit: L,
    mut ours: O,
) -> Result<Compared>
where
    L: FnMut() -> LF,
    LF: Future<Output = Result<f64>>,
    O: FnMut() -> OF,
    OF: Future<Output = Result<f64>>,
{
    let mut rounds = Vec::new();
    for round in 0..=pace.rounds {
        let (limit, ours) = (limit().await?, ours().await?);
        eprintln!("  {name}, round {round}: {limit:.0}/s beside {ours:.0}/s");
        if round > 0 {
            rounds.push(Compared { limit, ours, ratio: ours / limit });
        }
    }
    rounds.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    Ok(rounds[rounds.len() / 2])
}

/// The least value that so many of all do not exceed.
pub(crate) fn rank(sorted: &[f64], part: f64) -> f64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The middle one of some values; 0 if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { rank(&values, 0.5) }
}
