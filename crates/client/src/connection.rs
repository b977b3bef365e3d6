//! A connection that is kept: for clients that send many requests, one after another.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::error::{ClientError, late};
use crate::exchange::{CONNECT_WITHIN, MAX_ANSWER};

/// One connection to a node, opened when it is first needed and again after it broke.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    within: Duration,
    max_answer: usize,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer, whatever it says.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Reply {
    /// The value of a header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Connection {
    /// A connection to the client's node, on which an answer may take as long as `within`.
    pub fn new(client: Client, within: Duration) -> Connection {
        Connection { client, within, max_answer: MAX_ANSWER, open: None }
    }

    /// The same, for answers of at most so many bytes.
    pub(crate) fn with_max_answer(mut self, bytes: usize) -> Connection {
        self.max_answer = bytes;
        self
    }

    /// The node's address.
    pub(crate) fn url(&self) -> &str {
        self.client.url()
    }

    /// Sends one request to `path`, which may have a query, and reads the answer. After an error the next
    /// call opens a new connection; whether the request was heard is not known then.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Reply, ClientError> {
        let request = self.request(method, path, headers, body.into())?;
        let within = self.within;
        let sent = tokio::time::timeout(within, self.exchange(request)).await;
        let result = sent.unwrap_or_else(|_| Err(self.no_answer(late(within))));
        if result.is_err() {
            self.open = None;
        }
        result
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        extra: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let wrong = |what: &dyn std::fmt::Display| self.no_answer(format!("not sent: {what}"));
        let full = format!("{}{path}", self.client.base_path());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = full.parse().map_err(|error| wrong(&error))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let host = HeaderValue::try_from(self.client.authority()).map_err(|error| wrong(&error))?;
        headers.insert(HOST, host);
        if let Some(token) = self.client.token() {
            headers.insert(AUTHORIZATION, token.clone());
        }
        for (name, value) in extra {
            let value = HeaderValue::try_from(*value).map_err(|error| wrong(&error))?;
            headers.insert(*name, value);
        }
        Ok(request)
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, ClientError> {
        let mut open = match self.open.take().filter(|open| !open.sender.is_closed()) {
            Some(open) => open,
            None => self.connect().await?,
        };
        let failed = |error: hyper::Error| self.no_answer(error.to_string());
        open.sender.ready().await.map_err(failed)?;
        let answer = open.sender.send_request(request).await.map_err(failed)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.max_answer).collect().await;
        let body = body.map_err(|error| self.no_answer(error.to_string()))?.to_bytes();
        self.open = Some(open);
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    async fn connect(&self) -> Result<Open, ClientError> {
        let url = || self.client.url().to_owned();
        let unreachable = |reason| ClientError::Unreachable { url: url(), reason };
        let connecting = TcpStream::connect(self.client.authority());
        let stream = tokio::time::timeout(CONNECT_WITHIN, connecting)
            .await
            .map_err(|_| unreachable(late(CONNECT_WITHIN)))?
            .map_err(|error| unreachable(error.to_string()))?;
        // Small requests, one at a time: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| unreachable(error.to_string()))?;
        // What goes wrong with the connection, the request hears as well.
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Open { sender, task })
    }

    fn no_answer(&self, reason: String) -> ClientError {
        ClientError::NoAnswer { url: self.client.url().to_owned(), reason }
    }
}
