//! What a caller gets: an answer, or why there is none.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{CommitError, Fault, QueryError};

use crate::fence::Generation;
use crate::terms::Failure;

/// A value, and all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The value.
    pub value: Bytes,
    /// Which computation made it.
    pub generation: Generation,
    /// How long ago it was published.
    pub age: Duration,
    /// How long it will still be fresh; nothing if it is stale.
    pub fresh_left: Duration,
    /// How long it may still be served.
    pub usable_left: Duration,
    /// Whether it is no longer fresh.
    pub stale: bool,
    /// Where it came from.
    pub source: Source,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// This request started the computation.
    Computed,
    /// It waited for a computation that another request started, here or on another node.
    Joined,
    /// This node's cache.
    Node,
    /// It was there already, in the store.
    Store,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnceError {
    /// The computation failed, this time or within `errors_for`.
    #[error("the computation failed: {failure}")]
    Failed {
        /// Why.
        failure: Failure,
        /// When a new computation may be tried.
        retry_after: Duration,
    },
    /// No answer came within the terms' `wait`. The computation goes on.
    #[error("no answer came in time; the computation goes on: ask again")]
    Deadline,
    /// Too many wait already, for this key or in all.
    #[error("too many requests wait already: ask again later")]
    Crowded,
    /// That generation is not there any more.
    #[error("that generation is not there any more: ask without it for the one there is")]
    Gone,
    /// The store could not be asked, or did not take the change. Nothing was computed in its stead.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// What it said.
        reason: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
}

impl OnceError {
    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            OnceError::Failed { .. } | OnceError::Deadline | OnceError::Crowded => true,
            OnceError::Gone => false,
            OnceError::Unavailable { retryable, .. } => *retryable,
        }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        OnceError::Unavailable { reason: reason.into(), retryable: true }
    }
}

impl From<Fault> for OnceError {
    fn from(fault: Fault) -> Self {
        OnceError::Unavailable { reason: fault.to_string(), retryable: fault.retryable() }
    }
}

impl From<QueryError> for OnceError {
    fn from(error: QueryError) -> Self {
        let retryable = matches!(&error, QueryError::Engine(fault) if fault.retryable());
        OnceError::Unavailable { reason: error.to_string(), retryable }
    }
}

impl From<CommitError> for OnceError {
    fn from(error: CommitError) -> Self {
        let retryable = match &error {
            CommitError::Refused(_) => false,
            CommitError::Stale(_) => true,
            CommitError::Unknown(fault) | CommitError::Engine(fault) => fault.retryable(),
        };
        OnceError::Unavailable { reason: error.to_string(), retryable }
    }
}
