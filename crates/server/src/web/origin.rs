//! Origins of web pages, and what browsers are told about them (the Fetch standard, §3.2 and §3.3).

use std::fmt;
use std::str::FromStr;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::authority::Authority;

/// All methods that a route of a node has.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");

/// How long a browser may remember the answer to a preflight: short enough that a removed origin is gone
/// soon, long enough that a page does not ask before every post.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// The origin of a web page, as browsers write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an origin: write scheme, host and port without a path, \
     such as \"https://app.example.org\" or \"http://localhost:3000\""
)]
pub struct BadOrigin(String);

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Origin, BadOrigin> {
        let parsed = text.split_once("://").and_then(|(scheme, rest)| {
            let scheme = scheme.to_ascii_lowercase();
            let default = default_port(&scheme)?;
            let authority = Authority::parse(rest.as_bytes())?;
            if authority.host.contains('*') {
                return None;
            }
            let host = authority.host.to_ascii_lowercase();
            Some(match authority.port.filter(|port| *port != default) {
                Some(port) => format!("{scheme}://{host}:{port}"),
                None => format!("{scheme}://{host}"),
            })
        });
        parsed.map(Origin).ok_or_else(|| BadOrigin(text.to_owned()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Origin {
    /// Browsers write an origin in one way only, so bytes are compared.
    pub(super) fn is(&self, given: &HeaderValue) -> bool {
        self.0.as_bytes() == given.as_bytes()
    }
}

/// Whether an `Origin` is that of pages which this host itself serves: nodes speak plain HTTP.
pub(super) fn is_own(given: &HeaderValue, host: Option<Authority<'_>>) -> bool {
    let page = given.as_bytes().strip_prefix(b"http://").and_then(Authority::parse);
    let port = |authority: Authority<'_>| authority.port.unwrap_or(80);
    matches!((page, host), (Some(page), Some(host))
        if page.host.eq_ignore_ascii_case(host.host) && port(page) == port(host))
}

/// Whether a browser asks first whether a page may send something.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a page that may send what it likes. Whether a route takes it, the request itself is told.
pub(super) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    answer.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    response
}

/// Lets the page read the answer, with all its headers.
pub(super) fn allow(origin: HeaderValue, answer: &mut HeaderMap) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
}

/// Tells caches that the answer may be another for another page.
pub(super) fn vary(answer: &mut HeaderMap) {
    answer.append(VARY, HeaderValue::from_static("origin"));
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_kept_as_browsers_write_it() {
        for (text, written) in [
            ("http://localhost:3000", "http://localhost:3000"),
            ("HTTPS://App.Example.org:443", "https://app.example.org"),
            ("http://h:80", "http://h"),
            ("https://h:80", "https://h:80"),
            ("http://[::1]:9", "http://[::1]:9"),
        ] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!(origin.to_string(), written);
            assert!(origin.is(&HeaderValue::from_str(written).unwrap()));
        }
        for bad in
            ["", "null", "*", "h", "http://", "http://h/", "ftp://h", "http://u@h", "http://*"]
        {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_is_the_nodes_own_only_with_the_very_scheme_host_and_port() {
        for (origin, host, own) in [
            ("http://localhost:7400", "localhost:7400", true),
            ("http://localhost:7400", "LOCALHOST:7400", true),
            ("http://h", "h:80", true),
            ("http://h:80", "h", true),
            ("http://localhost:7400", "127.0.0.1:7400", false),
            ("http://localhost:7401", "localhost:7400", false),
            ("http://localhost", "localhost:7400", false),
            ("https://localhost:7400", "localhost:7400", false),
            ("http://localhost:7400/", "localhost:7400", false),
            ("null", "localhost:7400", false),
            ("", "localhost:7400", false),
        ] {
            let given = HeaderValue::from_static(origin);
            let found = is_own(&given, Authority::parse(host.as_bytes()));
            assert_eq!(found, own, "{origin} {host}");
        }
        assert!(!is_own(&HeaderValue::from_static("http://h"), None));
    }
}
