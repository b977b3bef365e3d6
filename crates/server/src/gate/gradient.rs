//! How many appends may be in flight, by how long they take: in the manner of the gradient limits
//! of congestion control.
//!
//! Appends are observed in windows. Each window compares their mean with what is *usual*: while it
//! is within twice the usual, the limit grows; beyond that, it shrinks by the ratio. An allowance
//! of the limit's root is added in both cases, so that it keeps trying whether there is more room.
//!
//! The usual latency follows a lower one at once and a higher one slowly, and only when what is in
//! flight cannot be the cause: otherwise a queue that stands long enough would become usual.

use std::time::Duration;

/// Nothing is refused up to here. It is four times the connections that a node serves by default,
/// so that the gate is no limit of its own as long as nothing is slow.
pub(super) const LIMIT_MOST: usize = 4096;

/// However slow appends are: logs write many appends in one batch, and a lower limit would make the
/// batches small and everything slower still.
pub(super) const LIMIT_LEAST: usize = 32;

/// A limit changes at most this often: some round trips of any engine.
const WINDOW: Duration = Duration::from_millis(250);

/// A window has at least this many appends, so that one slow one is no trend.
const WINDOW_APPENDS: u32 = 10;

/// What is faster than twice this is never slow: jitter of a disk or a network.
const USUAL_LEAST: Duration = Duration::from_millis(10);

/// What is slower than twice this is always slow, also for a node that has never seen it faster.
const USUAL_MOST: Duration = Duration::from_millis(500);

/// How many times the usual is still well. The latency of a batching log doubles when an append just
/// misses a batch.
const TOLERANCE: f64 = 2.0;

/// One window shrinks the limit to no less than this part.
const CUT_MOST: f64 = 0.5;

/// One window lets it grow by at least this part: from the least to the most in some ten seconds.
const GROWTH: f64 = 0.125;

/// How fast a lower latency becomes the usual one, as a part of the difference in each window.
const FALLS_BY: f64 = 0.5;

/// How slowly a higher latency becomes the usual one.
const RISES_OVER: Duration = Duration::from_secs(60);

/// After such a silence all is forgotten but what is usual: it may have been mended long ago.
const FORGETS_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Gradient {
    limit: f64,
    /// In seconds; unknown before the first window has ended.
    usual: Option<f64>,
    /// Appends that ended in each second of the last window.
    ended: Option<f64>,
    /// When the last append ended.
    last: Duration,
    window: Window,
}

#[derive(Debug, Default)]
struct Window {
    since: Duration,
    appends: u32,
    /// Of their latencies, in seconds.
    sum: f64,
    /// The most that were in flight.
    peak: usize,
}

impl Gradient {
    pub(super) fn new() -> Gradient {
        Gradient {
            limit: LIMIT_MOST as f64,
            usual: None,
            ended: None,
            last: Duration::ZERO,
            window: Window::default(),
        }
    }

    /// How many may be in flight.
    pub(super) fn limit(&self, now: Duration) -> usize {
        if self.forgotten(now) { LIMIT_MOST } else { self.limit as usize }
    }

    /// How many appends have been seen to end within such a time; the limit, if that is unknown.
    pub(super) fn ended_within(&self, now: Duration, time: Duration) -> usize {
        match self.ended {
            Some(each_second) if !self.forgotten(now) => {
                (each_second * time.as_secs_f64()) as usize
            }
            _ => self.limit(now),
        }
    }

    /// Whether an append that has taken so long already is slow.
    pub(super) fn is_slow(&self, took: Duration) -> bool {
        took.as_secs_f64() > self.well_within()
    }

    /// An append has ended; with it, `in_flight` were.
    pub(super) fn observe(&mut self, now: Duration, took: Duration, in_flight: usize) {
        if self.forgotten(now) {
            self.limit = LIMIT_MOST as f64;
            self.ended = None;
        }
        if self.window.appends == 0 {
            // The time before it was silence.
            self.window.since = now.saturating_sub(took).max(self.last);
        }
        self.last = now;
        self.window.appends += 1;
        self.window.sum += took.as_secs_f64();
        self.window.peak = self.window.peak.max(in_flight);
        let lasted = now.saturating_sub(self.window.since);
        if lasted >= WINDOW && self.window.appends >= WINDOW_APPENDS {
            self.judge(lasted);
            self.window = Window::default();
        }
    }

    fn judge(&mut self, lasted: Duration) {
        let Window { appends, sum, peak, .. } = self.window;
        let mean = sum / f64::from(appends);
        let usual = *self.usual.get_or_insert(mean.min(USUAL_MOST.as_secs_f64()));
        let allowance = self.limit.sqrt();
        let gradient = (self.well_within() / mean).max(CUT_MOST);
        // Whether the latency is the engine's own, and no queue that this gate let grow.
        let unlimited = (peak as f64) < self.limit / 2.0 || self.limit <= LIMIT_LEAST as f64;
        let limit = if gradient < 1.0 {
            self.limit * gradient + allowance
        } else {
            self.limit + allowance.max(self.limit * GROWTH)
        };
        self.limit = limit.clamp(LIMIT_LEAST as f64, LIMIT_MOST as f64);
        self.ended = Some(f64::from(appends) / lasted.as_secs_f64());
        let follows = if mean < usual {
            FALLS_BY
        } else if unlimited {
            (lasted.as_secs_f64() / RISES_OVER.as_secs_f64()).min(1.0)
        } else {
            0.0
        };
        self.usual = Some((usual + (mean - usual) * follows).min(USUAL_MOST.as_secs_f64()));
    }

    /// In seconds, what an append may take before it counts as slow.
    fn well_within(&self) -> f64 {
        let usual = self.usual.unwrap_or(USUAL_MOST.as_secs_f64());
        TOLERANCE * usual.max(USUAL_LEAST.as_secs_f64())
    }

    fn forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FORGETS_AFTER
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    /// In milliseconds, one after the other and from the beginning again.
    type Latencies = [u64];

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Appends that take `took` end each 10 ms for `time`, with so many in flight.
    fn appends(gradient: &mut Gradient, took: &Latencies, in_flight: usize, time: Duration) {
        let from = gradient.last;
        for n in 1..=time.as_millis() as u64 / 10 {
            let took = ms(took[n as usize % took.len()]);
            gradient.observe(from + ms(10 * n), took, in_flight);
        }
    }

    #[test]
    fn the_limit_follows_the_latency() {
        // The latencies before and now (ms), for how long now, the limits that are right then.
        let table: [(&Latencies, &Latencies, Duration, RangeInclusive<usize>, &str); 9] = [
            (&[1], &[1], 60 * SECOND, 4096..=4096, "flat"),
            (&[1], &[1, 0, 3, 15], 60 * SECOND, 4096..=4096, "jitter below the floor"),
            (&[0], &[18], 60 * SECOND, 4096..=4096, "many times more, and yet nothing"),
            (&[2], &[2, 2, 2, 2, 2, 2, 2, 2, 2, 150], 60 * SECOND, 4096..=4096, "one of ten"),
            (&[30], &[50], 60 * SECOND, 4096..=4096, "less than twice the usual"),
            (&[5], &[300], 2 * SECOND, 32..=128, "much slower"),
            (&[30], &[90], 4 * SECOND, 32..=128, "three times the usual"),
            (&[3000], &[3000], 10 * SECOND, 32..=128, "always too slow"),
            (&[200], &[200], 60 * SECOND, 4096..=4096, "always slow, and no slower"),
        ];
        for (before, now, time, limits, why) in table {
            let mut gradient = Gradient::new();
            appends(&mut gradient, before, 4000, 5 * SECOND);
            appends(&mut gradient, now, 4000, time);
            let limit = gradient.limit(gradient.last);
            assert!(limits.contains(&limit), "{why}: {limit}");
        }
    }

    #[test]
    fn a_few_appends_are_no_trend() {
        let mut gradient = Gradient::new();
        appends(&mut gradient, &[2], 100, 5 * SECOND);
        let then = gradient.last;
        for n in 1..u64::from(WINDOW_APPENDS) {
            gradient.observe(then + ms(n), ms(5000), 100);
        }
        assert_eq!(gradient.limit(gradient.last), LIMIT_MOST);
    }

    #[test]
    fn it_grows_again_as_soon_as_appends_are_fast() {
        let mut gradient = Gradient::new();
        appends(&mut gradient, &[5], 100, 5 * SECOND);
        appends(&mut gradient, &[400], 100, 10 * SECOND);
        assert_eq!(gradient.limit(gradient.last), LIMIT_LEAST);
        appends(&mut gradient, &[5], 32, 5 * SECOND);
        assert!(gradient.limit(gradient.last) > 256, "{}", gradient.limit);
        appends(&mut gradient, &[5], 32, 7 * SECOND);
        assert_eq!(gradient.limit(gradient.last), LIMIT_MOST);
    }

    #[test]
    fn a_queue_that_stands_does_not_become_usual_but_a_slower_engine_does() {
        // 60 ms with as much in flight as is allowed: the queue is the gate's own.
        let mut gradient = Gradient::new();
        appends(&mut gradient, &[5], 10, 5 * SECOND);
        for _ in 0..6000 {
            let limit = gradient.limit(gradient.last);
            // Latency in proportion to what is in flight, 60 ms at 600.
            appends(&mut gradient, &[limit as u64 / 10], limit, ms(100));
        }
        let limit = gradient.limit(gradient.last);
        assert!((100..400).contains(&limit), "ten minutes later it lets {limit} in");
        // 60 ms with little in flight, at the least limit: so the engine is now.
        let mut gradient = Gradient::new();
        appends(&mut gradient, &[5], 10, 5 * SECOND);
        appends(&mut gradient, &[60], 10, 10 * SECOND);
        assert_eq!(gradient.limit(gradient.last), LIMIT_LEAST);
        appends(&mut gradient, &[60], 10, 120 * SECOND);
        assert_eq!(gradient.limit(gradient.last), LIMIT_MOST);
    }

    #[test]
    fn silence_is_forgiven() {
        let mut gradient = Gradient::new();
        appends(&mut gradient, &[5], 100, 5 * SECOND);
        appends(&mut gradient, &[400], 100, 10 * SECOND);
        let last = gradient.last;
        assert_eq!(gradient.limit(last + FORGETS_AFTER - ms(1)), LIMIT_LEAST);
        assert_eq!(gradient.limit(last + FORGETS_AFTER), LIMIT_MOST);
        gradient.observe(last + FORGETS_AFTER, ms(5), 1);
        assert_eq!(gradient.limit(last + FORGETS_AFTER), LIMIT_MOST);
    }
}
