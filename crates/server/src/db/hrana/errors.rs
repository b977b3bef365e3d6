//! Errors in the forms that libSQL's clients read: `{"message", "code"}` within an answer, and as an answer.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_db::read::ReadFailure;
use consort_db::sqlite::codes::code_name;
use consort_db::write::job::{JobError, JobErrorKind};
use consort_db::write::queue::WriteFailure;
use serde::Serialize;
use serde_json::{Value, json};

use crate::db::failures::{read_failed, write_failed};
use crate::problem::Problem;

/// An error of one request of a stream. The others of its pipeline are answered as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StreamError {
    pub(super) message: String,
    pub(super) code: String,
}

impl StreamError {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        StreamError { message: message.into(), code: code.to_owned() }
    }
}

impl From<&JobError> for StreamError {
    /// sqld's clients know the primary codes, and messages of SQLite with this word before them.
    fn from(error: &JobError) -> Self {
        let name = error.code.and_then(|code| code_name(code & 0xff));
        let code = name.unwrap_or(match error.kind {
            JobErrorKind::Request => "SQL_INPUT_ERROR",
            JobErrorKind::Constraint => "SQLITE_CONSTRAINT",
            JobErrorKind::Expectation => "DB_EXPECTATION",
            JobErrorKind::TooLarge => "SQLITE_TOOBIG",
            JobErrorKind::Schema => "DB_SCHEMA",
            JobErrorKind::KeyReused => "DB_KEY_REUSED",
            JobErrorKind::TimeLimit => "SQLITE_INTERRUPT",
            JobErrorKind::AnswerTooLarge => "RESPONSE_TOO_LARGE",
            JobErrorKind::Full => "SQLITE_FULL",
        });
        match name {
            Some(_) => StreamError::new(code, format!("SQLite error: {}", error.message)),
            None => StreamError::new(code, error.message.clone()),
        }
    }
}

impl From<&WriteFailure> for StreamError {
    fn from(failure: &WriteFailure) -> Self {
        StreamError::from(&write_failed(failure))
    }
}

impl From<&ReadFailure> for StreamError {
    fn from(failure: &ReadFailure) -> Self {
        match failure {
            ReadFailure::Job(error) => StreamError::from(error),
            failure => StreamError::from(&read_failed(failure)),
        }
    }
}

impl From<&Problem> for StreamError {
    fn from(problem: &Problem) -> Self {
        StreamError::new(&code_of(problem.kind().name), problem.detail())
    }
}

/// An answer to a request that was not carried out as a whole.
pub(super) fn answer(problem: &Problem) -> Response {
    let mut body = json!({
        "message": problem.detail(),
        "code": code_of(problem.kind().name),
    });
    if let Some(outcome) = problem.member("outcome") {
        body["outcome"] = outcome.clone();
    }
    let mut response = json_answer(problem.status(), &body);
    if let Some(seconds) = problem.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A problem that another node answered, in the form for these clients.
pub(super) fn from_problem_json(status: StatusCode, problem: &Value) -> Response {
    let kind = problem["type"].as_str().unwrap_or_default();
    let name = kind.rsplit(':').next().unwrap_or_default();
    let mut body = json!({ "message": problem["detail"], "code": code_of(name) });
    if let Some(outcome) = problem.get("outcome") {
        body["outcome"] = outcome.clone();
    }
    let mut response = json_answer(status, &body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The clients compare the media type to the letter.
fn json_answer(status: StatusCode, body: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], body.to_string()).into_response()
}

fn code_of(kind: &str) -> String {
    kind.to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;
    use crate::db::failures::no_worker;

    #[test]
    fn an_error_of_sqlite_has_its_primary_code_and_others_have_a_word_of_their_own() {
        let error = JobError::new(JobErrorKind::Constraint, "UNIQUE constraint failed: t.a");
        let error = StreamError::from(&JobError { code: Some(2067), ..error });
        assert_eq!(error.code, "SQLITE_CONSTRAINT");
        assert_eq!(error.message, "SQLite error: UNIQUE constraint failed: t.a");
        let error = StreamError::from(&JobError::new(JobErrorKind::TimeLimit, "too long"));
        assert_eq!((error.code.as_str(), error.message.as_str()), ("SQLITE_INTERRUPT", "too long"));
        let error = StreamError::from(&WriteFailure::StoreFault);
        assert_eq!(error.code, "STORE_FAILED");
    }

    #[tokio::test]
    async fn an_answer_has_the_form_that_clients_parse() {
        let response = answer(&no_worker("none"));
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["retry-after"], "1");
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({"message": "none", "code": "DB_NO_WORKER", "outcome": "not stored"});
        assert_eq!(body, expected);
        let problem = json!({"type": "urn:consort:problem:db-stopped", "detail": "x", "outcome": "not stored"});
        let response = from_problem_json(StatusCode::SERVICE_UNAVAILABLE, &problem);
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], "DB_STOPPED");
    }
}
