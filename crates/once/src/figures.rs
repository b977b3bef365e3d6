//! What a handle counted, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened since the start, as it stands at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
            /// Requests that wait now.
            pub waiting: u64,
            /// Flights now: keys that this node computes, waits for or refreshes.
            pub flights: u64,
            /// Values in this node's cache.
            pub cached: u64,
            /// Bytes of them.
            pub cached_bytes: u64,
        }

        #[derive(Debug, Default)]
        pub(crate) struct Tallies {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Tallies {
            /// What was counted; the gauges are left at 0.
            pub(crate) fn figures(&self) -> Figures {
                Figures {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    ..Figures::default()
                }
            }
        }
    };
}

figures! {
    /// Answers from this node's cache.
    from_node,
    /// Answers that were in the store already.
    from_store,
    /// Answers that a request waited for, while another computed.
    joined,
    /// Computations that this node started, refreshes among them.
    computations,
    /// Computations that replaced a value that was still there.
    refreshes,
    /// Those of them that began while the value was fresh.
    early_refreshes,
    /// Computations that failed.
    failures,
    /// Computations that were begun because their holder's lease had lapsed.
    takeovers,
    /// Computations that ended too late, or were purged meanwhile, and were not published.
    refused,
    /// Answers that were no longer fresh.
    stale,
    /// Requests turned away because too many waited.
    crowded,
    /// Requests that were not answered in time.
    deadlines,
    /// Requests that got an error of the store.
    unavailable,
    /// Keys purged by this node.
    purged,
    /// How often the cache was emptied because purges may have gone unheard.
    interruptions,
    /// Values that were not cached because a purge came while they were read.
    fills_discarded,
}

/// Counts one.
pub(crate) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}
