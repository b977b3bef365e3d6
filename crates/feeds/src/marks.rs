//! Marks: how large a feed was at a few moments, from which the trimmer tells the age and size of entries.
//!
//! An entry does not say when it was appended, and reading a whole feed to add up its bytes would cost as much
//! as the feed. So the trimmer notes where the feed ends each time it looks, and estimates the bytes that were
//! added by a sample. Entries below a mark are at least as old as the mark.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use crate::spec::Retention;

/// Marks lie this part of the age or of the bytes apart: entries stay up to that much longer than they must.
const PARTS: u64 = 64;

/// Marks in a cell: at most two for each part of the age and of the bytes. More come only while a sink holds
/// entries beyond both, and then every second one goes. A mark takes some 50 bytes.
const MOST: usize = 256;

/// The bounds of a feed or list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) age: Duration,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl From<Retention> for Keep {
    fn from(Retention { age, bytes }: Retention) -> Keep {
        Keep { age, entries: u64::MAX, bytes }
    }
}

/// The end of a feed at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The number that the next entry had.
    pub(crate) number: u64,
    /// The time, in milliseconds.
    pub(crate) time: u64,
    /// The bytes of all entries below, as estimated since the first mark.
    pub(crate) bytes: u64,
}

/// The marks of a feed in a shard, as the cell holds them: the oldest first. The last one is where the
/// trimmer looked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    /// The entries that are not accounted for begin here.
    pub(crate) fn end(&self, first: u64) -> u64 {
        self.0.last().map_or(first, |mark| mark.number.max(first))
    }

    /// Notes that the feed begins at `first` and now ends at `end`, with `added` bytes behind
    /// [`Marks::end`].
    pub(crate) fn note(
        &mut self,
        (first, end): (u64, u64),
        added: u64,
        now: Timestamp,
        keep: &Keep,
    ) {
        if self.0.is_empty() {
            self.0.push(Mark { number: first, time: now.0, bytes: 0 });
        }
        if let Some(last) = self.0.last().filter(|last| last.number < end) {
            let bytes = last.bytes.saturating_add(added);
            let head = Mark { number: end, time: now.0, bytes };
            // Without the last one the gap must not be too wide.
            if let [.., before, _] = self.0[..]
                && !is_far(&before, &head, keep)
            {
                self.0.pop();
            }
            self.0.push(head);
        }
        // The last mark at or below the first entry is the base that sizes are counted from.
        while self.0.len() > 1 && self.0[1].number <= first {
            self.0.remove(0);
        }
        if self.0.len() > MOST {
            let last = self.0.len() - 1;
            let mut at = 0..;
            self.0.retain(|_| at.next().is_some_and(|at| at % 2 == 0 || at == last));
        }
    }

    /// The first entry that the bounds let stay.
    pub(crate) fn first_kept(&self, now: Timestamp, keep: &Keep) -> u64 {
        let Some(last) = self.0.last() else { return 0 };
        let is_old = |mark: &&Mark| Timestamp(mark.time).after(keep.age) <= now;
        let by_age = self.0.iter().rfind(is_old).map_or(0, |mark| mark.number);
        let by_count = last.number.saturating_sub(keep.entries);
        by_age.max(by_count).max(self.below(last.bytes.saturating_sub(keep.bytes)))
    }

    /// The number below which there are about so many bytes, by the marks on both sides.
    fn below(&self, bytes: u64) -> u64 {
        let behind = self.0.partition_point(|mark| mark.bytes < bytes);
        match (behind.checked_sub(1).map(|at| self.0[at]), self.0.get(behind)) {
            (Some(before), Some(behind)) => {
                let entries = u128::from(behind.number - before.number);
                let (part, whole) = (bytes - before.bytes, behind.bytes - before.bytes);
                let part = (entries * u128::from(part)).div_ceil(u128::from(whole.max(1)));
                before.number + u64::try_from(part).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }
}

fn is_far(before: &Mark, behind: &Mark, keep: &Keep) -> bool {
    let time = u128::from(behind.time.saturating_sub(before.time));
    time >= keep.age.as_millis() / u128::from(PARTS)
        || behind.bytes - before.bytes >= keep.bytes / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_cluster::format;

    const HOUR: u64 = 3_600_000;

    fn keep(hours: u64, bytes: u64) -> Keep {
        Retention { age: Duration::from_millis(hours * HOUR), bytes }.into()
    }

    /// The marks of a feed that had so many entries of 10 bytes at these minutes.
    fn marks(looks: &[(u64, u64)], keep: &Keep) -> Marks {
        let mut marks = Marks::default();
        for (minute, end) in looks {
            let added = (end - marks.end(0)) * 10;
            marks.note((0, *end), added, Timestamp(minute * 60_000), keep);
        }
        marks
    }

    #[test]
    fn entries_go_when_the_mark_above_them_is_old_enough() {
        let keep = keep(24, u64::MAX);
        let looks: Vec<(u64, u64)> = (0..48 * 60).map(|minute| (minute, minute * 100)).collect();
        let marks = marks(&looks, &keep);
        let at = |minute: u64| marks.first_kept(Timestamp(minute * 60_000), &keep);
        assert_eq!(at(24 * 60 - 1), 0);
        for minute in [24 * 60 + 30, 30 * 60, 47 * 60] {
            let young = (minute - 24 * 60) * 100;
            assert!(at(minute) <= young, "{} of {young} at {minute}", at(minute));
            // 24 hours in 64 parts are 22.5 minutes.
            assert!(at(minute) + 24 * 100 > young, "{} of {young} at {minute}", at(minute));
        }
    }

    #[test]
    fn the_oldest_go_while_the_others_are_too_large() {
        for bytes in [7, 640, 5_000, 99_990, 100_000, 1 << 40] {
            let keep = keep(24, bytes);
            let marks = marks(&[(0, 0), (1, 10), (2, 9_000), (3, 10_000)], &keep);
            let first = marks.first_kept(Timestamp(180_000), &keep);
            assert_eq!(first, 10_000 - (bytes / 10).min(10_000), "{bytes} bytes");
        }
    }

    #[test]
    fn the_bound_that_is_reached_first_counts() {
        let keep = Keep { entries: 40, ..keep(24, 1_000) };
        let marks = marks(&[(0, 100), (1, 200)], &keep);
        assert_eq!(marks.first_kept(Timestamp(60_000), &keep), 160);
        let fewer = Keep { bytes: 100, ..keep };
        assert_eq!(marks.first_kept(Timestamp(60_000), &fewer), 190);
        assert_eq!(marks.first_kept(Timestamp(25 * HOUR), &keep), 200);
    }

    #[test]
    fn marks_are_bounded_although_nothing_is_trimmed() {
        let keep = keep(1, 1_000);
        let looks: Vec<(u64, u64)> = (0..10_000).map(|minute| (minute, minute * 3)).collect();
        let mut marks = marks(&looks, &keep);
        assert!(marks.0.len() <= MOST, "{}", marks.0.len());
        assert!(format::encode(&marks).len() < 20_000);
        let now = Timestamp(9_999 * 60_000);
        assert_eq!(marks.first_kept(now, &keep), 9_999 * 3 - 100, "the newest are exact");
        marks.note((29_990, 29_997), 0, now, &keep);
        assert!(marks.0.len() <= 5, "those of trimmed entries go: {marks:?}");
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let marks = Marks(vec![Mark { number: 7, time: 8, bytes: 9 }]);
        let stored = "\x01[{\"number\":7,\"time\":8,\"bytes\":9}]";
        assert_eq!(format::encode(&marks), stored);
        assert_eq!(format::decode(stored.as_bytes()), Ok(marks));
    }
}
