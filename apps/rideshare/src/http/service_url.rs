//! Addresses of other processes.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use axum::http::uri::{Authority, PathAndQuery, Scheme};

/// The address of a process: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUrl(Authority);

/// A text that is no address of a process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write http://HOST:PORT, for example http://127.0.0.1:8001")]
pub(crate) struct ServiceUrlError;

impl ServiceUrl {
    /// The address of a path there.
    pub(crate) fn at(&self, path: &PathAndQuery) -> Result<Uri, axum::http::Error> {
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(self.0.clone());
        uri.path_and_query(path.clone()).build()
    }

    /// The address of a path that is known to be one.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

impl FromStr for ServiceUrl {
    type Err = ServiceUrlError;

    fn from_str(text: &str) -> Result<ServiceUrl, ServiceUrlError> {
        let uri: Uri = text.parse().map_err(|_| ServiceUrlError)?;
        let is_http = uri.scheme() == Some(&Scheme::HTTP);
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        match authority {
            Some(authority)
                if is_http && matches!(uri.path(), "" | "/") && uri.query().is_none() =>
            {
                Ok(ServiceUrl(authority.clone()))
            }
            _ => Err(ServiceUrlError),
        }
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port() {
        for (text, shown) in [
            ("http://127.0.0.1:8001", Some("http://127.0.0.1:8001")),
            ("http://127.0.0.1:8001/", Some("http://127.0.0.1:8001")),
            ("http://[::1]:8001", Some("http://[::1]:8001")),
            ("http://users.example", Some("http://users.example")),
            ("https://h:1", None),
            ("h:1", None),
            ("http://u:p@h:1", None),
            ("http://h:1/path", None),
            ("http://h:1/?q", None),
            ("", None),
        ] {
            let url = text.parse::<ServiceUrl>().ok();
            assert_eq!(url.map(|url| url.to_string()).as_deref(), shown, "{text}");
        }
    }
}
