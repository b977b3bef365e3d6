//! The demand of a stream's clients beyond what was accepted: records that were refused or delayed for overload.
//!
//! The gate's answers are noted by the ingress. A part that holds input back for overload by other means notes that here
//! as well: glue does for tenants whose quota the drain has shrunk below its setting, and for queues that rest while the
//! workers are behind. A quota at its setting is no demand: it refuses by the operator's wish, and no node more would
//! change that.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was refused or delayed for overload, in records since the node started.
#[derive(Debug, Default)]
pub struct OverloadDemand {
    refused: AtomicU64,
    delayed: AtomicU64,
}

impl OverloadDemand {
    /// So many records were refused for overload: the client was told to come again.
    pub fn note_refused(&self, records: u64) {
        self.refused.fetch_add(records, Ordering::Relaxed);
    }

    /// So many records had to wait before they were let in.
    pub fn note_delayed(&self, records: u64) {
        self.delayed.fetch_add(records, Ordering::Relaxed);
    }

    /// Records refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records delayed so far.
    pub fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }
}
