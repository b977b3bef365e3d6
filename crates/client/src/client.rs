//! The calls.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::Role;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use url::Url;

use crate::answers::{Cluster, From, Resolved};
use crate::error::{AddressError, ClientError};
use crate::exchange::{Answer, exchange};

/// How long a node may take to answer. It gives up looking at the cluster after five seconds itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// How long a decision may take: to find the end of a partition, the node reads all of it.
const RESOLVE_WITHIN: Duration = Duration::from_secs(300);

/// How much of an answer that is not understood is shown.
const SHOWN: usize = 200;

/// A client of one node.
#[derive(Clone)]
pub struct Client {
    url: Url,
    token: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    r#type: String,
    detail: String,
}

impl Client {
    /// A client of the node at `url`, `http://HOST:PORT`; `http://` may be left out. No connection is
    /// made yet.
    pub fn new(url: &str, token: Option<&str>) -> Result<Client, AddressError> {
        let wrong = |reason: &str| AddressError { address: url.into(), reason: reason.into() };
        let full = if url.contains("://") { url.into() } else { format!("http://{url}") };
        let parsed = Url::parse(&full).map_err(|error| wrong(&error.to_string()))?;
        match parsed.scheme() {
            "http" => {}
            "https" => {
                return Err(wrong("nodes speak plain HTTP; behind TLS, give the inner address"));
            }
            _ => return Err(wrong("only http:// is understood")),
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("a name or password has no use, nodes take access tokens"));
        }
        let token = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| wrong("the access token has characters that no token has"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Client { url: parsed, token: token.transpose()? })
    }

    /// The node's address.
    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// The same client of another node.
    pub fn at(&self, url: &str) -> Result<Client, AddressError> {
        Ok(Client { token: self.token.clone(), ..Client::new(url, None)? })
    }

    /// The cluster as the node sees it.
    pub async fn cluster(&self) -> Result<Cluster, ClientError> {
        let request = self.request(Method::GET, &["cluster"], Bytes::new());
        self.json(request, ANSWER_WITHIN).await
    }

    /// Asks that node `id` hands its roles over and leaves. It has only begun when this returns.
    pub async fn drain(&self, id: &str) -> Result<(), ClientError> {
        let path = ["cluster", "nodes", id, "drain"];
        let request = self.request(Method::POST, &path, Bytes::from_static(b"{}"));
        self.call(request, ANSWER_WITHIN).await.map(drop)
    }

    /// Makes a role that stopped for a loss go on.
    pub async fn resolve(&self, role: &Role, from: From) -> Result<Resolved, ClientError> {
        let body = Bytes::from(json!({ "from": from }).to_string());
        let path = ["cluster", "roles", &role.to_string(), "resolve"];
        self.json(self.request(Method::POST, &path, body), RESOLVE_WITHIN).await
    }

    /// What all paths begin with.
    pub(crate) fn base_path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        authority(&self.url)
    }

    pub(crate) fn token(&self) -> Option<&HeaderValue> {
        self.token.as_ref()
    }

    fn request(&self, method: Method, path: &[&str], body: Bytes) -> Request<Bytes> {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut request = Request::new(body);
        *request.method_mut() = method;
        // What the URL crate writes as a path, hyper reads as one.
        *request.uri_mut() = url.path().parse().unwrap_or_default();
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::try_from(authority(&url)) {
            headers.insert(HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        request
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: Request<Bytes>,
        within: Duration,
    ) -> Result<T, ClientError> {
        let body = self.call(request, within).await?;
        serde_json::from_slice(&body).map_err(|error| self.unreadable(&error, &body))
    }

    /// The body of a success.
    async fn call(&self, request: Request<Bytes>, within: Duration) -> Result<Bytes, ClientError> {
        let Answer { status, body } =
            exchange(self.url(), &authority(&self.url), request, within).await?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(Problem { r#type, detail }) => {
                let kind = r#type.rsplit(':').next().unwrap_or_default().to_owned();
                Err(ClientError::Refused { status: status.as_u16(), kind, detail })
            }
            Err(_) => Err(self.unreadable(&status_text(status), &body)),
        }
    }

    fn unreadable(&self, reason: &dyn fmt::Display, body: &[u8]) -> ClientError {
        let text = String::from_utf8_lossy(body);
        let shown: String = text.chars().take(SHOWN).collect();
        let reason = format!("{reason} in '{}'", shown.trim());
        ClientError::Unreadable { url: self.url().to_owned(), reason }
    }
}

/// The token stays untold.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url()).finish_non_exhaustive()
    }
}

fn status_text(status: StatusCode) -> String {
    format!("status {status}")
}

/// Host and port, as a socket takes them.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{}", url.port_or_known_default().unwrap_or(80))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_people_write_it() {
        for (given, url, authority_is) in [
            ("http://127.0.0.1:7400", "http://127.0.0.1:7400", "127.0.0.1:7400"),
            ("127.0.0.1:7400", "http://127.0.0.1:7400", "127.0.0.1:7400"),
            ("localhost:7400/", "http://localhost:7400", "localhost:7400"),
            ("http://[::1]:7400", "http://[::1]:7400", "[::1]:7400"),
            ("http://example.org/consort/", "http://example.org/consort", "example.org:80"),
        ] {
            let client = Client::new(given, None).unwrap();
            assert_eq!(client.url(), url);
            assert_eq!(authority(&client.url), authority_is);
        }
        for (bad, reason) in [
            ("https://h:1", "plain HTTP"),
            ("ftp://h:1", "only http://"),
            ("http://", "empty host"),
            ("http://u:s3cret@h", "access tokens"),
            ("h:port", "invalid port"),
        ] {
            let error = Client::new(bad, None).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("http://HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn a_role_is_one_segment_of_the_path() {
        let client = Client::new("http://h/consort", Some("0123456789abcdef")).unwrap();
        let path = ["cluster", "roles", "worker:lift_rides/7", "resolve"];
        let request = client.request(Method::POST, &path, Bytes::new());
        assert_eq!(request.uri(), "/consort/cluster/roles/worker:lift_rides%2F7/resolve");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer 0123456789abcdef");
        assert!(!format!("{client:?} {request:?}").contains("0123456789abcdef"));
    }
}
