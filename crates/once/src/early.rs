//! Early refresh: as a value nears its end, each request refreshes it with a chance that grows, so that
//! one does before all miss it together. The gap is drawn as in XFetch: the time to compute, times the
//! negative logarithm of a uniform number.

use consort_kernel::Timestamp;

use crate::state::Ready;

/// The logarithm's factor above which chance is as good as none; it spares far-off values the draw.
const FARTHEST: u64 = 30;
/// A value is not refreshed before this part of its life is left, however long it takes to compute.
const LAST_PART: u64 = 10;

/// Whether to refresh a fresh value at `now`; `draw` gives a uniform number.
pub(crate) fn early(ready: &Ready, now: Timestamp, draw: impl FnOnce() -> u64) -> bool {
    let left = ready.fresh_until.0.saturating_sub(now.0);
    let life = ready.fresh_until.0.saturating_sub(ready.published.0);
    let cost = u64::from(ready.cost).min(life / LAST_PART);
    if left == 0 || cost == 0 || left > (FARTHEST * cost).min(life / LAST_PART) {
        return false;
    }
    // 53 bits fill a float's precision; half a step keeps the logarithm finite.
    let uniform = ((draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -(cost as f64) * uniform.ln() >= left as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;
    use consort_kernel::{Entropy, SeededEntropy};

    fn ready(cost: u32) -> Ready {
        Ready {
            generation: Fence { incarnation: 1, attempt: 1 },
            published: Timestamp(0),
            fresh_until: Timestamp(10_000),
            usable_until: Timestamp(10_000),
            excusable_until: Timestamp(10_000),
            excused_until: Timestamp(0),
            cost,
            refresh: None,
        }
    }

    #[test]
    fn the_chance_grows_as_the_end_nears() {
        let entropy = SeededEntropy::new(1);
        let share = |cost, now| {
            let drawn = |_: &u32| early(&ready(cost), Timestamp(now), || entropy.next());
            (0..10_000).filter(drawn).count()
        };
        assert_eq!(share(200, 8_999), 0);
        let shares = [9_000, 9_400, 9_800, 9_990].map(|now| share(200, now));
        assert!(shares.is_sorted() && shares[0] > 0, "{shares:?}");
        // One time to compute before the end it is 1/e.
        assert!((3_400..4_000).contains(&shares[2]), "{shares:?}");
        assert!(share(20, 9_800) < shares[2] / 10);
        assert_eq!([share(0, 9_999), share(200, 10_000)], [0, 0]);
    }
}
