//! What went wrong while documents were read, in words for the client.

use std::time::Duration;

use axum::http::StatusCode;
use consort_cluster::SubmitError;
use consort_glue::reading::ReadingError;
use consort_glue::{GlueNameError, Rejection};
use consort_kernel::ReadError;

use crate::ingress::IngressError;
use crate::problem::Problem;

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
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store-failed", detail).retry_after(RETRY_AFTER)
}

/// A name, an id or a number is none.
pub(super) fn bad_name(kind: &'static str, error: &GlueNameError) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, kind, error.to_string())
}

/// A piece is refused for what it is by itself.
pub(super) fn refused(rejection: &Rejection) -> Problem {
    let status = StatusCode::from_u16(rejection.reason.status());
    Problem::new(
        status.unwrap_or(StatusCode::BAD_REQUEST),
        rejection.reason.as_str(),
        &*rejection.detail,
    )
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
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Problem::new(status, "piece-too-large", refusal.to_string());
        }
        SubmitError::Unknown(fault) => (
            "outcome-unknown",
            format!(
                "it is not known whether the piece was stored: {fault}; sent again with the same 'Idempotency-Key', or \
                 the same 'source' and 'seq', it is applied once"
            ),
        ),
        SubmitError::NotStored(reason) => {
            ("not-stored", format!("the piece was not stored: {reason}; send it again"))
        }
    };
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail).retry_after(RETRY_AFTER)
}
