//! The declaration of a feed, by the part that fills it.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Name;

use crate::payload::Payload;

/// A feed. Subscriptions, sinks and retention come from this declaration alone.
#[derive(Clone, Debug)]
pub struct FeedSpec {
    /// Its path below `/feeds/`: the part and a name, such as `views/per_minute`.
    pub path: String,
    /// Its name in the store.
    pub feed: Name,
    /// The kind of its changes.
    pub payload: Arc<dyn Payload>,
    /// How long changes stay.
    pub retention: Retention,
    /// The names of the sinks that it is delivered to.
    pub sinks: Vec<String>,
}

/// How long changes stay in each shard of a feed, once every sink has them. The bound that is reached first
/// counts. The newest change stays always: a subscriber that has read everything proves by it that it missed
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Changes older than this go.
    pub age: Duration,
    /// The oldest changes go while the others are larger than this, in bytes.
    pub bytes: u64,
}

impl Default for Retention {
    /// A subscriber may be away for a night and a morning, and a feed of 16 shards takes at most 4 GiB.
    fn default() -> Retention {
        Retention { age: Duration::from_secs(24 * 3_600), bytes: 256 << 20 }
    }
}
