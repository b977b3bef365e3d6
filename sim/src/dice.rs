//! Every choice that a run makes, drawn from its seed.

use std::time::Duration;

use consort_kernel::{Entropy, SeededEntropy};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A stream of choices. Each purpose has a stream of its own, so that one more choice of one sort does
/// not change all others.
#[derive(Debug)]
pub struct Dice(SeededEntropy);

impl Dice {
    /// The choices for `purpose` in the run of `seed`.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Dice(SeededEntropy::new(xxh3_64_with_seed(purpose.as_bytes(), seed)))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.next() % bound
    }

    /// True in so many of a thousand cases.
    pub fn per_mille(&self, rate: u32) -> bool {
        self.below(1000) < u64::from(rate)
    }

    /// A time up to `most`, in whole microseconds.
    pub fn time(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.below(micros + 1))
    }

    /// One of `choices`; none if there is none.
    pub fn pick<T: Copy>(&self, choices: &[T]) -> Option<T> {
        if choices.is_empty() {
            return None;
        }
        Some(choices[self.below(choices.len() as u64) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_choices_of_its_own() {
        let rolls = |seed, purpose| {
            let dice = Dice::new(seed, purpose);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(rolls(1, "a"), rolls(1, "a"));
        assert_ne!(rolls(1, "a"), rolls(1, "b"));
        assert_ne!(rolls(1, "a"), rolls(2, "a"));
    }

    #[test]
    fn choices_stay_within_their_bounds() {
        let dice = Dice::new(7, "bounds");
        let most = Duration::from_micros(3);
        for _ in 0..100 {
            assert!(dice.time(most) <= most);
            assert!(dice.per_mille(1000) && !dice.per_mille(0));
        }
        assert_eq!(dice.pick::<u8>(&[]), None);
        assert_eq!(dice.pick(&[4]), Some(4));
    }
}
