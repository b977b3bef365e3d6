//! The sketch: about how many distinct members it was shown, in at most 16 KiB.
//!
//! A HyperLogLog of 2^14 registers, so the standard error is 0.8 %. Small ones are kept as the list of
//! their registers that are not zero. Small numbers are estimated by counting empty registers, large
//! ones by the harmonic mean.

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

const PRECISION: u32 = 14;
const REGISTERS: usize = 1 << PRECISION;
const SPARSE: u8 = 1;
const DENSE: u8 = 2;
/// A sparse entry is three bytes: register and rank. Beyond this many, dense is smaller than it looks:
/// it compresses, and takes no search.
const SPARSE_MOST: usize = 2_000;

/// Registers, each the longest run of zeros seen among the hashes it was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Sorted by register while sparse; empty once `dense` is there.
    sparse: Vec<(u16, u8)>,
    dense: Option<Vec<u8>>,
}

impl Sketch {
    /// Shows it a member. Says whether that changed anything.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        let hash = xxh3_64(member);
        let register = (hash >> (u64::BITS - PRECISION)) as u16;
        // The marker bit bounds the run where all remaining bits are zero.
        let rest = (hash << PRECISION) | (1 << (PRECISION - 1));
        let rank = rest.leading_zeros() as u8 + 1;
        match &mut self.dense {
            Some(registers) => raise(&mut registers[usize::from(register)], rank),
            None => self.insert_sparse(register, rank),
        }
    }

    fn insert_sparse(&mut self, register: u16, rank: u8) -> bool {
        match self.sparse.binary_search_by_key(&register, |entry| entry.0) {
            Ok(at) => raise(&mut self.sparse[at].1, rank),
            Err(at) => {
                self.sparse.insert(at, (register, rank));
                if self.sparse.len() > SPARSE_MOST {
                    let mut registers = vec![0; REGISTERS];
                    for (register, rank) in self.sparse.drain(..) {
                        registers[usize::from(register)] = rank;
                    }
                    self.dense = Some(registers);
                }
                true
            }
        }
    }

    /// About how many distinct members it was shown.
    pub fn estimate(&self) -> u64 {
        let mut zeros = REGISTERS;
        let mut sum = 0.0;
        let ranks = self.sparse.iter().map(|entry| entry.1);
        for rank in ranks.chain(self.dense.iter().flatten().copied()) {
            if rank > 0 {
                zeros -= 1;
                sum += 2f64.powi(-i32::from(rank));
            }
        }
        let registers = REGISTERS as f64;
        if zeros > 0 {
            let linear = registers * (registers / zeros as f64).ln();
            // Below this the count of empty registers is the better estimate; above it it saturates.
            if linear <= 2.5 * registers {
                return linear.round() as u64;
            }
        }
        let bias = 0.7213 / (1.0 + 1.079 / registers);
        (bias * registers * registers / (sum + zeros as f64)).round() as u64
    }

    /// The bytes to store: a version, then the registers.
    pub fn encode(&self) -> Bytes {
        match &self.dense {
            Some(registers) => {
                let mut bytes = BytesMut::with_capacity(1 + REGISTERS);
                bytes.put_u8(DENSE);
                bytes.put_slice(registers);
                bytes.freeze()
            }
            None => {
                let mut bytes = BytesMut::with_capacity(1 + 3 * self.sparse.len());
                bytes.put_u8(SPARSE);
                for &(register, rank) in &self.sparse {
                    bytes.put_u16(register);
                    bytes.put_u8(rank);
                }
                bytes.freeze()
            }
        }
    }

    /// Reads a stored sketch; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&DENSE, registers) if registers.len() == REGISTERS => {
                Some(Sketch { sparse: Vec::new(), dense: Some(registers.to_vec()) })
            }
            (&SPARSE, entries) if entries.len().is_multiple_of(3) => {
                let entry = |e: &[u8]| (u16::from_be_bytes([e[0], e[1]]), e[2]);
                let sparse: Vec<_> = entries.chunks_exact(3).map(entry).collect();
                let in_range = sparse.iter().all(|e| usize::from(e.0) < REGISTERS);
                let sorted = sparse.is_sorted_by(|a, b| a.0 < b.0);
                (in_range && sorted).then_some(Sketch { sparse, dense: None })
            }
            _ => None,
        }
    }
}

fn raise(register: &mut u8, rank: u8) -> bool {
    let higher = rank > *register;
    if higher {
        *register = rank;
    }
    higher
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stay_within_three_standard_errors() {
        let mut sketch = Sketch::default();
        assert_eq!(sketch.estimate(), 0);
        let mut shown = 0u64;
        for size in [1u64, 10, 100, 1_000, 10_000, 40_000, 100_000, 1_000_000] {
            while shown < size {
                sketch.insert(&shown.to_be_bytes());
                shown += 1;
            }
            let error = (sketch.estimate() as f64 - size as f64).abs() / size as f64;
            assert!(error < 0.025, "{size}: {error}");
        }
    }

    #[test]
    fn repeats_change_nothing() {
        let mut sketch = Sketch::default();
        assert!(sketch.insert(b"a"));
        assert!(!sketch.insert(b"a"));
        assert_eq!(sketch.estimate(), 1);
    }

    #[test]
    fn sketches_come_back_as_they_were() {
        let mut sketch = Sketch::default();
        for n in 0..20_000u32 {
            if n.is_multiple_of(500) {
                assert_eq!(Sketch::decode(&sketch.encode()), Some(sketch.clone()));
            }
            sketch.insert(&n.to_le_bytes());
        }
        for bad in [&b""[..], b"\x09", b"\x01ab", b"\x02abc", b"\x01\xff\xff\x01"] {
            assert_eq!(Sketch::decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let mut sketch = Sketch::default();
        sketch.insert(b"consort");
        assert_eq!(&sketch.encode()[..], b"\x01\x36\x68\x06");
    }
}
