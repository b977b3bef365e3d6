//! The answer to a bulk request: how many pieces were stored, which lines were refused, and which of the others are not
//! stored, or not for certain.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_views::Position;
use serde::Serialize;

use super::bulk_line::RefusedLine;
use super::line_ranges::LineRanges;
use super::piece_sender::SentPieces;
use crate::problem::Problem;
use crate::problems;
use crate::streams::answers::tell_position;

/// How many refused lines are listed; all are counted.
const LISTED_MOST: usize = 100;

/// How much of a detail is listed.
const DETAIL_MOST: usize = 1024;

/// An answer that is being made.
#[derive(Debug, Default)]
pub(super) struct BulkAnswer {
    rejected: u64,
    listed: Vec<RejectedLine>,
}

#[derive(Debug, Serialize)]
struct RejectedLine {
    line: u64,
    reason: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct Body<'a> {
    accepted: u64,
    rejected: u64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rejections: &'a [RejectedLine],
    #[serde(skip_serializing_if = "LineRanges::is_empty")]
    not_stored: &'a LineRanges,
    #[serde(skip_serializing_if = "LineRanges::is_empty")]
    unknown: &'a LineRanges,
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

impl BulkAnswer {
    /// A line is no piece.
    pub(super) fn reject(&mut self, line: u64, refused: RefusedLine) {
        self.rejected += 1;
        if self.listed.len() < LISTED_MOST {
            let RefusedLine { reason, mut detail } = refused;
            if detail.len() > DETAIL_MOST {
                detail.truncate(detail.floor_char_boundary(DETAIL_MOST));
                detail.push('…');
                detail.shrink_to_fit();
            }
            self.listed.push(RejectedLine { line, reason, detail });
        }
    }

    /// 202 if all good lines are stored; 400 if none was good; else the failure.
    pub(super) fn finish(self, sent: SentPieces) -> Response {
        let SentPieces { stored, places, failure, not_stored, unknown } = sent;
        let position = Position::of(places).to_string();
        let problem = match failure {
            Some(failure) => Some(failure),
            None if stored == 0 && self.rejected > 0 => Some(no_piece()),
            None => None,
        };
        let status = problem.as_ref().map_or(StatusCode::ACCEPTED, Problem::status);
        let body = Body {
            accepted: stored,
            rejected: self.rejected,
            rejections: &self.listed,
            not_stored: &not_stored,
            unknown: &unknown,
            position: &position,
            r#type: problem.as_ref().map(|problem| problem.kind().urn()),
            title: problem.as_ref().and(status.canonical_reason()),
            status: problem.as_ref().map(|_| status.as_u16()),
            detail: problem.as_ref().map(|problem| told(problem, stored)),
        };
        let media_type = match problem {
            Some(_) => "application/problem+json",
            None => "application/json",
        };
        let mut response = (status, serde_json::to_vec(&body).unwrap_or_default()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        tell_position(headers, &position);
        if let Some(seconds) = problem.as_ref().and_then(Problem::retry_after_seconds) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn told(problem: &Problem, stored: u64) -> String {
    match problem.status() {
        StatusCode::BAD_REQUEST if stored == 0 => problem.detail().to_owned(),
        _ => format!("{stored} of the pieces were stored; then: {}", problem.detail()),
    }
}

fn no_piece() -> Problem {
    let detail =
        "none of the lines is a piece; 'rejections' names the first of them with their reasons";
    Problem::new(problems::NO_PIECE, detail)
}
