//! How many readers the load wants, by counts of reads in windows.

use std::time::Duration;

use consort_kernel::Timestamp;

/// The rule of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleRule {
    /// Fewest readers.
    pub min: u16,
    /// Most readers.
    pub max: u16,
    /// One reader for every so many reads in a window.
    pub per_reads: u64,
    /// The length of a window.
    pub window: Duration,
}

/// The running window, as its cell holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWindow {
    /// Its number. Nodes put their counts under it.
    pub number: u64,
    /// When it began.
    pub start: Timestamp,
    /// The count of the window before it.
    pub before: u64,
}

/// What to do with windows and readers now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleStep {
    /// The window that runs from now on; `None` if none does.
    pub window: Option<ReadWindow>,
    /// How many readers there should be.
    pub readers: u16,
}

impl ScaleRule {
    /// The readers for this many reads in a window.
    pub fn readers_for(&self, reads: u64) -> u16 {
        let wanted = reads.div_ceil(self.per_reads.max(1)).max(1);
        u16::try_from(wanted).unwrap_or(u16::MAX).min(self.max).max(self.min)
    }

    /// Looks at the running window. `reads` is its count so far; without a window it is the count of reads
    /// that wait for one. `readers` is how many there should be by the last step, and `next` the number of
    /// the next window.
    ///
    /// Readers grow as soon as a step is crossed and shrink only at a window's end, so a pause within a
    /// window costs no reader. If the supervisor was away for several windows, they count as one.
    pub fn step(
        &self,
        window: Option<ReadWindow>,
        next: u64,
        reads: u64,
        readers: u16,
        now: Timestamp,
    ) -> ScaleStep {
        let bounded = readers.min(self.max).max(self.min);
        let Some(running) = window else {
            // The first read opens a window.
            let opened = ReadWindow { number: next, start: now, before: 0 };
            let readers = bounded.max(self.readers_for(reads));
            return ScaleStep { window: (reads > 0).then_some(opened), readers };
        };
        if now.since(running.start) < self.window {
            let wanted = self.readers_for(reads.max(running.before));
            return ScaleStep { window, readers: bounded.max(wanted) };
        }
        let readers = self.readers_for(reads);
        // After a silent window with the fewest readers no window runs: nothing is left to shrink.
        let is_over = reads == 0 && bounded == self.min;
        let following = ReadWindow {
            number: running.number + 1,
            start: self.following_start(running.start, now),
            before: reads,
        };
        ScaleStep { window: (!is_over).then_some(following), readers }
    }

    /// Windows follow one another without a gap, unless the supervisor was away for a whole one.
    fn following_start(&self, start: Timestamp, now: Timestamp) -> Timestamp {
        let due = start.after(self.window);
        match now.since(due) < self.window {
            true => due,
            false => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: ScaleRule =
        ScaleRule { min: 1, max: 8, per_reads: 20, window: Duration::from_secs(120) };

    fn window(number: u64, start: u64, before: u64) -> Option<ReadWindow> {
        Some(ReadWindow { number, start: Timestamp(start * 1000), before })
    }

    #[test]
    fn one_reader_serves_every_twenty_reads_of_a_window() {
        let cases = [(0, 1), (1, 1), (20, 1), (21, 2), (40, 2), (41, 3), (100, 5), (9999, 8)];
        for (reads, readers) in cases {
            assert_eq!(RULE.readers_for(reads), readers, "{reads}");
        }
        let least = ScaleRule { min: 3, ..RULE };
        assert_eq!((least.readers_for(0), least.readers_for(61)), (3, 4));
        assert_eq!(RULE.readers_for(u64::MAX), 8);
    }

    #[test]
    fn readers_grow_at_once_and_shrink_at_a_window_s_end() {
        let cases = [
            ("silence opens no window", None, 0, 1, 0, (None, 1)),
            ("the first read opens one", None, 1, 1, 7, (window(5, 7, 0), 1)),
            ("a step is crossed", window(1, 0, 0), 21, 1, 60, (window(1, 0, 0), 2)),
            ("no shrinking within", window(1, 0, 0), 5, 4, 60, (window(1, 0, 0), 4)),
            (
                "the last window's count stays",
                window(2, 120, 90),
                0,
                1,
                180,
                (window(2, 120, 90), 5),
            ),
            (
                "its end shrinks to its count",
                window(2, 120, 90),
                30,
                5,
                240,
                (window(3, 240, 30), 2),
            ),
            (
                "a silent one shrinks, and another runs",
                window(2, 120, 90),
                0,
                5,
                240,
                (window(3, 240, 0), 1),
            ),
            ("a silent one at the least ends it", window(3, 240, 0), 0, 1, 360, (None, 1)),
            ("seen late, no gap", window(1, 0, 0), 30, 1, 130, (window(2, 120, 30), 2)),
            ("away for a whole window", window(1, 0, 0), 30, 1, 500, (window(2, 500, 30), 2)),
            ("bounds that were lowered", window(1, 0, 0), 0, 30, 10, (window(1, 0, 0), 8)),
        ];
        for (what, running, reads, readers, now, (next, wanted)) in cases {
            let step = RULE.step(running, 5, reads, readers, Timestamp(now * 1000));
            assert_eq!(step, ScaleStep { window: next, readers: wanted }, "{what}");
        }
    }

    #[test]
    fn a_hundred_reads_and_then_silence_scale_from_1_to_5_and_back() {
        let mut readers = vec![1];
        let mut running = None;
        for (second, reads) in [(0, 1), (1, 50), (2, 100), (120, 100), (239, 0), (240, 0), (360, 0)]
        {
            let now = Timestamp(second * 1000);
            let step = RULE.step(running, 1, reads, readers[readers.len() - 1], now);
            running = step.window;
            if step.readers != readers[readers.len() - 1] {
                readers.push(step.readers);
            }
        }
        assert_eq!((readers, running), (vec![1, 3, 5, 1], None));
    }

    proptest! {
        #[test]
        fn readers_always_stay_within_their_bounds(
            reads in any::<u64>(), readers in any::<u16>(), now in 0u64..1_000_000,
            before in any::<u64>(), min in 1u16..64, more in 0u16..64, per_reads in 0u64..100,
        ) {
            let rule = ScaleRule { min, max: min + more, per_reads, window: Duration::from_secs(9) };
            let step = rule.step(window(1, 3, before), 9, reads, readers, Timestamp(now));
            prop_assert!((rule.min..=rule.max).contains(&step.readers));
        }
    }
}
