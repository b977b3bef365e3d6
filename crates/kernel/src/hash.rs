//! Which partition a record's key belongs to, and which shard a group's key belongs to.
//!
//! Both answers are stored facts: events that were appended under one answer must be found under the
//! same answer for ever. The fixture test below is the promise.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::Key;
use crate::store::Shard;

/// Seeds keep the two placements independent: otherwise all groups of a partition would crowd into the
/// few shards that share its remainder.
const PARTITION_SEED: u64 = 0;
const SHARD_SEED: u64 = 1;

/// The partition, of `partitions` in all, that takes the records with this key.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    assert!(partitions > 0, "a stream has at least one partition");
    let hash = xxh3_64_with_seed(key, PARTITION_SEED);
    (hash % u64::from(partitions)) as u32
}

/// The shard, of `shards` in all, that keeps the cells with this key.
pub fn shard_of(key: &Key, shards: u16) -> Shard {
    assert!(shards > 0, "a store has at least one shard");
    let hash = xxh3_64_with_seed(key.as_bytes(), SHARD_SEED);
    Shard((hash % u64::from(shards)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_the_same_in_every_release() {
        let partitions: Vec<u32> = (0..6u8).map(|n| partition_of(&[n], 32)).collect();
        assert_eq!(partitions, [27, 11, 31, 13, 18, 2]);
        let shards: Vec<u16> = (0..6i64).map(|n| shard_of(&Key::of([n.into()]), 16).0).collect();
        assert_eq!(shards, [1, 13, 6, 3, 7, 4]);
    }

    #[test]
    fn placement_spreads_keys_evenly() {
        let mut counts = [0u32; 16];
        for n in 0..16_000u32 {
            counts[partition_of(&n.to_be_bytes(), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (800..1200).contains(&n)), "{counts:?}");
    }
}
