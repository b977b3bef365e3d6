//! One request and its answer, on a connection of their own.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use crate::error::{ClientError, late};

/// How long a connection may take to come about: nodes are near, and whoever waits has other nodes to ask.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The largest answer that is read: some 100,000 roles.
pub(crate) const MAX_ANSWER: usize = 32 * 1024 * 1024;

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Sends `request` to `authority` and reads the answer. `url` is for messages.
pub(crate) async fn exchange(
    url: &str,
    authority: &str,
    request: Request<Bytes>,
    within: Duration,
) -> Result<Answer, ClientError> {
    let unreachable = |reason| ClientError::Unreachable { url: url.to_owned(), reason };
    let connecting = tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(authority)).await;
    let stream = connecting
        .map_err(|_| unreachable(late(CONNECT_WITHIN)))?
        .map_err(|error| unreachable(error.to_string()))?;
    let no_answer = |reason| ClientError::NoAnswer { url: url.to_owned(), reason };
    let answering = tokio::time::timeout(within, answer(stream, request)).await;
    answering.map_err(|_| no_answer(late(within)))?.map_err(no_answer)
}

async fn answer(stream: TcpStream, request: Request<Bytes>) -> Result<Answer, String> {
    let shown = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(shown)?;
    // What goes wrong with the connection, the request hears as well.
    let _connection = Ended(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    let answer = sender.send_request(request.map(Full::new)).await.map_err(shown)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => format!("its answer is larger than {MAX_ANSWER} bytes"),
        None => error.to_string(),
    })?;
    Ok(Answer { status, body: body.to_bytes() })
}

/// Ends the connection's task with the call.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}
