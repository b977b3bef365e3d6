//! Passes a request on to an instance, and its answer back.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, Request, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::Gateway;
use super::instances::Instance;
use crate::http::{HttpFailure, Problem};

/// How long an instance may take, as long as it stays healthy: `db/clear` takes longest.
const ANSWER_WITHIN: Duration = Duration::from_secs(65);

/// Headers that concern one connection alone.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Sends a request to an instance of its service. A request that certainly did not reach its instance goes to another
/// one, and a `GET` that broke is repeated once. Anything else might take effect twice.
pub(super) async fn forward(
    State(gateway): State<Arc<Gateway>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let service = gateway.service(uri.path());
    let instances = service.in_turn();
    let (mut at, mut repeated) = (0, false);
    // Each failure but one, which is repeated, moves on to another instance.
    while let Some(instance) = instances.get(at) {
        let request = request(instance, &method, &uri, &headers, &body)?;
        let failure = match send(&gateway, instance, request).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        tracing::warn!("{} at {}: {failure}", service.name(), instance.url());
        match failure {
            HttpFailure::NotSent(_) => at += 1,
            HttpFailure::NoAnswer(_) if method == Method::GET && !repeated => {
                repeated = true;
                at = (at + 1) % instances.len();
            }
            HttpFailure::NoAnswer(_) => {
                let detail = format!("an instance of {} did not answer", service.name());
                return Err(Problem::unavailable(detail));
            }
        }
    }
    Err(service.unavailable())
}

async fn send(
    gateway: &Gateway,
    instance: &Instance,
    request: Request<Bytes>,
) -> Result<Response, HttpFailure> {
    let answer = tokio::select! {
        answer = gateway.http.send(request, ANSWER_WITHIN) => answer?,
        () = instance.taken_out() => {
            return Err(HttpFailure::NoAnswer("it has failed its health checks".to_owned()));
        }
    };
    let (head, body) = answer.into_parts();
    let mut response = (head.status, Body::from(body)).into_response();
    *response.headers_mut() = end_to_end(&head.headers);
    Ok(response)
}

fn request(
    instance: &Instance,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Request<Bytes>, Problem> {
    let path = uri.path_and_query().filter(|path| path.as_str().starts_with('/'));
    let path = path.ok_or_else(Problem::not_found)?;
    let uri = instance.url().at(path).map_err(|_| Problem::bad_request("malformed path"))?;
    let mut request = Request::new(body.clone());
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = end_to_end(headers);
    Ok(request)
}

/// The headers that are passed on.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<String> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let passes = |name: &&HeaderName| {
        !HOP_BY_HOP.contains(name) && !named.iter().any(|other| other == name.as_str())
    };
    let mut passed = HeaderMap::with_capacity(headers.len());
    for name in headers.keys().filter(passes) {
        for value in headers.get_all(name) {
            passed.append(name, value.clone());
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn headers_of_the_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("x-mine", "1"),
            ("host", "example.org"),
            ("origin", "http://h"),
            ("x-twice", "1"),
            ("x-twice", "2"),
            ("content-type", "text/plain"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let passed = end_to_end(&headers);
        let names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["host", "origin", "x-twice", "content-type"]);
        assert_eq!(passed.get_all("x-twice").iter().count(), 2);
    }
}
