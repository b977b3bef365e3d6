//! Randomness as it is handed in, so that a simulation can be run twice.

use std::fmt;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// A source of random numbers: producer ids, fences, jitter.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// The next number, uniform over all of `u64`.
    fn next(&self) -> u64;
}

/// The operating system's randomness.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next(&self) -> u64 {
        rand::rng().next_u64()
    }
}

/// The same numbers for the same seed.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<StdRng>);

impl SeededEntropy {
    /// A source that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        SeededEntropy(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn next(&self) -> u64 {
        self.0.lock().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (a, b) = (SeededEntropy::new(7), SeededEntropy::new(7));
        let first: Vec<u64> = (0..5).map(|_| a.next()).collect();
        let second: Vec<u64> = (0..5).map(|_| b.next()).collect();
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
    }
}
