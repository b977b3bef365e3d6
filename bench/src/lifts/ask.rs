//! Single requests: questions to a contestant, and posts of many lines.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Questions are answered at once, even under load.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What is handed to the connection at a time.
const CHUNK: usize = 64 * 1024;

/// An answer in full.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// The body as text, if the status is a success.
    pub(super) fn text(&self) -> Result<String> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        ensure!(self.status.is_success(), "{}: {text}", self.status);
        Ok(text)
    }

    /// A header that is a number.
    pub(super) fn number(&self, header: &str) -> Option<f64> {
        self.headers.get(header)?.to_str().ok()?.trim().parse().ok()
    }
}

/// `GET path`.
pub(super) async fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    let request =
        Request::get(path).header("host", address.to_string()).body(Full::<Bytes>::default())?;
    let answer = tokio::time::timeout(ANSWER_WITHIN, send(address, request));
    answer.await.context("no answer").flatten().with_context(|| format!("GET {path}"))
}

/// `POST path` with lines of JSON, whose end is not told beforehand.
pub(super) async fn post_lines(
    address: SocketAddr,
    path: &str,
    lines: Bytes,
    within: Duration,
) -> Result<Answer> {
    let chunks = (0..lines.len()).step_by(CHUNK).map(move |from| {
        let chunk = lines.slice(from..lines.len().min(from + CHUNK));
        Ok::<_, Infallible>(Frame::data(chunk))
    });
    let body = StreamBody::new(stream::iter(chunks));
    let request = Request::post(path)
        .header("host", address.to_string())
        .header("content-type", "application/x-ndjson")
        .body(body)?;
    let answer = tokio::time::timeout(within, send(address, request));
    answer.await.context("no answer").flatten().with_context(|| format!("POST {path}"))
}

async fn send<B>(address: SocketAddr, request: Request<B>) -> Result<Answer>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status: head.status, headers: head.headers, body })
}
