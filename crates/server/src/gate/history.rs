//! What came in during the last minute: a count for each tenth of a second.

use std::time::Duration;

const SLICE: Duration = Duration::from_millis(100);

const SLICES: usize = 640;

/// How long it remembers for certain.
pub(super) const REMEMBERS: Duration = Duration::from_secs(63);

#[derive(Debug)]
pub(super) struct History {
    slices: [u64; SLICES],
    /// The number of the latest slice since the start.
    latest: u128,
    total: u64,
}

impl History {
    pub(super) fn new() -> History {
        History { slices: [0; SLICES], latest: 0, total: 0 }
    }

    pub(super) fn add(&mut self, now: Duration, records: u64) {
        let present = slice(now);
        let passed = present.saturating_sub(self.latest).min(SLICES as u128);
        for n in 0..passed {
            self.slices[place(present - n)] = 0;
        }
        self.latest = self.latest.max(present);
        self.slices[place(self.latest)] += records;
        self.total += records;
    }

    /// All that ever came in.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// What has come in since `then`, as if evenly within each slice; what is older than the memory
    /// counts as older than `then`.
    pub(super) fn since(&self, then: Duration, now: Duration) -> f64 {
        let oldest = self.latest.saturating_sub(SLICES as u128 - 1);
        let first = slice(then);
        let whole: u64 = (oldest.max(first + 1)..=self.latest).map(|n| self.slices[place(n)]).sum();
        if first < oldest || first > self.latest {
            return whole as f64;
        }
        let begin = SLICE * u32::try_from(first).unwrap_or(u32::MAX);
        let end = (begin + SLICE).min(now.max(then));
        let part = (end - then).as_secs_f64() / (end - begin).as_secs_f64().max(f64::EPSILON);
        whole as f64 + self.slices[place(first)] as f64 * part
    }
}

fn slice(at: Duration) -> u128 {
    at.as_nanos() / SLICE.as_nanos()
}

fn place(slice: u128) -> usize {
    (slice % SLICES as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn it_knows_what_came_in_since_when() {
        let mut history = History::new();
        for n in 0..200 {
            history.add(ms(10 * n), 1);
        }
        history.add(ms(5000), 40);
        // Now, since when, how many.
        let table = [
            (5100, 0, 240),
            (5100, 1000, 140),
            (5100, 1050, 135),
            (5100, 1999, 40),
            (5100, 4000, 40),
            (5100, 5050, 20),
            (5050, 5000, 40),
            (5050, 5025, 20),
            (5050, 5050, 0),
            (9000, 8000, 0),
        ];
        for (now, then, number) in table {
            let is = history.since(ms(then), ms(now));
            assert!((is - f64::from(number)).abs() < 0.2, "since {then} at {now}: {is}");
        }
        assert_eq!(history.total(), 240);
    }

    #[test]
    fn what_is_older_than_the_memory_is_old() {
        let mut history = History::new();
        history.add(ms(0), 7);
        history.add(SLICE * (SLICES as u32 - 1), 2);
        assert_eq!(history.since(ms(0), ms(63_950)) as u64, 9);
        assert_eq!(history.since(ms(63_950) - REMEMBERS, ms(63_950)) as u64, 2);
        history.add(SLICE * SLICES as u32, 1);
        assert_eq!(history.since(ms(0), ms(64_050)) as u64, 3);
        history.add(ms(3_600_000), 1);
        assert_eq!(history.since(ms(0), ms(3_600_050)) as u64, 1);
        assert_eq!(history.total(), 11);
    }
}
