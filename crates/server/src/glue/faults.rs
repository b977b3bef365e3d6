//! What went wrong while documents were read, in words for the client.

use std::time::Duration;

use consort_cluster::SubmitError;
use consort_glue::reading::ReadingError;
use consort_glue::{GlueNameError, Reason, Rejection};
use consort_kernel::ReadError;

use crate::ingress::IngressError;
use crate::problem::Problem;
use crate::problems::{self, ProblemKind};

/// When a client that could not be answered should ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A document or a list could not be read.
pub(super) fn unread(error: &ReadingError) -> Problem {
    store_failed(format!("it could not be read: {error}"))
}

pub(super) fn feed_unread(error: &ReadError) -> Problem {
    store_failed(format!("the feed could not be read: {error}"))
}

pub(super) fn store_failed(what: impl std::fmt::Display) -> Problem {
    let detail = format!("{what}; ask again");
    Problem::new(problems::STORE_FAILED, detail).retry_after(RETRY_AFTER)
}

/// A name, an id or a number is none.
pub(super) fn bad_name(kind: &'static ProblemKind, error: &GlueNameError) -> Problem {
    Problem::new(kind, error.to_string())
}

/// A piece is refused for what it is by itself.
pub(super) fn refused(rejection: &Rejection) -> Problem {
    Problem::new(problem_kind(rejection.reason), &*rejection.detail)
}

/// The problem of a reason: both have the same name and status.
pub(super) fn problem_kind(reason: Reason) -> &'static ProblemKind {
    // A test compares the lists, so each reason is found.
    problems::find(reason.as_str()).unwrap_or(problems::DEFECT)
}

/// A piece could not be appended, or not for certain.
pub(super) fn not_appended(error: IngressError) -> Problem {
    match error {
        IngressError::Append(error) => not_stored(&error),
        other => crate::streams::answers::failed(other),
    }
}

/// The log did not take a piece, or not for certain.
pub(super) fn not_stored(error: &SubmitError) -> Problem {
    let (kind, detail) = match error {
        SubmitError::Refused(refusal) => {
            return Problem::new(problems::PIECE_TOO_LARGE, refusal.to_string());
        }
        SubmitError::Unknown(fault) => (
            problems::OUTCOME_UNKNOWN,
            format!(
                "it is not known whether the piece was stored: {fault}; sent again with the same 'Idempotency-Key', or \
                 the same 'source' and 'seq', it is applied once"
            ),
        ),
        SubmitError::NotStored(reason) => {
            (problems::NOT_STORED, format!("the piece was not stored: {reason}; send it again"))
        }
    };
    Problem::new(kind, detail).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_problem_of_its_name_and_status() {
        for reason in Reason::ALL {
            let kind = problem_kind(*reason);
            let status = kind.status.as_u16();
            assert_eq!((kind.name, status), (reason.as_str(), reason.status()));
        }
    }
}
