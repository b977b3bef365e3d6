//! What a node counts of its sinks, for whoever shows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use consort_kernel::{Name, Shard};
use parking_lot::Mutex;

/// The figures of all sinks of a node.
#[derive(Clone, Debug, Default)]
pub struct Figures(pub(crate) BTreeMap<Name, Arc<SinkFigures>>);

impl Figures {
    /// Each sink with its figures.
    pub fn all(&self) -> impl Iterator<Item = (&Name, &SinkFigures)> {
        self.0.iter().map(|(name, figures)| (name, &**figures))
    }
}

/// The figures of one sink, as far as this node delivers to it.
#[derive(Debug, Default)]
pub struct SinkFigures {
    delivered: AtomicU64,
    parked: AtomicU64,
    retries: AtomicU64,
    /// For each feed and shard with rows that are not delivered.
    waiting: Mutex<BTreeMap<(Name, u16), Waiting>>,
}

/// What waits in one feed and shard.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Since when, in local time, the oldest of them was seen.
    since: Duration,
    /// How many there were when that was last looked at.
    rows: u64,
    alarming: bool,
    /// Whether too many subjects are parked.
    is_full: bool,
}

impl SinkFigures {
    /// Rows that the sink took, repeats included.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Rows that it refused for good.
    pub fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Attempts that failed and were to be made again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// For how long, at this local time, the oldest undelivered row has been known to this node.
    pub fn oldest(&self, elapsed: Duration) -> Duration {
        let waiting = self.waiting.lock();
        let ages = waiting.values().map(|waiting| elapsed.saturating_sub(waiting.since));
        ages.max().unwrap_or_default()
    }

    /// Rows that wait to be delivered, as far as they were counted.
    pub fn held(&self) -> u64 {
        self.waiting.lock().values().map(|waiting| waiting.rows).sum()
    }

    /// In how many feeds and shards it holds more than it should, or has parked as many documents as it may.
    pub fn alarms(&self) -> u64 {
        self.waiting.lock().values().filter(|waiting| waiting.alarming || waiting.is_full).count()
            as u64
    }

    pub(crate) fn note(&self, delivered: usize, parked: usize) {
        self.delivered.fetch_add(delivered as u64, Ordering::Relaxed);
        self.parked.fetch_add(parked as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// There are rows of this feed, or there are none any more.
    pub(crate) fn note_waiting(&self, feed: &Name, shard: Shard, since: Option<Duration>) {
        let mut waiting = self.waiting.lock();
        match since {
            Some(since) => {
                waiting.entry((feed.clone(), shard.0)).or_default().since = since;
            }
            None => {
                waiting.remove(&(feed.clone(), shard.0));
            }
        }
    }

    pub(crate) fn note_held(&self, feed: &Name, shard: Shard, rows: u64, alarming: bool) {
        if let Some(waiting) = self.waiting.lock().get_mut(&(feed.clone(), shard.0)) {
            (waiting.rows, waiting.alarming) = (rows, alarming);
        }
    }

    pub(crate) fn note_full(&self, feed: &Name, shard: Shard, is_full: bool) {
        if let Some(waiting) = self.waiting.lock().get_mut(&(feed.clone(), shard.0)) {
            waiting.is_full = is_full;
        }
    }
}
