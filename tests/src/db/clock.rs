//! The clock of a trial: monotonic, and the same for all clients.

use tokio::time::Instant;

use crate::lin::history::CallSpan;

/// Counts nanoseconds from the start of the trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialClock(Instant);

impl TrialClock {
    /// Begins at 0 now.
    pub fn start() -> TrialClock {
        TrialClock(Instant::now())
    }

    /// The time since the start, in nanoseconds.
    pub fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A call that began then and has its answer now.
    pub fn ended(self, began: u64) -> CallSpan {
        CallSpan { began, ended: Some(self.now()) }
    }
}
