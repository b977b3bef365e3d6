//! How much of the feed lies behind the newest snapshot, and when that is enough for another one.

use std::ops::Range;

/// A snapshot is asked for after so many bytes of entries: a new worker applies them in about a second.
pub const SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;
/// A snapshot is asked for after so many entries, however small they are.
pub const SNAPSHOT_ENTRIES: u64 = 200_000;
/// Entries whose sizes stand for all that came since the look before.
pub const SAMPLE_ENTRIES: usize = 32;
/// A sample ends at so many bytes.
pub const SAMPLE_BYTES: usize = 512 * 1024;

/// The growth of one era's feed.
///
/// Entries are counted. Their bytes are estimated: at each look, the sizes of a few entries stand for all that came
/// since the look before. Reading all of them would cost the store as much as one more reader. Looks follow one
/// another twice a second, so 64 MiB are the sum of many samples. An error only shifts the moment of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedGrowth {
    era: u64,
    /// The index of the newest snapshot.
    snapshot: u64,
    /// Entries up to this index are measured.
    measured: u64,
    bytes: u64,
}

impl FeedGrowth {
    /// The newest snapshot of `era` is of this index; 0 without one. Growth is measured from there on.
    pub fn snapshot_is(&mut self, era: u64, index: u64) {
        if (era, index) != (self.era, self.snapshot) {
            *self = FeedGrowth { era, snapshot: index, measured: index, bytes: 0 };
        }
    }

    /// The numbers of the entries that are not measured yet, while the head is at `index`. Entry number *n* has index
    /// *n* + 1.
    pub fn unmeasured(&self, index: u64) -> Range<u64> {
        self.measured..index.max(self.measured)
    }

    /// The number at which a sample of these entries begins. `draw` is a random number.
    pub fn sample_start(entries: &Range<u64>, draw: u64) -> u64 {
        let room = (entries.end - entries.start).saturating_sub(SAMPLE_ENTRIES as u64);
        entries.start + draw % (room + 1)
    }

    /// Takes a sample of `entries` into account: the number of entries in it, and their bytes.
    pub fn add(&mut self, entries: Range<u64>, sampled: u64, bytes: u64) {
        let all = entries.end.saturating_sub(entries.start);
        self.measured = self.measured.max(entries.end);
        let estimate = u128::from(bytes) * u128::from(all) / u128::from(sampled.max(1));
        self.bytes = self.bytes.saturating_add(u64::try_from(estimate).unwrap_or(u64::MAX));
    }

    /// Whether it is time for a snapshot, while the head is at `index`.
    pub fn is_due(&self, index: u64) -> bool {
        index.saturating_sub(self.snapshot) >= SNAPSHOT_ENTRIES || self.bytes >= SNAPSHOT_BYTES
    }

    /// About how many bytes of entries lie behind the newest snapshot.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_snapshot_is_due_after_so_many_bytes_or_entries() {
        let mut growth = FeedGrowth::default();
        growth.snapshot_is(1, 100);
        assert_eq!(growth.unmeasured(100), 100..100);
        assert!(!growth.is_due(100 + SNAPSHOT_ENTRIES - 1));
        assert!(growth.is_due(100 + SNAPSHOT_ENTRIES));
        growth.add(growth.unmeasured(110), 10, 63 * MIB);
        assert!(!growth.is_due(110));
        growth.add(growth.unmeasured(130), 10, MIB / 2);
        assert_eq!(growth.bytes(), 64 * MIB);
        assert!(growth.is_due(130));
        // The snapshot of index 120 is there: what lies behind it is measured anew.
        growth.snapshot_is(1, 120);
        assert_eq!((growth.bytes(), growth.unmeasured(130)), (0, 120..130));
        growth.snapshot_is(1, 120);
        growth.add(growth.unmeasured(130), 10, 7);
        growth.snapshot_is(1, 120);
        assert_eq!(growth.bytes(), 7);
    }

    #[test]
    fn a_new_era_begins_without_growth() {
        let mut growth = FeedGrowth::default();
        growth.snapshot_is(1, 7);
        growth.add(growth.unmeasured(9), 2, 99);
        growth.snapshot_is(2, 0);
        assert_eq!((growth.bytes(), growth.unmeasured(3)), (0, 0..3));
        // The head that was looked at may be older than the snapshot.
        growth.snapshot_is(2, 9);
        assert_eq!(growth.unmeasured(3), 9..9);
    }

    #[test]
    fn a_sample_lies_within_the_new_entries() {
        for (entries, draw, expected) in [
            (5..6, 77, 5),
            (5..37, 77, 5),
            (5..38, 3, 6),
            (5..38, 4, 5),
            (0..1000, 968, 968),
            (0..1000, 969, 0),
        ] {
            let start = FeedGrowth::sample_start(&entries, draw);
            assert_eq!(start, expected, "{entries:?} {draw}");
        }
    }

    #[test]
    fn a_sample_that_found_nothing_counts_as_nothing() {
        let mut growth = FeedGrowth::default();
        growth.add(0..500, 0, 0);
        assert_eq!((growth.bytes(), growth.unmeasured(500)), (0, 500..500));
    }
}
