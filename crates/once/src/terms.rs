//! What a caller brings: the terms of a space, and what a computation gives or why it failed.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// The settings of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a computation may be silent before another takes over. A running one renews it.
    pub lease: Duration,
    /// How long a value is fresh, from its publication on. Reading renews nothing.
    pub fresh_for: Duration,
    /// How long after that it is still served, while one refreshes it.
    pub stale_for: Duration,
    /// How long after it was fresh it is served if the computation fails.
    pub stale_if_error: Duration,
    /// How long an error is kept for those who ask later.
    pub errors_for: Duration,
    /// The largest value in bytes; more is a [`FailureKind::TooLarge`].
    pub max_value: usize,
    /// How long a computation may run; a longer one is given up as [`FailureKind::TimedOut`].
    pub compute_for: Duration,
    /// How long one caller waits before it gets [`OnceError::Deadline`](crate::OnceError::Deadline).
    pub wait: Duration,
    /// Whether a value is refreshed somewhat before it ceases to be fresh, at a random moment that comes
    /// the earlier the longer it took to compute.
    pub refresh_early: bool,
    /// What becomes of those who wait for a computation that fails.
    pub on_error: OnError,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            lease: Duration::from_secs(3),
            fresh_for: Duration::from_secs(60),
            stale_for: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            errors_for: Duration::from_secs(1),
            max_value: 1024 * 1024,
            compute_for: Duration::from_secs(60),
            wait: Duration::from_secs(30),
            refresh_early: true,
            on_error: OnError::Keep,
        }
    }
}

/// What becomes of those who wait for a computation that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// All get the error, on every node, and so does everybody who asks within `errors_for`.
    #[default]
    Keep,
    /// Those on the node that computed get the error, and nothing is kept: on every other node that
    /// waits, one tries for itself.
    Reelect,
}

/// What a computation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    /// The answer.
    pub value: Bytes,
    /// What it can be purged by, besides its key. At most [`TAGS`](crate::TAGS).
    pub tags: Vec<String>,
    /// Instead of the terms' `fresh_for`.
    pub fresh_for: Option<Duration>,
    /// Instead of the terms' `stale_for`.
    pub stale_for: Option<Duration>,
    /// Instead of the terms' `stale_if_error`.
    pub stale_if_error: Option<Duration>,
    /// Whether it may be kept. If not, those who wait for it get it, and nobody later.
    pub keep: bool,
}

impl Computed {
    /// A value that is kept by the terms of its space.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Computed {
            value: value.into(),
            tags: Vec::new(),
            fresh_for: None,
            stale_for: None,
            stale_if_error: None,
            keep: true,
        }
    }

    /// The same value with these tags.
    pub fn tagged<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// The same value, only for those who wait for it now.
    pub fn unkept(mut self) -> Self {
        self.keep = false;
        self
    }
}

/// Why a computation failed. It travels to all who wait, on every node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{kind}: {reason}")]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// For the reader; only its first [`REASON_BYTES`](crate::REASON_BYTES) travel.
    pub reason: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Failure { kind, reason: reason.into() }
    }
}

/// What went wrong with a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// It took too long.
    TimedOut,
    /// What it needs could not be reached.
    Unreachable,
    /// What it needs refused, with this status.
    Refused(u16),
    /// The value is larger than the terms allow.
    TooLarge,
    /// What came is not what was expected.
    Malformed,
    /// It panicked.
    Panicked,
    /// Anything else.
    Other,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::TimedOut => f.write_str("timed out"),
            FailureKind::Unreachable => f.write_str("unreachable"),
            FailureKind::Refused(status) => write!(f, "refused with status {status}"),
            FailureKind::TooLarge => f.write_str("too large"),
            FailureKind::Malformed => f.write_str("malformed"),
            FailureKind::Panicked => f.write_str("panicked"),
            FailureKind::Other => f.write_str("failed"),
        }
    }
}
