//! What is answered when a piece was stored, applied or rejected.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_cluster::Place;
use consort_glue::stored::{DocumentHead, OutcomeEntry, PieceOutcome};
use consort_glue::{DocumentTag, Reason};
use consort_views::text_of;
use serde_json::{Value, json};

use super::REPEAT;
use super::conditions::quoted;
use super::faults::problem_kind;
use crate::problem::Problem;
use crate::problems;
use crate::streams::answers::tell_position;

/// The piece is in the log.
pub(super) fn accepted(place: &Place) -> Response {
    let mut response = body(StatusCode::ACCEPTED, &json!({ "state": "accepted" }));
    tell_position(response.headers_mut(), &text_of(place));
    response
}

/// The piece was applied or rejected, or it waits. A dry run has no place in the log.
pub(super) fn settled(id: &str, entry: &OutcomeEntry, place: Option<&Place>) -> Response {
    let mut response = match &entry.outcome {
        PieceOutcome::Applied(tag) => applied(id, *tag),
        PieceOutcome::Unchanged => StatusCode::NO_CONTENT.into_response(),
        PieceOutcome::Rejected { .. } => rejected(&entry.outcome).into_response(),
        PieceOutcome::Held(missing) => {
            body(StatusCode::ACCEPTED, &json!({ "state": "held", "missing": missing }))
        }
        PieceOutcome::Queued => queued().into_response(),
        PieceOutcome::Repeat => body(StatusCode::OK, &json!({ "state": "repeat" })),
        PieceOutcome::Discarded => body(StatusCode::OK, &json!({ "state": "discarded" })),
    };
    let headers = response.headers_mut();
    if entry.repeat || entry.outcome == PieceOutcome::Repeat {
        headers.insert(REPEAT, HeaderValue::from_static("true"));
    }
    if let Some(place) = place {
        tell_position(headers, &text_of(place));
    }
    response
}

fn applied(id: &str, tag: DocumentTag) -> Response {
    let DocumentTag { life, version } = tag;
    let text = json!({ "state": "applied", "id": id, "life": life, "version": version });
    let mut response = body(StatusCode::OK, &text);
    if let Ok(tag) = HeaderValue::try_from(quoted(tag)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A rejection, with the place of the piece and the version that it met.
pub(super) fn rejected(outcome: &PieceOutcome) -> Problem {
    let PieceOutcome::Rejected { reason, detail, place, version, current } = outcome else {
        return queued();
    };
    let detail = match detail.is_empty() {
        true => told(*reason),
        false => detail.clone(),
    };
    let problem = Problem::new(problem_kind(*reason), detail)
        .with("place", place.to_string())
        .with("version", *version);
    match current {
        Some((source, seq)) => problem.with("source", source.clone()).with("seq", *seq),
        None => problem,
    }
}

/// The condition of a piece names an earlier version of the present life.
pub(super) fn outdated(head: &DocumentHead, given: DocumentTag) -> Problem {
    let detail = format!(
        "the document is at version {}, and the condition names version {}; read it and decide again",
        head.version, given.version
    );
    let problem = Problem::new(problems::CONDITION_FAILED, detail).with("version", head.version);
    match head.current_source() {
        Some((source, seq)) => problem.with("source", source).with("seq", seq),
        None => problem,
    }
}

fn queued() -> Problem {
    let detail = "the piece is stored, and waits behind a halted document: it is applied when the piece that halted it \
                  was retried or discarded";
    Problem::new(problems::QUEUED, detail)
}

/// Only the reason is remembered of an earlier rejection.
fn told(reason: Reason) -> String {
    format!(
        "the piece was rejected before, for the reason '{reason}'; its detail is no longer remembered"
    )
}

/// An answer in JSON.
pub(super) fn body(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use consort_glue::PiecePlace;
    use consort_glue::stored::OutcomeKey;

    use super::*;

    fn place() -> PiecePlace {
        PiecePlace { partition: 3, era: 0, offset: 41872, record: 5 }
    }

    fn answer(outcome: PieceOutcome, repeat: bool) -> Response {
        let key = OutcomeKey { partition: 3, producer: 1, sequence: 2, record: 5 };
        settled("crid://a/1", &OutcomeEntry { key, place: place(), repeat, outcome }, None)
    }

    #[test]
    fn each_outcome_has_its_status() {
        let rejected = |reason| PieceOutcome::Rejected {
            reason,
            detail: String::new(),
            place: place(),
            version: 7,
            current: None,
        };
        let tag = DocumentTag { life: place(), version: 7 };
        for (outcome, status) in [
            (PieceOutcome::Applied(tag), 200),
            (PieceOutcome::Unchanged, 204),
            (PieceOutcome::Held(vec![3]), 202),
            (PieceOutcome::Queued, 423),
            (PieceOutcome::Repeat, 200),
            (PieceOutcome::Discarded, 200),
            (rejected(Reason::NO_DOCUMENT), 404),
            (rejected(Reason::MISSING_PATH), 409),
            (rejected(Reason::DELETED), 410),
            (rejected(Reason::CONDITION_FAILED), 412),
            (rejected(Reason::TOO_LARGE), 422),
            (rejected(Reason::HALTED), 423),
        ] {
            assert_eq!(answer(outcome.clone(), false).status(), status, "{outcome:?}");
        }
    }

    #[test]
    fn a_repeat_says_so_and_an_applied_piece_has_an_etag() {
        let tag = DocumentTag { life: place(), version: 7 };
        let first = answer(PieceOutcome::Applied(tag), false);
        assert_eq!(first.headers()[header::ETAG], "\"3-0-41872-5.7\"");
        assert!(!first.headers().contains_key(REPEAT));
        assert_eq!(answer(PieceOutcome::Applied(tag), true).headers()[REPEAT], "true");
        assert_eq!(answer(PieceOutcome::Repeat, false).headers()[REPEAT], "true");
    }
}
