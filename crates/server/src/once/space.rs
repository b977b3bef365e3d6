//! One space of answers: where it asks, and on which terms its answers are kept.

use std::time::Duration;

use axum::http::{HeaderName, header};
use consort_kernel::Name;
use consort_once::Terms;

use super::envelope::OVERHEAD_MOST;
use super::template::Template;

/// How long an upstream may take in all, and to be connected to, unless it is said otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What a computation has beyond the upstream's time, so that it is the upstream that is said to be late.
const SLACK: Duration = Duration::from_secs(5);

/// How many headers of a request may be passed on. Each splits the answers by its values.
pub const HEADERS_MOST: usize = 8;

/// `[once.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub name: Name,
    pub upstream: Template,
    /// On which its answers are kept. `max_value` is the largest body.
    pub terms: Terms,
    /// From the beginning of a request to the end of its answer.
    pub timeout: Duration,
    /// To resolve the host and to connect.
    pub connect_timeout: Duration,
    /// The headers of requests that the upstream gets; their values are part of the key.
    pub headers: Vec<HeaderName>,
    /// Whether the upstream's `Cache-Control` decides, where it says something.
    pub honour: bool,
}

impl Space {
    /// A space with the usual settings.
    pub fn new(name: Name, upstream: Template) -> Space {
        Space {
            name,
            upstream,
            terms: Terms::default(),
            timeout: TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            headers: Vec::new(),
            honour: true,
        }
    }

    /// The terms for answers as they are kept, with what is around their bodies. How long the upstream may take is
    /// said by `timeout`, and by nothing else.
    pub(super) fn kept_terms(&self) -> Terms {
        let max_value = self.terms.max_value.saturating_add(OVERHEAD_MOST);
        let compute_for = self.terms.compute_for.max(self.timeout.saturating_add(SLACK));
        Terms { max_value, compute_for, ..self.terms.clone() }
    }
}

/// Reads the name of a header that may be passed to an upstream, or says why it may not.
pub fn passable(name: &str) -> Result<HeaderName, String> {
    let header = HeaderName::try_from(name)
        .map_err(|_| format!("has '{name}', which is no name of a header"))?;
    if header == header::AUTHORIZATION {
        return Err("cannot have 'authorization': it holds this node's access token".into());
    }
    let own = [
        header::HOST,
        header::USER_AGENT,
        header::VIA,
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
    ];
    let of_connections = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::EXPECT,
        header::PROXY_AUTHORIZATION,
    ];
    if own.contains(&header) || of_connections.contains(&header) || name == "keep-alive" {
        return Err(format!(
            "cannot have '{name}': Consort sets it, or it is about the connection"
        ));
    }
    let conditions = [
        header::RANGE,
        header::IF_RANGE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
        header::IF_UNMODIFIED_SINCE,
    ];
    if conditions.contains(&header) {
        return Err(format!(
            "cannot have '{name}': the upstream is always asked for the whole answer"
        ));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_lasts_as_long_as_the_upstream_may_take() {
        let upstream = Template::parse("http://127.0.0.1/{path}").unwrap();
        let mut space = Space::new(Name::new("items").unwrap(), upstream);
        for seconds in [1, 60, 600] {
            space.timeout = Duration::from_secs(seconds);
            assert!(space.kept_terms().compute_for > space.timeout, "{seconds}");
        }
    }

    #[test]
    fn headers_that_are_about_something_else_are_not_passed() {
        for name in ["accept", "Accept-Language", "cookie", "x-tenant"] {
            assert_eq!(passable(name).map(|header| header.to_string()), Ok(name.to_lowercase()));
        }
        for (name, words) in [
            ("a b", "no name of a header"),
            ("", "no name of a header"),
            ("Authorization", "access token"),
            ("host", "Consort sets it"),
            ("transfer-encoding", "about the connection"),
            ("keep-alive", "about the connection"),
            ("range", "the whole answer"),
            ("if-none-match", "the whole answer"),
        ] {
            let reason = passable(name).unwrap_err();
            assert!(reason.contains(words), "{name}: {reason}");
        }
    }
}
