//! Setbacks: why a worker has to load again.

use consort_kernel::{CommitError, Fault, QueryError, ReadError, Refusal};

use super::stand::Position;

/// Why a worker has to load again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setback {
    /// Another owner moved on.
    Stale,
    /// Nothing is wrong; it is time to look.
    Due,
    /// No commit holds a step.
    Oversized(Refusal),
    /// A record before this place cannot be applied: each is planned alone.
    Doubted(Position),
    /// The engine did not do it, or did not say whether it did.
    Fault(Fault),
    /// Data was lost, or cannot be understood: an operator must decide.
    Loss(String),
}

impl From<CommitError> for Setback {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Stale(_) => Setback::Stale,
            CommitError::Unknown(fault) | CommitError::Engine(fault) => Setback::Fault(fault),
            CommitError::Refused(refusal) => Setback::Oversized(refusal),
        }
    }
}

impl From<QueryError> for Setback {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Engine(fault) => Setback::Fault(fault),
            QueryError::Refused(refusal) => Setback::refused(&refusal),
        }
    }
}

impl From<ReadError> for Setback {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(fault) => Setback::Fault(fault),
            ReadError::Refused(refusal) => Setback::refused(&refusal),
            lost @ (ReadError::Lost { .. }
            | ReadError::Trimmed { .. }
            | ReadError::Corrupt { .. }) => Setback::Loss(lost.to_string()),
        }
    }
}

impl Setback {
    fn refused(refusal: &Refusal) -> Self {
        Setback::Loss(Setback::too_much(refusal))
    }

    pub(super) fn too_much(refusal: &Refusal) -> String {
        format!("a record does more than a commit can hold: {refusal}")
    }
}
