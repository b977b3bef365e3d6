//! Rates of counters over a sliding window.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples in one window: finer steps would cost memory for each role, and change no decision.
const SAMPLES: u32 = 10;

/// The last totals of `N` counters that only grow.
#[derive(Clone, Debug)]
pub(crate) struct RateWindow<const N: usize> {
    window: Duration,
    /// Oldest first, about a tenth of the window apart: at most `SAMPLES` + 2.
    samples: VecDeque<(Duration, [f64; N])>,
}

impl<const N: usize> RateWindow<N> {
    pub(crate) fn new(window: Duration) -> Self {
        RateWindow { window, samples: VecDeque::new() }
    }

    /// Notes the totals at this local time, and returns their growth per second over the window, or since the first
    /// note where that is later.
    pub(crate) fn record(&mut self, now: Duration, totals: [f64; N]) -> [f64; N] {
        let age = |at: Duration| now.saturating_sub(at);
        // The newest sample that is as old as the window is where it begins.
        while self.samples.get(1).is_some_and(|(at, _)| age(*at) >= self.window) {
            self.samples.pop_front();
        }
        let rates = match self.samples.front() {
            Some((at, before)) if age(*at) > Duration::ZERO => {
                let seconds = age(*at).as_secs_f64();
                std::array::from_fn(|n| (totals[n] - before[n]).max(0.0) / seconds)
            }
            _ => [0.0; N],
        };
        if self.samples.back().is_none_or(|(at, _)| age(*at) >= self.window / SAMPLES) {
            self.samples.push_back((now, totals));
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_window_alone_and_the_samples_are_bounded() {
        let mut window = RateWindow::new(Duration::from_secs(10));
        let mut total = 0.0;
        for n in 0..1000u64 {
            // One a second for a long time, then five a second.
            total += if n < 900 { 0.1 } else { 0.5 };
            let [rate] = window.record(Duration::from_millis(100 * n), [total]);
            assert!(window.samples.len() <= SAMPLES as usize + 2, "{}", window.samples.len());
            match n {
                100..900 => assert!((rate - 1.0).abs() < 0.05, "{rate} at {n}"),
                950 => assert!((rate - 3.0).abs() < 0.3, "half of the window: {rate}"),
                _ => {}
            }
        }
        let [rate] = window.record(Duration::from_secs(100), [total]);
        assert!((rate - 5.0).abs() < 0.3, "{rate}");
    }

    #[test]
    fn the_first_note_and_one_at_the_same_time_give_no_rate() {
        let mut window = RateWindow::new(Duration::from_secs(10));
        let second = Duration::from_secs(1);
        assert_eq!(window.record(second, [5.0, 1.0]), [0.0, 0.0]);
        assert_eq!(window.record(second, [9.0, 1.0]), [0.0, 0.0]);
        assert_eq!(window.record(3 * second, [9.0, 1.0]), [2.0, 0.0]);
    }
}
