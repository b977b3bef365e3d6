//! What is seen of a contestant while it is under load: how much waits, how far its views are behind, and
//! the memory it takes.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::counters::Counts;
use super::served::Served;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One look.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Sample {
    /// Seconds since the load began.
    pub(super) at: f64,
    pub(super) accepted: u64,
    pub(super) applied: u64,
    /// How far behind the contestant says that its answers may be, in seconds.
    pub(super) lag: Option<f64>,
    /// Its memory, in bytes.
    pub(super) rss: u64,
}

impl Sample {
    /// How many records wait.
    pub(super) fn waiting(&self) -> u64 {
        Counts { accepted: self.accepted, applied: self.applied }.waiting()
    }
}

/// Does `work`, and looks at the contestant meanwhile. A look that fails, because an overloaded
/// contestant refuses it, is left out.
pub(super) async fn during<T>(served: &Served, work: impl Future<Output = T>) -> (T, Vec<Sample>) {
    let (started, over) = (Instant::now(), AtomicBool::new(false));
    let work = async {
        let done = work.await;
        over.store(true, Ordering::Relaxed);
        done
    };
    let looks = async {
        let mut samples = Vec::new();
        while !over.load(Ordering::Relaxed) {
            samples.extend(look(served, started).await.ok().flatten());
            tokio::time::sleep(LOOK_EVERY).await;
        }
        samples
    };
    tokio::join!(work, looks)
}

async fn look(served: &Served, started: Instant) -> Result<Option<Sample>> {
    let Some(Counts { accepted, applied }) = served.counts().await? else { return Ok(None) };
    let at = started.elapsed().as_secs_f64();
    let (lag, rss) = (served.lag().await.unwrap_or(None), served.rss()?);
    Ok(Some(Sample { at, accepted, applied, lag, rss }))
}

/// How far the views were behind at worst, in seconds: for every look, the time since no more had been
/// accepted than was applied by then. It is found without the contestant's own word for it.
pub(super) fn furthest_behind(samples: &[Sample]) -> f64 {
    let behind = |(n, sample): (usize, &Sample)| {
        sample.at - accepted_by(&samples[..=n], sample.applied).unwrap_or(sample.at)
    };
    samples.iter().enumerate().map(behind).fold(0.0, f64::max)
}

/// When so many records had been accepted: between two looks, as if they came evenly.
fn accepted_by(samples: &[Sample], records: u64) -> Option<f64> {
    let last = samples.iter().rposition(|sample| sample.accepted <= records)?;
    let (before, Some(after)) = (&samples[last], samples.get(last + 1)) else {
        return Some(samples[last].at);
    };
    let part = (records - before.accepted) as f64 / (after.accepted - before.accepted) as f64;
    Some(before.at + part * (after.at - before.at))
}

/// The furthest behind that the contestant itself told, in seconds.
pub(super) fn furthest_told(samples: &[Sample]) -> Option<f64> {
    samples.iter().filter_map(|sample| sample.lag).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(looks: &[(f64, u64, u64)]) -> f64 {
        let sample = |&(at, accepted, applied)| Sample { at, accepted, applied, lag: None, rss: 0 };
        furthest_behind(&looks.iter().map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn views_are_as_far_behind_as_it_is_since_the_applied_records_were_the_accepted_ones() {
        assert_eq!(behind(&[]), 0.0);
        assert_eq!(behind(&[(0.0, 0, 0), (1.0, 100, 100)]), 0.0);
        // The applied half had been accepted half a second ago.
        assert_eq!(behind(&[(0.0, 0, 0), (1.0, 100, 50)]), 0.5);
        // Nothing was applied for two seconds.
        assert_eq!(behind(&[(0.0, 0, 0), (1.0, 100, 0), (2.0, 200, 0), (3.0, 200, 200)]), 2.0);
        // More applied than accepted: the answers were not counted yet.
        assert_eq!(behind(&[(0.0, 5, 9), (1.0, 100, 110)]), 0.0);
    }
}
