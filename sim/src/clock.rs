//! The store's clock in a run: virtual time as a date.

use std::time::Duration;

use consort_kernel::{Clock, Timestamp};

use crate::handle::Handle;

/// What the clock shows when a run begins: some date, the same in every run.
pub const EPOCH: Timestamp = Timestamp(1_700_000_000_000);

/// Virtual time since [`EPOCH`].
#[derive(Clone, Debug)]
pub struct SimClock {
    handle: Handle,
    ahead: Duration,
}

impl SimClock {
    /// A clock that shows [`EPOCH`] when the run begins.
    pub fn new(handle: Handle) -> Self {
        SimClock { handle, ahead: Duration::ZERO }
    }

    /// The same clock, set ahead.
    pub fn ahead(self, by: Duration) -> Self {
        SimClock { ahead: by, ..self }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        EPOCH.after(self.ahead + self.handle.now())
    }
}
