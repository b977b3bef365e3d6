//! What clients of InfluxDB ask for: `/write` and `/ping` of version 1, `/api/v2/write` of version 2, answered in
//! their words. A database or bucket is a stream of lines.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_line::Precision;
use serde_json::json;

use super::answers::{self, Appended, Bulk};
use super::reader;
use super::{Entrance, Streams};
use crate::problem::Problem;

/// What `/ping` says that it is: agents look at it to see what they may ask.
const VERSION: &str = "1.8-consort";

/// How much of a name or reason an answer repeats.
const SHOWN: usize = 200;

/// The longest form with a query. That of an agent has some dozens of bytes.
const FORM_MOST: usize = 64 * 1024;

/// Whose words an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// `POST /write?db=STREAM&precision=…`
pub(super) async fn write_v1(
    State(streams): State<Streams>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    write(Version::One, &streams, query.as_deref().unwrap_or_default(), request).await
}

/// `POST /api/v2/write?bucket=STREAM&precision=…`
pub(super) async fn write_v2(
    State(streams): State<Streams>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    write(Version::Two, &streams, query.as_deref().unwrap_or_default(), request).await
}

/// `GET` and `HEAD /ping`: the node is there.
pub(super) async fn ping() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert("x-influxdb-version", HeaderValue::from_static(VERSION));
    response
}

/// `POST /query?q=CREATE DATABASE …`: agents ask for their database before they write, and go on when that is no
/// error. Whether there is such a stream they hear from the write.
pub(super) async fn query(RawQuery(query): RawQuery, request: Request) -> Response {
    let mut asked = parameter(query.as_deref().unwrap_or_default(), "q");
    if asked.is_none() {
        // A form, as agents send it.
        let body = axum::body::to_bytes(request.into_body(), FORM_MOST).await.unwrap_or_default();
        asked = parameter(&String::from_utf8_lossy(&body), "q");
    }
    let words = asked.unwrap_or_default().to_ascii_uppercase();
    if words.split_ascii_whitespace().take(2).eq(["CREATE", "DATABASE"]) {
        return Json(json!({"results": [{"statement_id": 0}]})).into_response();
    }
    let reason = "queries are not taken here but at GET /views/{view}; of InfluxQL only CREATE DATABASE is answered";
    refuse(Version::One, StatusCode::BAD_REQUEST, reason.into())
}

async fn write(version: Version, streams: &Streams, query: &str, request: Request) -> Response {
    let (entrance, precision) = match aim(version, streams, query) {
        Ok(aim) => aim,
        Err((status, reason)) => return refuse(version, status, reason),
    };
    let (head, body) = request.into_parts();
    match reader::points(entrance, &head, body, precision).await {
        Ok((bulk, appended)) => answer(version, &bulk, appended),
        Err(problem) => in_words(version, &problem),
    }
}

/// Where a request writes, and in which unit its times are.
fn aim<'a>(
    version: Version,
    streams: &'a Streams,
    query: &str,
) -> Result<(&'a Arc<Entrance>, Precision), (StatusCode, String)> {
    let name = match version {
        Version::One => parameter(query, "db").unwrap_or_default(),
        Version::Two => parameter(query, "bucket").unwrap_or_default(),
    };
    let precision = precision(query).map_err(|reason| (StatusCode::BAD_REQUEST, reason))?;
    // The bucket of a retention policy is that of its database.
    let found = streams.entrances().get(&name).or_else(|| {
        let (database, _) = name.split_once('/').filter(|_| version == Version::Two)?;
        streams.entrances().get(database)
    });
    let shown: String = name.chars().take(SHOWN).collect();
    let Some(entrance) = found else {
        return Err(match version {
            Version::One if name.is_empty() => {
                (StatusCode::BAD_REQUEST, "database is required".into())
            }
            Version::One => (StatusCode::NOT_FOUND, format!("database not found: {shown:?}")),
            Version::Two => (StatusCode::NOT_FOUND, format!("bucket {shown:?} not found")),
        });
    };
    if !entrance.stream.schema.form().is_line() {
        let reason = format!(
            "the stream {shown:?} takes JSON at /streams/{shown}; only streams with form = \"line\" take lines"
        );
        return Err((StatusCode::BAD_REQUEST, reason));
    }
    Ok((entrance, precision))
}

/// The unit that a request's `precision` names, or nanoseconds.
pub(super) fn precision(query: &str) -> Result<Precision, String> {
    match parameter(query, "precision").filter(|given| !given.is_empty()) {
        Some(given) => {
            given.parse().map_err(|unknown: consort_line::UnknownPrecision| unknown.to_string())
        }
        None => Ok(Precision::default()),
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut all = form_urlencoded::parse(query.as_bytes());
    all.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
}

/// 204 if every line was taken; 400 with the number of those that were not, the others being stored.
fn answer(version: Version, bulk: &Bulk, appended: Appended) -> Response {
    if let Some(problem) = &appended.failure {
        let stored = match appended.accepted {
            0 => String::new(),
            lines => format!("{lines} of the lines were stored; then: "),
        };
        return told(version, problem, &stored);
    }
    let mut response = match bulk.first_rejection() {
        None => StatusCode::NO_CONTENT.into_response(),
        Some((line, reason)) => {
            let reason: String = reason.chars().take(SHOWN).collect();
            let partial = if appended.accepted > 0 { "partial write: " } else { "" };
            let dropped = bulk.rejected();
            let reason = format!("{partial}line {line}: {reason} dropped={dropped}");
            refuse(version, StatusCode::BAD_REQUEST, reason)
        }
    };
    answers::tell_position(response.headers_mut(), &appended.position());
    response
}

/// A problem in the words of the client's version.
fn in_words(version: Version, problem: &Problem) -> Response {
    told(version, problem, "")
}

/// The same, behind what was done `before`.
fn told(version: Version, problem: &Problem, before: &str) -> Response {
    let mut response = refuse(version, problem.status(), format!("{before}{}", problem.detail()));
    if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
        let after = problem.retry_after_seconds().unwrap_or(1);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    response
}

fn refuse(version: Version, status: StatusCode, reason: String) -> Response {
    let body = match version {
        Version::One => json!({"error": reason}),
        Version::Two => json!({"code": code(status), "message": reason}),
    };
    let mut response = (status, Json(body)).into_response();
    if version == Version::One
        && let Ok(reason) = HeaderValue::try_from(reason)
    {
        response.headers_mut().insert("x-influxdb-error", reason);
    }
    response
}

fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not found",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported media type",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _ => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = "db=a%20b&precision=ms&db=c&empty=";
        assert_eq!(parameter(query, "db").as_deref(), Some("a b"));
        assert_eq!(parameter(query, "rp"), None);
        assert_eq!(precision(query), Ok(Precision::Milliseconds));
        assert_eq!(precision("precision="), Ok(Precision::Nanoseconds));
        assert!(precision("precision=week").unwrap_err().contains("unknown precision `week`"));
    }
}
