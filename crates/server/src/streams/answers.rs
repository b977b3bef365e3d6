//! What the door of the streams answers.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_cluster::{NotStored, Place, SubmitError};
use consort_views::{Position, text_of};
use serde::Serialize;
use std::time::Duration;

use crate::gate::Refused;
use crate::ingress::{BulkFailure, BulkOutcome, ClaimError, IngressError};
use crate::problem::{Problem, shortened};
use crate::problems::{self, ProblemKind};

/// Where an answer says what a query can wait for.
pub(crate) const POSITION: HeaderName = HeaderName::from_static("consort-position");

/// Longer positions stand in the body alone: many clients take heads of 8 KiB.
const POSITION_MOST: usize = 4 * 1024;

/// How many rejections are listed; all are counted.
const LISTED_MOST: usize = 100;

/// How much of a reason is listed. A field's name may be as long as an event, and a hundred of them are kept.
const REASON_MOST: usize = 2 * 1024;

/// When a client whose event could not be appended should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One event was accepted.
pub(super) fn accepted(place: &Place) -> Response {
    let mut response = Response::new(Body::from("{\"accepted\":1}"));
    *response.status_mut() = StatusCode::CREATED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(position) = HeaderValue::try_from(text_of(place)) {
        headers.insert(POSITION, position);
    }
    response
}

/// One event could not be appended, or not for certain.
pub(super) fn failed(error: IngressError) -> Problem {
    match error {
        IngressError::Overloaded(refused) => overloaded(refused),
        IngressError::Key(error) => key_not_claimed(&error),
        IngressError::Append(error) => not_appended(&error),
    }
}

/// The gate did not let the request in.
fn overloaded(refused: Refused) -> Problem {
    Problem::new(problems::OVERLOADED, refused.to_string()).retry_after(refused.retry_after)
}

/// The event's key belongs to another event, or may belong to this one now.
fn key_not_claimed(error: &ClaimError) -> Problem {
    match error {
        ClaimError::Reused => Problem::new(
            problems::KEY_REUSED,
            format!("{error}; this event was not stored: send it with a key of its own"),
        ),
        ClaimError::Unsettled(_) => Problem::new(
            problems::NOT_STORED,
            format!(
                "the event was not stored: {error}; send it again with the same 'Idempotency-Key'"
            ),
        )
        .retry_after(RETRY_AFTER),
    }
}

/// A valid event could not be appended, or not for certain.
fn not_appended(error: &SubmitError) -> Problem {
    match error {
        SubmitError::Refused(refusal) => {
            Problem::new(problems::EVENT_TOO_LARGE, refusal.to_string())
        }
        SubmitError::Unknown(fault) => Problem::new(
            problems::OUTCOME_UNKNOWN,
            format!(
                "it is not known whether the event was stored: {fault}; sent again with the same \
                 'Idempotency-Key' or id it counts once"
            ),
        )
        .retry_after(RETRY_AFTER),
        SubmitError::NotStored(reason) => Problem::new(
            problems::NOT_STORED,
            format!("the event was not stored: {}; send it again", told(reason)),
        )
        .retry_after(RETRY_AFTER),
    }
}

fn told(reason: &NotStored) -> String {
    match reason {
        NotStored::Late => "the log was too slow for it to be stored in time".to_owned(),
        other => other.to_string(),
    }
}

/// The answer to several events, while it is being made.
#[derive(Debug)]
pub(super) struct Bulk {
    /// What one of them is called: a line, or an event of a list.
    unit: &'static str,
    /// How many were begun.
    seen: u64,
    rejected: u64,
    listed: Vec<(u64, String)>,
}

/// What became of the good ones.
#[derive(Debug, Default)]
pub(super) struct Appended {
    pub(super) accepted: u64,
    pub(super) places: Vec<Place>,
    /// Why not all of them were, and how many may or may not be there.
    pub(super) failure: Option<Problem>,
}

#[derive(Serialize)]
struct Answer<'a> {
    accepted: u64,
    rejected: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejections: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "str::is_empty")]
    position: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<BulkOutcome> for Appended {
    fn from(outcome: BulkOutcome) -> Self {
        let failure = outcome.failure.map(|failure| match failure {
            BulkFailure::Overloaded(refused) => overloaded(refused),
            BulkFailure::Append(error) => not_appended(&error),
        });
        Appended { accepted: outcome.stored, places: outcome.places, failure }
    }
}

impl Appended {
    /// Behind all that was stored.
    pub(super) fn position(&self) -> String {
        Position::of(self.places.iter().cloned()).to_string()
    }
}

/// Says a position in a head, if it is not too long for one.
pub(super) fn tell_position(headers: &mut HeaderMap, position: &str) {
    if !position.is_empty()
        && position.len() <= POSITION_MOST
        && let Ok(position) = HeaderValue::try_from(position)
    {
        headers.insert(POSITION, position);
    }
}

impl Bulk {
    pub(super) fn new(unit: &'static str) -> Bulk {
        Bulk { unit, seen: 0, rejected: 0, listed: Vec::new() }
    }

    /// The next one, numbered from 1.
    pub(super) fn begin(&mut self) {
        self.seen += 1;
    }

    /// The one begun last is not taken. The reason is written only if it is listed: the millionth costs nothing.
    pub(super) fn reject(&mut self, reason: impl FnOnce() -> String) {
        self.rejected += 1;
        if self.lists_more() {
            self.listed.push((self.seen, shortened(reason(), REASON_MOST)));
        }
    }

    /// Whether the next rejection is listed with its reason.
    pub(super) fn lists_more(&self) -> bool {
        self.listed.len() < LISTED_MOST
    }

    /// So many numbers belong to the one begun last as well: a text in it had line breaks.
    pub(super) fn pass(&mut self, more: u64) {
        self.seen += more;
    }

    /// How many were not taken.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// The number of the first that was not taken, and why.
    pub(super) fn first_rejection(&self) -> Option<&(u64, String)> {
        self.listed.first()
    }

    /// 201 if any was accepted and all the good ones are stored; 400 if none was good; else what failed.
    pub(super) fn answer(self, appended: Appended) -> Response {
        let position = appended.position();
        let Appended { accepted, failure, .. } = appended;
        let (status, kind, detail) = match &failure {
            Some(problem) => {
                let detail =
                    format!("{} of the events were stored; then: {}", accepted, problem.detail());
                (problem.status(), Some(problems::NOT_ALL_STORED), Some(detail))
            }
            None if accepted == 0 && self.rejected > 0 => {
                let detail = format!("none of the {}s is a valid event", self.unit);
                (StatusCode::BAD_REQUEST, Some(problems::INVALID_EVENT), Some(detail))
            }
            None => (StatusCode::CREATED, None, None),
        };
        let rejection =
            |(at, reason): &(u64, String)| serde_json::json!({self.unit: at, "reason": reason});
        let answer = Answer {
            accepted,
            rejected: self.rejected,
            rejections: self.listed.iter().map(rejection).collect(),
            position: &position,
            r#type: kind.map(ProblemKind::urn),
            title: kind.and(status.canonical_reason()),
            status: kind.map(|_| status.as_u16()),
            detail,
        };
        let media_type = match kind {
            Some(_) => "application/problem+json",
            None => "application/json",
        };
        let body = serde_json::to_vec(&answer).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        tell_position(headers, &position);
        if failure.is_some_and(|problem| problem.status() == StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_written_only_where_they_are_listed_and_cut_where_they_are_long() {
        let (mut bulk, mut written) = (Bulk::new("event"), 0);
        for _ in 0..10_000 {
            bulk.begin();
            bulk.reject(|| {
                written += 1;
                "é".repeat(REASON_MOST)
            });
        }
        assert_eq!((bulk.rejected(), written), (10_000, LISTED_MOST));
        let (at, reason) = bulk.first_rejection().unwrap();
        assert_eq!(*at, 1);
        assert!(reason.ends_with("é…") && reason.len() <= REASON_MOST + '…'.len_utf8());
    }
}
