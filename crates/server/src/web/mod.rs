//! Which web pages may use a node: the rules on `Host`, `Origin` and `Sec-Fetch-Site`.
//!
//! A browser sends requests to a node on loopback for any page that asks it to, and it cannot know that
//! the node trusts everything on its machine. Three of its headers tell: `Host` has the name that the page
//! used, so a name that an attacker points at 127.0.0.1 is seen; `Origin` and `Sec-Fetch-Site` tell where
//! the page is from. The door applies these rules to every request; the short way of plain posts leaves
//! every request with such a header to the door.

mod authority;
mod origin;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use axum::response::Response;

pub use self::authority::{BadHostName, HostName};
pub use self::origin::{BadOrigin, Origin};

use self::authority::Authority;
use crate::problem::Problem;
use crate::problems;

pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How much of a foreign `Host` or `Origin` an answer repeats.
const SHOWN: usize = 100;

/// The names of a node and the web pages that may use it, beyond loopback and the node's own pages.
#[derive(Debug, Clone, Default)]
pub struct WebPolicy {
    /// Host and port by which others reach the node, if not where it listens.
    pub advertised: Option<String>,
    pub hosts: Vec<HostName>,
    pub origins: Vec<Origin>,
}

/// The rules of one server.
#[derive(Debug)]
pub(crate) struct WebGuard {
    policy: WebPolicy,
    /// Without access tokens, the name that a client uses is all there is to tell a page by.
    checks_names: bool,
    /// What most clients send as `Host`: it is compared before anything is parsed.
    listening: String,
}

/// A request that passed the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// A program, or a page of the node's own.
    Own,
    /// A page of an origin in `http.origins`, by its `Origin`.
    Listed(HeaderValue),
    /// A page of another origin: only an access token lets it in.
    Foreign,
}

impl WebGuard {
    pub(crate) fn new(mut policy: WebPolicy, listening: String, has_tokens: bool) -> WebGuard {
        policy.hosts.extend(policy.advertised.as_deref().and_then(HostName::without_port));
        WebGuard { policy, checks_names: !has_tokens, listening }
    }

    /// Checks how the request names the node, and tells which page it is from.
    pub(crate) fn visitor(&self, request: &Parts) -> Result<Visitor, Problem> {
        let host = host(request)?;
        if let Some(host) = host
            && self.checks_names
            && !self.names_node(host)
        {
            return Err(misdirected(host.host));
        }
        Ok(self.page(&request.headers, host))
    }

    /// Whether a `Host` is one that the rules accept.
    pub(crate) fn accepts_host(&self, host: &[u8]) -> bool {
        host == self.listening.as_bytes()
            || Authority::parse(host)
                .is_some_and(|host| !self.checks_names || self.names_node(host))
    }

    /// Whether the rules have nothing more to look at in a request with these headers.
    pub(crate) fn is_plain(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().filter(|_| hosts.next().is_none());
        host.is_some_and(|host| self.accepts_host(host.as_bytes()))
            && !headers.contains_key(header::ORIGIN)
            && !headers.contains_key(SEC_FETCH_SITE)
    }

    /// The answer to a listed page's preflight, if the request is one.
    pub(crate) fn preflight(&self, request: &Parts, visitor: &Visitor) -> Option<Response> {
        let asks = matches!(visitor, Visitor::Listed(_))
            && origin::is_preflight(&request.method, &request.headers);
        asks.then(|| origin::preflight(&request.headers))
    }

    /// Tells the browser who may read the answer.
    pub(crate) fn sign(&self, visitor: Visitor, answer: &mut HeaderMap) {
        if let Visitor::Listed(origin) = visitor {
            origin::allow(origin, answer);
        }
        if !self.policy.origins.is_empty() {
            origin::vary(answer);
        }
    }

    fn names_node(&self, host: Authority<'_>) -> bool {
        host.is_loopback() || self.policy.hosts.iter().any(|name| host.is_host(name))
    }

    fn page(&self, headers: &HeaderMap, host: Option<Authority<'_>>) -> Visitor {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (Some(origin), None) => Some(origin),
            (None, _) => None,
            (Some(_), Some(_)) => return Visitor::Foreign,
        };
        if let Some(origin) = origin {
            if self.policy.origins.iter().any(|listed| listed.is(origin)) {
                return Visitor::Listed(origin.clone());
            }
            if !origin::is_own(origin, host) {
                return Visitor::Foreign;
            }
        }
        // A GET for an image or a frame has no `Origin`. A value that is not known is no proof of an own page.
        let same = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
        match headers.get_all(SEC_FETCH_SITE).iter().all(same) {
            true => Visitor::Own,
            false => Visitor::Foreign,
        }
    }
}

/// The host that a request is meant for. `None`: HTTP/1.0 without `Host`, which RFC 9112 §3.2 allows. No
/// browser speaks it, and it names no other host, so it is taken as meant for this node.
fn host(request: &Parts) -> Result<Option<Authority<'_>>, Problem> {
    let mut lines = request.headers.get_all(header::HOST).iter();
    let given =
        match (lines.next(), lines.next()) {
            (None, _) if request.version < Version::HTTP_11 => None,
            (None, _) => return Err(bad_host("the request has no 'Host', which HTTP/1.1 demands")),
            (Some(_), Some(_)) => return Err(bad_host("the request has more than one 'Host'")),
            (Some(line), None) => Some(Authority::parse(line.as_bytes()).ok_or_else(|| {
                bad_host("the request's 'Host' is not a host with an optional port")
            })?),
        };
    // RFC 9112 §3.2.2: with an absolute target, `Host` must be good, and does not count.
    match request.uri.authority() {
        Some(target) => match Authority::parse(target.as_str().as_bytes()) {
            Some(target) => Ok(Some(target)),
            None => Err(bad_host("the host in the request's target is malformed")),
        },
        None => Ok(given),
    }
}

fn bad_host(detail: &str) -> Problem {
    Problem::new(
        problems::BAD_HOST,
        format!("{detail}; send 'Host: HOST:PORT' once, with the node's address"),
    )
    .closing()
}

fn misdirected(host: &str) -> Problem {
    let detail = format!(
        "this node is not known as '{}'; use its address, or add that name to 'hosts' in [http]",
        shown(host)
    );
    Problem::new(problems::MISDIRECTED, detail)
}

/// What a page of a foreign origin is told: its developer sees it in the browser's console.
pub(crate) fn foreign(headers: &HeaderMap) -> Problem {
    let origin =
        headers.get(header::ORIGIN).map(|origin| String::from_utf8_lossy(origin.as_bytes()));
    let page = match &origin {
        Some(origin) => format!("a web page of the origin '{}'", shown(origin)),
        None => "a web page of another origin".to_owned(),
    };
    let detail = format!(
        "{page} may not use this node; add its origin to 'origins' in [http], or send an access token"
    );
    Problem::new(problems::FOREIGN_ORIGIN, detail)
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
