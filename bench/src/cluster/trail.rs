//! When frames of each partition were applied: a second witness of pauses, which knows nothing of leases.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The trail of every partition, since it was last cleared.
#[derive(Debug)]
pub(super) struct Trail(Mutex<Vec<Steps>>);

#[derive(Clone, Copy, Debug)]
struct Steps {
    last: Instant,
    longest: Duration,
}

impl Trail {
    /// For so many partitions.
    pub(super) fn new(partitions: usize) -> Self {
        let steps = Steps { last: Instant::now(), longest: Duration::ZERO };
        Trail(Mutex::new(vec![steps; partitions]))
    }

    /// Something of this partition is applied now.
    pub(super) fn step(&self, partition: u32) {
        self.0.lock()[partition as usize].step();
    }

    /// Forgets all gaps but the one that goes on in each partition.
    pub(super) fn clear(&self) {
        self.0.lock().iter_mut().for_each(|steps| steps.longest = Duration::ZERO);
    }

    /// The longest time in which nothing of a partition was applied, for each partition.
    pub(super) fn gaps(&self) -> Vec<Duration> {
        // A gap that still goes on is one as well.
        self.0.lock().iter().map(|steps| steps.longest.max(steps.last.elapsed())).collect()
    }
}

impl Steps {
    fn step(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}
