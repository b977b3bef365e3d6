//! An answer as it goes out: the kept headers, what a cache says of it, the conditions of the request, and one
//! element where one was asked for.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use consort_once::{Answer, Source};

use super::element::element;
use super::envelope::Envelope;
use super::refusals;
use crate::problem::Problem;

/// Which computation made the answer; in a request, the one that is insisted on.
pub(super) const GENERATION: HeaderName = HeaderName::from_static("consort-generation");

/// RFC 9211: what this cache did.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Makes the response.
pub(super) fn reply(
    answer: &Answer,
    position: Option<usize>,
    request: &HeaderMap,
    vary: Option<&HeaderValue>,
) -> Result<Response, Problem> {
    let envelope = Envelope::unpack(&answer.value).map_err(|unreadable| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "unreadable-answer",
            format!("{unreadable}; purge it with DELETE, or use one version on all nodes"),
        )
    })?;
    let Envelope { status, no_store, headers: kept, mut body } = envelope;
    // An answer that says there is no list has no elements; it stands for itself.
    let position = position.filter(|_| status.is_success());
    if let Some(position) = position {
        body = element(&body, position).map_err(|missing| refusals::missing(&missing, position))?;
    }

    let generation = answer.generation.to_string();
    let etag = etag(&generation, position);
    let unchanged = status.is_success() && has_it(request, etag.as_bytes());
    let body = if unchanged { Body::empty() } else { Body::from(body) };
    let mut response = Response::new(body);
    *response.status_mut() = if unchanged { StatusCode::NOT_MODIFIED } else { status };
    let headers = response.headers_mut();
    if !unchanged {
        headers.extend(kept);
        if position.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
    }
    // Both are digits, dots and quotes, which any header takes.
    for (name, text) in [(GENERATION, generation), (header::ETAG, etag)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::AGE, HeaderValue::from(answer.age.as_secs()));
    headers.insert(header::CACHE_CONTROL, lifetime(answer.age, answer.fresh_left, no_store));
    headers.insert(CACHE_STATUS, HeaderValue::from_static(cache_status(answer)));
    if let Some(vary) = vary {
        headers.insert(header::VARY, vary.clone());
    }
    Ok(response)
}

/// Two answers of one generation are the same bytes, and so are their elements.
fn etag(generation: &str, position: Option<usize>) -> String {
    match position {
        Some(position) => format!("\"{generation}.{position}\""),
        None => format!("\"{generation}\""),
    }
}

/// Whether the client has it already. Tags are compared weakly, as RFC 9110 has it for this condition.
fn has_it(request: &HeaderMap, etag: &[u8]) -> bool {
    let lists = request.get_all(header::IF_NONE_MATCH).into_iter();
    lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b',')).any(|tag| {
        let tag = tag.trim_ascii();
        tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag
    })
}

/// The whole lifetime, of which `Age` has passed.
fn lifetime(age: Duration, fresh_left: Duration, no_store: bool) -> HeaderValue {
    if no_store {
        return HeaderValue::from_static("no-store");
    }
    let lifetime = match fresh_left.is_zero() {
        true => 0,
        false => (age + fresh_left).as_secs(),
    };
    let text = format!("max-age={lifetime}");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("no-store"))
}

fn cache_status(answer: &Answer) -> &'static str {
    match (answer.source, answer.stale) {
        (Source::Computed, _) => "consort; fwd=miss",
        (Source::Joined, _) => "consort; fwd=miss; collapsed",
        (Source::Node, false) => "consort; hit; detail=node",
        (Source::Node, true) => "consort; hit; detail=node-stale",
        (Source::Store, false) => "consort; hit; detail=store",
        (Source::Store, true) => "consort; hit; detail=store-stale",
    }
}
