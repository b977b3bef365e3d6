//! How long to wait before the next attempt: exponential, with full jitter.

use std::time::Duration;

/// What the first wait is at most.
const FIRST: Duration = Duration::from_millis(200);

/// What every later wait is at most: a sink that comes back is found this late. Also the longest wait that
/// a sink may ask for.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);

/// The wait after so many failures in a row, counted from 1. `random` spreads those who failed together
/// over the whole time, so that they do not come back together. A sink that said when to come again is
/// believed, within bounds.
pub(crate) fn wait(failures: u32, random: u64, asked: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let most = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    let jittered = Duration::from_millis(random % (millis + 1));
    jittered.max(asked.unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_cover_all_of_it() {
        for (failures, most) in [(1, 200), (2, 400), (5, 3_200), (9, 30_000), (u32::MAX, 30_000)] {
            let waits = |random| wait(failures, random, None).as_millis();
            assert_eq!((waits(0), waits(most), waits(most + 1)), (0, u128::from(most), 0));
        }
    }

    #[test]
    fn a_sink_may_ask_for_more_within_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(wait(1, 0, Some(second)), second);
        assert_eq!(wait(9, 2_000, Some(second)), 2 * second);
        assert_eq!(wait(1, 0, Some(3600 * second)), LONGEST);
    }
}
