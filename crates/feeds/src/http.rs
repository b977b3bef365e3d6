//! Posting to others: one request, on a connection of its own, with everything bounded.
//!
//! A connection is not kept: a batch of rows is worth one, and a request that is given up ends with its
//! connection. No redirect is followed: what leads elsewhere is for the operator to see.

mod reach;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::sink::Failed;
use crate::sink::config::origin;
use reach::Reach;

/// To resolve the host and to connect, TLS included: a sink that takes longer is not well.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How much of an answer is read. It says why something was refused, in a few lines.
const ANSWER_MOST: usize = 64 * 1024;

/// How much of that is repeated.
const SHOWN_MOST: usize = 300;

/// Answers that are about who asks and where, and not about what was sent: trying again is right, once
/// somebody has mended the one or the other. No row is to blame.
const NOT_THE_ROWS: [StatusCode; 9] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::PAYMENT_REQUIRED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::TOO_MANY_REQUESTS,
];

/// One request.
pub(crate) struct Post<'a> {
    pub(crate) url: &'a Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Client {
    reach: Reach,
}

impl Client {
    /// To any address.
    pub(crate) fn anywhere() -> Client {
        Client { reach: Reach::Anywhere }
    }

    /// To public addresses alone.
    pub(crate) fn public_only() -> Client {
        Client { reach: Reach::PublicOnly }
    }

    /// Posts, and judges the answer.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<(), Failed> {
        let place = origin(post.url);
        let connecting = timeout(CONNECT_WITHIN, self.connect(post.url)).await;
        let stream = connecting
            .unwrap_or_else(|_| Err(format!("no connection within {CONNECT_WITHIN:?}")))
            .map_err(|reason| Failed::retry(format!("{place} cannot be reached: {reason}")))?;
        let answer = exchange(stream, post).await;
        let (head, body) =
            answer.map_err(|reason| Failed::retry(format!("{place} did not answer: {reason}")))?;
        judge(&place, &head, &body)
    }

    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, String> {
        let host = url.host_str().ok_or("the URL has no host")?;
        let port = url.port_or_known_default().ok_or("the URL has no port")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((bare, port)).await;
        let found = found.map_err(|error| error.to_string())?;
        // What was checked is what is connected to: asking for the name again could give another address.
        let addresses = self.reach.allowed(found)?;
        let stream = connect_to_one(&addresses).await.map_err(|error| error.to_string())?;
        if url.scheme() != "https" {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(tls()?);
        let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
        Ok(Box::new(stream))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn connect_to_one(addresses: &[std::net::SocketAddr]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addresses).await?;
    // A request is written in one piece, and nothing is to be gained by holding its end back.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// TLS towards others: it trusts whom the system trusts.
pub fn tls() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let make = || {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| format!("TLS cannot be used: {error}"))?;
        Ok(Arc::new(config.with_no_client_auth()))
    };
    CONFIG.get_or_init(make).clone()
}

async fn exchange(
    stream: Box<dyn Stream>,
    post: Post<'_>,
) -> Result<(Response<()>, Bytes), String> {
    let shown = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(shown)?;
    // What goes wrong with the connection, the request hears as well.
    let _connection = Ended(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    let answer = sender.send_request(request(post)?).await.map_err(shown)?;
    let (head, body) = answer.into_parts();
    // An answer that is too long or breaks off has said what matters: its status.
    let body = Limited::new(body, ANSWER_MOST).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Ok((Response::from_parts(head, ()), body))
}

fn request(post: Post<'_>) -> Result<Request<Full<Bytes>>, String> {
    let Post { url, headers, body } = post;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.parse().map_err(|_| "the URL cannot be asked for")?;
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let host = HeaderValue::try_from(host).map_err(|_| "the URL's host cannot be asked for")?;
    let own = [
        (HOST, host),
        (USER_AGENT, HeaderValue::from_static("consort")),
        (CONNECTION, HeaderValue::from_static("close")),
    ];
    request.headers_mut().extend(own.into_iter().chain(headers));
    Ok(request)
}

/// Ends the connection's task with the call.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn judge(place: &str, head: &Response<()>, body: &[u8]) -> Result<(), Failed> {
    let status = head.status();
    if status.is_success() {
        return Ok(());
    }
    let said = said(body);
    let reason = format!("{place} answered {status}{said}");
    if status.is_redirection() {
        let to = head.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
        let to: String = to.chars().take(SHOWN_MOST).collect();
        let reason = format!("{reason}; redirects are not followed (it leads to {to}): set 'url'");
        return Err(Failed::retry(reason));
    }
    if status.is_client_error() && !NOT_THE_ROWS.contains(&status) {
        return Err(Failed::refused(reason));
    }
    let after = head.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok());
    let after = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
    Err(Failed::Retry { reason, after })
}

/// What the answer says, as the end of a sentence.
fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let shown: String =
        text.chars().take(SHOWN_MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(": {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, header: Option<(HeaderName, &'static str)>) -> Result<(), Failed> {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some((name, value)) = header {
            head.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        judge("http://h", &head, b"why\nnot")
    }

    #[test]
    fn answers_are_told_apart_by_whom_they_blame() {
        for status in [200, 201, 204] {
            assert_eq!(judged(status, None), Ok(()));
        }
        for status in [400, 409, 413, 415, 422] {
            let failed = judged(status, None).unwrap_err();
            assert!(matches!(failed, Failed::Refused { .. }), "{status}");
        }
        for status in [301, 308, 401, 403, 404, 408, 429, 500, 502, 503, 504] {
            let failed = judged(status, None).unwrap_err();
            assert!(matches!(failed, Failed::Retry { after: None, .. }), "{status}");
        }
        let reason = "http://h answered 400 Bad Request: why not".into();
        assert_eq!(judged(400, None), Err(Failed::Refused { reason }));
    }

    #[test]
    fn a_sink_may_say_when_to_come_again() {
        let failed = judged(503, Some((RETRY_AFTER, "7"))).unwrap_err();
        assert!(matches!(failed, Failed::Retry { after: Some(time), .. } if time.as_secs() == 7));
        let failed = judged(429, Some((RETRY_AFTER, "Wed, 21 Oct 2026"))).unwrap_err();
        assert!(matches!(failed, Failed::Retry { after: None, .. }));
    }

    #[test]
    fn a_redirect_is_shown_and_not_followed() {
        let failed = judged(302, Some((LOCATION, "http://169.254.169.254/"))).unwrap_err();
        let Failed::Retry { reason, .. } = failed else { panic!("{failed:?}") };
        assert!(reason.contains("not followed (it leads to http://169.254.169.254/)"), "{reason}");
    }
}
