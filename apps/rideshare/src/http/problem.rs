//! Error answers: RFC 9457 `application/problem+json`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error answer. Its detail says what is wrong; it repeats nothing that a client sent, which may be long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    /// The methods that a path knows, if the request has another one.
    allow: Option<&'static str>,
}

impl Problem {
    /// 400: the request can never succeed, or not in the present state of the database.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 404: there is no such path.
    pub(crate) fn not_found() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "there is no such path")
    }

    /// 405: the path does not know the method.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Problem {
        let detail = format!("this path knows {allow} and no other method");
        Problem { allow: Some(allow), ..Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// 408: the body did not arrive.
    pub(crate) fn too_slow(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    /// 413: the body is too large.
    pub(crate) fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// 503: the same request may succeed later.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), allow: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = json!({ "title": title, "status": self.status.as_u16(), "detail": self.detail });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
