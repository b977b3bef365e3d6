//! For how long an upstream's answer may be used: what the upstream says, where it says something and is to be
//! honoured, and else the space's settings.
//!
//! The rules of RFC 9111 for shared caches are those of a crate; `stale-while-revalidate`, `stale-if-error` and
//! `Cache-Tag`, which it does not know, are read here.

use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use http_cache_semantics::{CacheOptions, CachePolicy};

/// How many tags of an answer count, and how long they may be: each is an entry in the store's index.
const TAGS_MOST: usize = 32;
const TAG_LONGEST: usize = 128;

/// A span that stands for "very long". Beyond it nothing is told apart, and sums with it cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Directives by which an upstream says for how long.
const DECIDE: [&str; 8] = [
    "max-age",
    "s-maxage",
    "no-cache",
    "no-store",
    "private",
    "must-revalidate",
    "proxy-revalidate",
    "immutable",
];

/// For how long an answer may be used. `None`: as the settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) fresh_for: Option<Duration>,
    pub(super) stale_for: Option<Duration>,
    pub(super) stale_if_error: Option<Duration>,
    /// Nobody may keep it: only those who wait for it get it.
    pub(super) no_store: bool,
}

impl Freshness {
    /// What the upstream says of its answer to this request, at the time `now`.
    pub(super) fn of(request: &Request<()>, answer: &Response<()>, now: SystemTime) -> Freshness {
        let headers = answer.headers();
        let says = |directive: &str| value_of(headers, directive).is_some();
        let spoken = DECIDE.iter().any(|directive| says(directive))
            || [header::EXPIRES, header::PRAGMA, header::SET_COOKIE]
                .iter()
                .any(|name| headers.contains_key(name))
            || headers.get(header::VARY).is_some_and(|vary| vary == "*");
        let stale_for = seconds_of(headers, "stale-while-revalidate");
        let stale_if_error = seconds_of(headers, "stale-if-error");
        if !spoken {
            return Freshness { stale_for, stale_if_error, ..Freshness::default() };
        }
        // A guess by the time of the last change is no word of the upstream's.
        let options = CacheOptions { cache_heuristic: 0.0, ..CacheOptions::default() };
        let policy = CachePolicy::new_options(request, &lowercase(answer), now, options);
        let no_store = !policy.is_storable();
        let fresh_for = policy.time_to_live(now).min(LONGEST);
        let or_none = |time: Option<Duration>| match () {
            () if must_ask_again(headers) => Some(Duration::ZERO),
            // What is never fresh is used when it is stale only where the upstream says so.
            () if fresh_for.is_zero() => time.or(Some(Duration::ZERO)),
            () => time,
        };
        let (stale_for, stale_if_error) = (or_none(stale_for), or_none(stale_if_error));
        Freshness { fresh_for: Some(fresh_for), stale_for, stale_if_error, no_store }
    }
}

/// Whether an answer may not be used when it is stale, whatever else is said: because the upstream forbids it, or
/// because it is for one client alone.
fn must_ask_again(headers: &HeaderMap) -> bool {
    let says = |directive: &str| value_of(headers, directive).is_some();
    let for_one = headers.contains_key(header::SET_COOKIE) && !says("public") && !says("immutable");
    let forbidden = ["no-store", "private", "no-cache", "must-revalidate", "proxy-revalidate"];
    forbidden.iter().any(|directive| says(directive))
        || headers.contains_key(header::PRAGMA) && !headers.contains_key(header::CACHE_CONTROL)
        || headers.get(header::VARY).is_some_and(|vary| vary == "*")
        || for_one
}

/// The same answer with its directives in small letters: their case does not matter, but to the crate it does.
fn lowercase(answer: &Response<()>) -> Response<()> {
    let mut answer = answer.clone();
    let values: Vec<HeaderValue> = answer
        .headers()
        .get_all(header::CACHE_CONTROL)
        .into_iter()
        .filter_map(|value| HeaderValue::from_bytes(&value.as_bytes().to_ascii_lowercase()).ok())
        .collect();
    answer.headers_mut().remove(header::CACHE_CONTROL);
    answer.headers_mut().extend(values.into_iter().map(|value| (header::CACHE_CONTROL, value)));
    answer
}

/// The tags of an answer.
pub(super) fn tags(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("cache-tag").into_iter().filter_map(|value| value.to_str().ok());
    let mut tags: Vec<String> = Vec::new();
    for tag in values.flat_map(|value| value.split(',')).map(str::trim) {
        let known = tags.iter().any(|known| known == tag);
        if !known && (1..=TAG_LONGEST).contains(&tag.len()) && tags.len() < TAGS_MOST {
            tags.push(tag.to_owned());
        }
    }
    tags
}

/// The value of a directive of `Cache-Control`, empty if it has none; `None` if it is not there.
fn value_of<'a>(headers: &'a HeaderMap, directive: &str) -> Option<&'a str> {
    let values = headers.get_all(header::CACHE_CONTROL).into_iter();
    let mut directives = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    directives.find_map(|one| {
        let (name, value) = one.split_once('=').unwrap_or((one, ""));
        name.trim().eq_ignore_ascii_case(directive).then(|| value.trim().trim_matches('"'))
    })
}

/// A number of seconds; one that cannot be read counts as none.
fn seconds_of(headers: &HeaderMap, directive: &str) -> Option<Duration> {
    let value = value_of(headers, directive)?;
    Some(value.parse().map_or(Duration::ZERO, Duration::from_secs).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, StatusCode};

    fn freshness(status: u16, headers: &[(&'static str, &str)]) -> Freshness {
        let request = Request::builder().uri("http://h/x").body(()).unwrap();
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            let value = HeaderValue::try_from(*value).unwrap();
            answer.headers_mut().append(HeaderName::from_static(name), value);
        }
        Freshness::of(
            &request,
            &answer,
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        )
    }

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn an_upstream_that_says_nothing_leaves_it_to_the_settings() {
        for headers in [
            &[][..],
            &[("cache-control", "public")],
            &[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
            &[("vary", "accept-language")],
        ] {
            assert_eq!(freshness(200, headers), Freshness::default(), "{headers:?}");
        }
    }

    #[test]
    fn the_lifetime_is_that_of_a_shared_cache() {
        for (headers, fresh) in [
            (&[("cache-control", "max-age=60")][..], 60),
            (&[("cache-control", "Max-Age=\"60\"")], 60),
            (&[("cache-control", "max-age=60, s-maxage=10")], 10),
            (&[("cache-control", "max-age=60"), ("age", "45")], 15),
            (&[("cache-control", "public, max-age=60"), ("set-cookie", "a=b")], 60),
            (&[("expires", "Sun, 09 Sep 2001 01:47:40 GMT")], 60),
        ] {
            let expected = Freshness { fresh_for: secs(fresh), ..freshness(200, headers) };
            assert_eq!(freshness(200, headers), expected, "{headers:?}");
            assert!(!expected.no_store, "{headers:?}");
        }
        assert_eq!(freshness(404, &[("cache-control", "max-age=5")]).fresh_for, secs(5));
        let endless = format!("max-age={}", u64::MAX);
        assert_eq!(freshness(200, &[("cache-control", &endless)]).fresh_for, Some(LONGEST));
    }

    #[test]
    fn what_may_not_be_kept_or_used_again_is_never_fresh() {
        for (headers, no_store) in [
            (&[("cache-control", "no-store")][..], true),
            (&[("cache-control", "public, No-Store")], true),
            (&[("cache-control", "max-age=60"), ("cache-control", "no-store")], true),
            (&[("cache-control", "private")], true),
            (&[("cache-control", "private, max-age=60")], true),
            (&[("cache-control", "max-age=0")], false),
            (&[("cache-control", "no-cache")], false),
            (&[("cache-control", "no-cache, max-age=60")], false),
            (&[("cache-control", "max-age=nonsense")], false),
            (&[("pragma", "no-cache")], false),
            (&[("expires", "0")], false),
            (&[("set-cookie", "session=s3cret")], false),
            (
                &[
                    ("set-cookie", "session=s3cret"),
                    ("cache-control", "max-age=9, stale-while-revalidate=9"),
                ],
                false,
            ),
            (&[("vary", "*")], false),
            (&[("cache-control", "max-age=60"), ("age", "60")], false),
            (&[("cache-control", "proxy-revalidate, max-age=60, stale-while-revalidate=9")], false),
        ] {
            let found = freshness(200, headers);
            assert_eq!(found.no_store, no_store, "{headers:?}");
            assert_eq!(found.fresh_for, secs(0), "{headers:?}");
            assert_eq!((found.stale_for, found.stale_if_error), (secs(0), secs(0)), "{headers:?}");
        }
    }

    #[test]
    fn stale_answers_may_be_used_for_as_long_as_the_upstream_says() {
        let stale = |text: &str| {
            let found = freshness(200, &[("cache-control", text)]);
            (found.fresh_for, found.stale_for, found.stale_if_error)
        };
        let text = "max-age=1, stale-while-revalidate=30, stale-if-error=600";
        assert_eq!(stale(text), (secs(1), secs(30), secs(600)));
        assert_eq!(stale("max-age=0, stale-while-revalidate=5"), (secs(0), secs(5), secs(0)));
        assert_eq!(stale("max-age=0, stale-if-error=5"), (secs(0), secs(0), secs(5)));
        assert_eq!(stale("stale-while-revalidate=5"), (None, secs(5), None));
        assert_eq!(stale("max-age=9, stale-while-revalidate=x"), (secs(9), secs(0), None));
        // Who must ask again may not use what is stale.
        let strict = "max-age=9, must-revalidate, stale-while-revalidate=5, stale-if-error=5";
        assert_eq!(stale(strict), (secs(9), secs(0), secs(0)));
        assert_eq!(stale("max-age=9, must-revalidate"), (secs(9), secs(0), secs(0)));
    }

    #[test]
    fn tags_are_listed_once_and_bounded() {
        let mut headers = HeaderMap::new();
        headers.append("cache-tag", HeaderValue::from_static(" a, b ,,a"));
        headers.append("cache-tag", HeaderValue::from_static("c d"));
        headers.append("cache-tag", HeaderValue::try_from("x".repeat(TAG_LONGEST + 1)).unwrap());
        assert_eq!(tags(&headers), ["a", "b", "c d"]);
        let many: Vec<String> = (0..TAGS_MOST + 5).map(|n| n.to_string()).collect();
        headers.insert("cache-tag", HeaderValue::try_from(many.join(",")).unwrap());
        assert_eq!(tags(&headers), many[..TAGS_MOST]);
    }
}
