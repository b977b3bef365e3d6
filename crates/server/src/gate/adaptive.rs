//! The adaptive gate: what is in flight is limited by how long appends take ([`Gradient`]), and what
//! comes in is paced by the stream's lag ([`Pace`]).
//!
//! The two meet different troubles. A slow log shows in the latency of appends, and fewer at one time
//! help it. Slow workers do not: appends stay fast, and only fewer in each second help.

use std::time::Duration;

use super::gradient::Gradient;
use super::pace::Pace;

/// The longest that a post is held at the door: long enough for clients that take turns, and so short
/// that one which is refused has lost nothing.
pub(super) const WAIT_AT_MOST: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Adaptive {
    gradient: Gradient,
    pace: Pace,
}

impl Adaptive {
    pub(super) fn new() -> Adaptive {
        Adaptive { gradient: Gradient::new(), pace: Pace::new() }
    }

    /// How long a post of so many records, which has `left` until its deadline, must wait for its turn;
    /// otherwise, the lag because of which it may not come.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        records: u64,
        left: Duration,
    ) -> Result<Duration, Duration> {
        self.pace.ask(now, records, left.min(WAIT_AT_MOST))
    }

    /// How many may be in flight.
    pub(super) fn limit(&self, now: Duration) -> usize {
        self.gradient.limit(now)
    }

    /// How many may wait until fewer are in flight: no more than will have their turn in time.
    pub(super) fn line(&self, now: Duration) -> usize {
        self.gradient.ended_within(now, WAIT_AT_MOST)
    }

    /// Records a second that may come, if that is limited.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        self.pace.rate(now)
    }

    pub(super) fn done(&mut self, now: Duration, took: Duration, records: u64, in_flight: usize) {
        self.gradient.observe(now, took, in_flight);
        self.pace.appended(now, records);
    }

    /// Records came in together with many others: how long that took says nothing of single posts.
    pub(super) fn came_in_bulk(&mut self, now: Duration, records: u64) {
        self.pace.appended(now, records);
    }

    /// A quick failure tells nothing of how much room there is. A slow one does: it would have taken
    /// longer still.
    pub(super) fn failed(&mut self, now: Duration, took: Duration, in_flight: usize) {
        if self.gradient.is_slow(took) {
            self.gradient.observe(now, took, in_flight);
        }
    }

    pub(super) fn lag(&mut self, now: Duration, lag: Duration) {
        self.pace.report(now, lag);
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient::{LIMIT_LEAST, LIMIT_MOST};
    use super::*;

    #[test]
    fn only_slow_failures_shrink_the_limit() {
        for (took, limit) in [(1, LIMIT_MOST), (5000, LIMIT_LEAST)] {
            let mut adaptive = Adaptive::new();
            for n in 0..500 {
                let now = Duration::from_millis(10 * n);
                adaptive.failed(now, Duration::from_millis(took), 100);
            }
            assert_eq!(adaptive.limit(Duration::from_secs(5)), limit, "{took} ms");
        }
    }

    #[test]
    fn no_more_wait_than_end_in_time() {
        let mut adaptive = Adaptive::new();
        assert_eq!(adaptive.line(Duration::ZERO), LIMIT_MOST, "nothing is known yet");
        for n in 1..=1000 {
            let now = Duration::from_millis(10 * n);
            adaptive.done(now, Duration::from_millis(5), 1, 100);
        }
        assert_eq!(adaptive.line(Duration::from_secs(10)), 25, "100 a second end");
    }
}
