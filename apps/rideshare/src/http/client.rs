//! The client with which processes ask each other.

use std::time::Duration;

use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

/// How long a connection may take to come about: processes are near.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// How long an unused connection is kept; the server of this program closes its own after a minute.
const IDLE_WITHIN: Duration = Duration::from_secs(30);

/// The largest answer that is taken: the database answers with at most 64 MiB.
const MAX_ANSWER: usize = 128 * 1024 * 1024;

/// Asks other processes, over kept connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Client<HttpConnector, Full<Bytes>>);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpFailure {
    /// The request certainly did not reach the other process.
    #[error("it cannot be reached: {0}")]
    NotSent(String),
    /// The request may have been carried out.
    #[error("it did not answer: {0}")]
    NoAnswer(String),
}

impl HttpClient {
    pub(crate) fn new() -> HttpClient {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        connector.set_nodelay(true);
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_WITHIN);
        HttpClient(client.build(connector))
    }

    /// Sends one request, whose URI is absolute, and reads the whole answer.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        within: Duration,
    ) -> Result<Response<Bytes>, HttpFailure> {
        let exchange = self.exchange(request);
        timeout(within, exchange).await.unwrap_or_else(|_| {
            Err(HttpFailure::NoAnswer(format!("nothing came within {within:?}")))
        })
    }

    /// Sends a `GET` with these headers.
    pub(crate) async fn get(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        within: Duration,
    ) -> Result<Response<Bytes>, HttpFailure> {
        let mut request = Request::get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::new());
        let request = request.map_err(|error| HttpFailure::NotSent(error.to_string()))?;
        self.send(request, within).await
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpFailure> {
        let answer = self.0.request(request.map(Full::new)).await.map_err(|error| {
            let reason = with_causes(&error);
            match error.is_connect() {
                true => HttpFailure::NotSent(reason),
                false => HttpFailure::NoAnswer(reason),
            }
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| HttpFailure::NoAnswer(error.to_string()))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// An error and its causes in one line: the error alone says too little.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
