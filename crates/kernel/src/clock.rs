//! Time as it is handed in: a timestamp in milliseconds, and the clock it comes from.
//!
//! Only engines read a [`Clock`]; everything above them asks [`Store::now`](crate::Store::now), so that
//! all nodes go by one clock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The instant `by` later; the end of time if there is none.
    pub fn after(self, by: Duration) -> Self {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Where an engine without a server of its own takes its time from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now. It never goes backwards as seen through one clock.
    fn now(&self) -> Timestamp;
}

/// The machine's clock, held still while the machine sets it back.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest: AtomicU64,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since_epoch.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let before = self.latest.fetch_max(millis, Ordering::Relaxed);
        Timestamp(before.max(millis))
    }
}

/// A clock that stands still until it is told to move: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    millis: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `at`.
    pub fn at(at: Timestamp) -> Self {
        ManualClock { millis: AtomicU64::new(at.0) }
    }

    /// Moves the clock on by `by`.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.millis.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.millis.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::at(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.advance(Duration::from_millis(7));
        assert_eq!(clock.now(), Timestamp(12));
    }

    #[test]
    fn the_system_clock_holds_still_rather_than_going_back() {
        let clock = SystemClock::default();
        let ahead = clock.now().after(Duration::from_secs(60));
        clock.latest.store(ahead.0, Ordering::Relaxed);
        assert_eq!(clock.now(), ahead);
    }

    #[test]
    fn differences_do_not_wrap() {
        assert_eq!(Timestamp(3).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Timestamp(u64::MAX).after(Duration::from_secs(1)), Timestamp(u64::MAX));
    }
}
