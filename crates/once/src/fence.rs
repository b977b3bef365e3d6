//! Fences: the name of one attempt at a computation, and the generation of the value it made.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use consort_kernel::Entropy;

/// The length of a stored fence.
pub(crate) const FENCE_BYTES: usize = 16;

/// The length of a generation's text.
pub const GENERATION_DIGITS: usize = 2 * FENCE_BYTES;

/// One attempt to compute: the number that its process drew at its start, and which of its attempts. It
/// never repeats: within a process because it counts, among processes because they draw 64 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fence {
    /// Drawn afresh at each start of a process.
    pub(crate) incarnation: u64,
    /// Counts the attempts of that process.
    pub(crate) attempt: u64,
}

impl Fence {
    pub(crate) fn to_bytes(self) -> [u8; FENCE_BYTES] {
        let both = (u128::from(self.incarnation) << 64) | u128::from(self.attempt);
        both.to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; FENCE_BYTES]) -> Self {
        let both = u128::from_be_bytes(bytes);
        // The upper and the lower half.
        Fence { incarnation: (both >> 64) as u64, attempt: both as u64 }
    }
}

/// Where a process takes its fences from.
#[derive(Debug)]
pub(crate) struct Fences {
    incarnation: u64,
    attempts: AtomicU64,
}

impl Fences {
    pub(crate) fn new(entropy: &dyn Entropy) -> Self {
        Fences { incarnation: entropy.next(), attempts: AtomicU64::new(0) }
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// A fence that was never used before.
    pub(crate) fn next(&self) -> Fence {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        Fence { incarnation: self.incarnation, attempt }
    }
}

/// Which computation a value comes from. Two answers of one generation are the same bytes; no other
/// computation will ever have it. As text: 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(crate) Fence);

/// A text is no generation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no generation: it has 32 hexadecimal digits, as an answer gave it")]
pub struct GenerationError(String);

impl Generation {
    /// Its text, without taking memory for it.
    pub fn digits(&self) -> [u8; GENERATION_DIGITS] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; GENERATION_DIGITS];
        for (byte, two) in self.0.to_bytes().into_iter().zip(digits.chunks_exact_mut(2)) {
            two[0] = DIGITS[usize::from(byte >> 4)];
            two[1] = DIGITS[usize::from(byte & 0xf)];
        }
        digits
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0.incarnation, self.0.attempt)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({self})")
    }
}

impl FromStr for Generation {
    type Err = GenerationError;

    fn from_str(text: &str) -> Result<Self, GenerationError> {
        let wrong = || GenerationError(text.chars().take(64).collect());
        // A number alone would also take a sign.
        if text.len() != 2 * FENCE_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
        Ok(Generation(Fence::from_bytes(number.to_be_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::SeededEntropy;

    #[test]
    fn a_generation_is_written_and_read() {
        let generation = Generation(Fence { incarnation: 0xabc, attempt: 7 });
        let text = "0000000000000abc0000000000000007";
        assert_eq!(generation.to_string(), text);
        assert_eq!(&generation.digits(), text.as_bytes());
        assert_eq!(text.parse(), Ok(generation));
        assert_eq!(Fence::from_bytes(generation.0.to_bytes()), generation.0);
        for wrong in
            ["", "7", "+000000000000abc0000000000000007", "x000000000000abc0000000000000007"]
        {
            assert!(wrong.parse::<Generation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_fence_is_given_twice() {
        let entropy = SeededEntropy::new(1);
        let (a, b) = (Fences::new(&entropy), Fences::new(&entropy));
        let fences = [a.next(), a.next(), b.next(), b.next()];
        for (i, x) in fences.iter().enumerate() {
            for (j, y) in fences.iter().enumerate() {
                assert_eq!(x == y, i == j);
            }
        }
    }
}
