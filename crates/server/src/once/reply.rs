//! An answer as it goes out: the kept headers, what a cache says of it, the conditions of the request, and one
//! element where one was asked for.

use std::ops::Range;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use consort_once::{Answer, GENERATION_DIGITS, Source};

use super::element::element;
use super::envelope::Envelope;
use super::refusals;
use crate::problem::Problem;
use crate::problems;

/// Which computation made the answer; in a request, the one that is insisted on.
pub(super) const GENERATION: HeaderName = HeaderName::from_static("consort-generation");

/// Where the generation stands in a tag.
const GENERATION_AT: Range<usize> = 1..1 + GENERATION_DIGITS;

/// How many headers are added to those that were kept, the server's own included.
const ADDED_MOST: usize = 8;

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
            problems::UNREADABLE_ANSWER,
            format!("{unreadable}; purge it with DELETE, or use one version on all nodes"),
        )
    })?;
    let Envelope { status, no_store, headers: kept, mut body } = envelope;
    // An answer that says there is no list has no elements; it stands for itself.
    let position = position.filter(|_| status.is_success());
    if let Some(position) = position {
        body = element(&body, position).map_err(|missing| refusals::missing(&missing, position))?;
    }

    let etag = etag(answer, position);
    let unchanged = status.is_success() && has_it(request, &etag);
    let body = if unchanged { Body::empty() } else { Body::from(body) };
    let mut response = Response::new(body);
    *response.status_mut() = if unchanged { StatusCode::NOT_MODIFIED } else { status };
    let headers = response.headers_mut();
    headers.reserve(kept.len() + ADDED_MOST);
    if !unchanged {
        headers.extend(kept);
        if position.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
    }
    // Both are digits, dots and quotes, which any header takes.
    for (name, text) in [(GENERATION, etag.slice(GENERATION_AT)), (header::ETAG, etag)] {
        if let Ok(value) = HeaderValue::from_maybe_shared(text) {
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
fn etag(answer: &Answer, position: Option<usize>) -> Bytes {
    let mut tag = Vec::with_capacity(GENERATION_DIGITS + 2);
    tag.push(b'"');
    tag.extend(answer.generation.digits());
    if let Some(position) = position {
        tag.push(b'.');
        tag.extend(position.to_string().as_bytes());
    }
    tag.push(b'"');
    tag.into()
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

#[cfg(test)]
mod tests {
    use super::super::envelope;
    use super::*;

    const GENERATION_TEXT: &str = "0000000000000abc0000000000000007";

    fn answer(age: u64, fresh_left: u64, source: Source) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv"));
        Answer {
            value: envelope::pack(StatusCode::OK, false, &headers, b"[10,20]"),
            generation: GENERATION_TEXT.parse().unwrap(),
            age: Duration::from_millis(age),
            fresh_left: Duration::from_millis(fresh_left),
            usable_left: Duration::from_secs(3600),
            stale: fresh_left == 0,
            source,
        }
    }

    fn headers(answer: &Answer) -> HeaderMap {
        reply(answer, None, &HeaderMap::new(), None).unwrap().headers().clone()
    }

    #[test]
    fn the_lifetime_is_told_whole_and_what_has_passed_of_it_beside() {
        for (age, left, lifetime, passed) in [
            (0, 60_000, "max-age=60", "0"),
            (12_500, 47_500, "max-age=60", "12"),
            (1_200, 800, "max-age=2", "1"),
            (61_000, 0, "max-age=0", "61"),
        ] {
            let headers = headers(&answer(age, left, Source::Node));
            assert_eq!(headers[header::CACHE_CONTROL], lifetime, "{age}");
            assert_eq!(headers[header::AGE], passed, "{age}");
        }
    }

    #[test]
    fn where_an_answer_comes_from_is_told_in_the_words_of_rfc_9211() {
        for (source, left, words) in [
            (Source::Computed, 1, "consort; fwd=miss"),
            (Source::Joined, 1, "consort; fwd=miss; collapsed"),
            (Source::Node, 1, "consort; hit; detail=node"),
            (Source::Node, 0, "consort; hit; detail=node-stale"),
            (Source::Store, 1, "consort; hit; detail=store"),
            (Source::Store, 0, "consort; hit; detail=store-stale"),
        ] {
            assert_eq!(headers(&answer(0, left, source))[CACHE_STATUS], words);
        }
    }

    #[test]
    fn an_element_has_a_type_and_a_tag_of_its_own() {
        let vary = HeaderValue::from_static("accept");
        let answer = answer(0, 1, Source::Node);
        let whole = headers(&answer);
        assert_eq!(whole[header::CONTENT_TYPE], "text/csv");
        assert_eq!(whole[header::ETAG], format!("\"{GENERATION_TEXT}\""));
        assert!(!whole.contains_key(header::VARY));
        let one = reply(&answer, Some(1), &HeaderMap::new(), Some(&vary)).unwrap();
        assert_eq!(one.headers()[header::CONTENT_TYPE], "application/json");
        assert_eq!(one.headers()[header::ETAG], format!("\"{GENERATION_TEXT}.1\""));
        assert_eq!(one.headers()[GENERATION], GENERATION_TEXT);
        assert_eq!(one.headers()[header::VARY], "accept");
        let beyond = reply(&answer, Some(2), &HeaderMap::new(), None).unwrap_err();
        assert_eq!(beyond.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn what_another_version_kept_is_an_error_and_no_garbage() {
        let newer =
            Answer { value: Bytes::from_static(b"\x02 and more"), ..answer(0, 1, Source::Store) };
        let problem = reply(&newer, None, &HeaderMap::new(), None).unwrap_err();
        assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(problem.detail().contains("purge it with DELETE"), "{}", problem.detail());
    }
}
