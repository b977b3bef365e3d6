//! Error answers: RFC 9457 `application/problem+json`, the only form in which this server says no.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;

use crate::problems::ProblemKind;

const MEDIA_TYPE: &str = "application/problem+json";

/// How much of a detail is told. It may repeat a name that a client sent, which may be as long as a body.
const DETAIL_MOST: usize = 4 * 1024;

/// One error answer. `detail` says what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: &'static ProblemKind,
    detail: String,
    close: bool,
    retry_after: Option<Duration>,
    /// Members beside those of every problem.
    members: BTreeMap<&'static str, Value>,
}

#[derive(Serialize)]
struct Wire<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    members: &'a BTreeMap<&'static str, Value>,
}

impl Problem {
    /// A problem of a kind that [`problems`](crate::problems) lists.
    pub fn new(kind: &'static ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            detail: shortened(detail.into(), DETAIL_MOST),
            close: false,
            retry_after: None,
            members: BTreeMap::new(),
        }
    }

    /// The same with one more member, for programs that act on it.
    pub fn with(mut self, member: &'static str, value: impl Into<Value>) -> Problem {
        self.members.insert(member, value.into());
        self
    }

    /// A member beside those of every problem.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The kind of the problem.
    pub fn kind(&self) -> &'static ProblemKind {
        self.kind
    }

    /// The connection ends with this answer: what the client still sends would not be understood.
    pub fn closing(mut self) -> Problem {
        self.close = true;
        self
    }

    /// The same request may succeed after this time.
    pub fn retry_after(mut self, time: Duration) -> Problem {
        self.retry_after = Some(time);
        self
    }

    /// After how many seconds, if it was said.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        // Whole seconds, never none: a client that came back at once would be refused again.
        let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        self.retry_after.map(|time| seconds(time).max(1))
    }

    pub fn status(&self) -> StatusCode {
        self.kind.status
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The whole answer as bytes, for a connection on which no request has been understood.
    pub(crate) fn to_http1(&self) -> Vec<u8> {
        let body = self.json();
        let title = self.title();
        let status = self.status().as_u16();
        let retry = if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            "retry-after: 1\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\n{retry}connection: close\r\n\r\n",
            body.len()
        );
        [head.into_bytes(), body].concat()
    }

    fn title(&self) -> &'static str {
        self.status().canonical_reason().unwrap_or("Error")
    }

    fn json(&self) -> Vec<u8> {
        let wire = Wire {
            r#type: self.kind.urn(),
            title: self.title(),
            status: self.status().as_u16(),
            detail: &self.detail,
            members: &self.members,
        };
        // Plain fields: serialising them into memory cannot fail.
        serde_json::to_vec(&wire).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let retry_after = self.retry_after_seconds();
        let mut response = (self.status(), self.json()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if self.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The beginning of a text that is longer than this, or all of it.
pub(crate) fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems;

    #[test]
    fn a_long_detail_is_cut() {
        let problem = Problem::new(problems::INVALID_EVENT, "é".repeat(1 << 20));
        assert!(problem.detail().ends_with("é…"));
        assert!(problem.json().len() < 2 * DETAIL_MOST, "{}", problem.json().len());
    }

    #[test]
    fn a_raw_answer_has_the_length_it_declares() {
        let problem = Problem::new(problems::HEADER_TIMEOUT, "too slow");
        let raw = String::from_utf8(problem.to_http1()).unwrap();
        let (head, body) = raw.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let expected = r#"{"type":"urn:consort:problem:header-timeout","title":"Request Timeout","status":408,"detail":"too slow"}"#;
        assert_eq!(body, expected);
    }
}
