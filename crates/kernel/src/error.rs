//! What can go wrong, by operation: each variant is an outcome that a caller acts on.

use crate::commit::Value;
use crate::cursor::Cursor;
use crate::digest::Digest;
use crate::name::Name;

/// The engine's own failure: nothing was changed by the call that got it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Passing: out of reach, restarting, full, overloaded. The same call may succeed later.
    #[error("{0}")]
    Retryable(String),
    /// Final for this process: damaged or poisoned storage, access denied, another format.
    #[error("{0}")]
    Fatal(String),
}

impl Fault {
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Fault::Retryable(_))
    }
}

/// A call that breaks a bound of the contract. It is the caller's mistake, the same on every engine, and
/// nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Something is larger than [`limits`](crate::limits) allow.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What it is, and its unit.
        what: &'static str,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The store has fewer shards.
    #[error("there is no shard {shard}: this store has {shards}")]
    NoSuchShard {
        /// The shard asked for.
        shard: u16,
        /// How many there are.
        shards: u16,
    },
}

/// How an append can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The frame breaks a bound; nothing was appended.
    #[error("append refused: {0}")]
    Refused(#[from] Refusal),
    /// The frame may or may not be in the log. Append the same frame again before any other of its
    /// producer and partition: a repeat is harmless, a gap is not.
    #[error("append has an unknown outcome: {0}")]
    Unknown(Fault),
    /// Nothing was appended.
    #[error("append failed: {0}")]
    Engine(Fault),
}

/// How a commit can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The commit breaks a bound; nothing was changed.
    #[error("commit refused: {0}")]
    Refused(#[from] Refusal),
    /// An expectation does not hold; nothing was changed. What is there now, one for each expectation
    /// in the commit's order.
    #[error("commit is stale: an expected cell holds something else")]
    Stale(Vec<Option<Value>>),
    /// All of it was applied, or still will be, or nothing. A read cannot tell: one that finds nothing
    /// may come before a late application. Repeat the identical commit until the answer is ok or
    /// [`Stale`](CommitError::Stale); that is safe if the commit changes a cell that it expects. Until
    /// then no other failure of a repeat settles the outcome.
    #[error("commit has an unknown outcome: {0}")]
    Unknown(Fault),
    /// Nothing was changed.
    #[error("commit failed: {0}")]
    Engine(Fault),
}

/// How reading a log or a feed can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Entries that the cursor has not seen are gone: the oldest there is, is `first`.
    #[error("entries before {first} are gone, but the reader stands at {}", .cursor.next)]
    Trimmed {
        /// Where the reader stands.
        cursor: Cursor,
        /// The oldest entry that can still be read.
        first: u64,
    },
    /// The entry that the cursor vouches for is gone, or another stands in its place: the engine lost
    /// the end of what it had acknowledged.
    #[error("entry {number} was read as {expected}, and now {}",
        .found.map_or("there is none".to_string(), |d| format!("{d} stands there")))]
    Lost {
        /// The entry's number.
        number: u64,
        /// Its digest as the cursor has it.
        expected: Digest,
        /// The digest of what stands there now.
        found: Option<Digest>,
    },
    /// The stored entry does not match its checksum, or is of an unknown format.
    #[error("entry {number} of {place} is damaged: {reason}")]
    Corrupt {
        /// The stream and partition, or the shard and feed.
        place: String,
        /// The entry's number.
        number: u64,
        /// What does not fit.
        reason: String,
    },
    /// The call breaks a bound.
    #[error("read refused: {0}")]
    Refused(#[from] Refusal),
    /// The engine's own failure.
    #[error("read failed: {0}")]
    Engine(#[from] Fault),
}

impl ReadError {
    /// The error for a damaged entry of `feed` in `shard`.
    pub fn corrupt_feed(shard: u16, feed: &Name, number: u64, reason: impl Into<String>) -> Self {
        ReadError::Corrupt {
            place: format!("feed {feed} of shard {shard}"),
            number,
            reason: reason.into(),
        }
    }
}

/// How reading cells can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The call breaks a bound.
    #[error("query refused: {0}")]
    Refused(#[from] Refusal),
    /// The engine's own failure.
    #[error("query failed: {0}")]
    Engine(#[from] Fault),
}
