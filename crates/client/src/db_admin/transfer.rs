//! Files on their way from and to a node, piece by piece: a database may be larger than the memory.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::{TransferError, TransferProgress, read_reply};
use crate::client::Client;
use crate::connection::Reply;
use crate::error::{ClientError, late};
use crate::exchange::CONNECT_WITHIN;

/// How long the head of the answer may take: the node copies or loads a whole file before it.
const HEAD_WITHIN: Duration = Duration::from_secs(900);

/// How long a transfer may stand still.
const SILENT_FOR: Duration = Duration::from_secs(60);

/// Bytes of a file that are sent at once.
const STEP: usize = 64 * 1024;

/// The largest answer beside files.
const ANSWER_MOST: usize = 64 * 1024;

/// One connection, which ends with its value.
struct Link {
    answer: Response<Incoming>,
    _ended: Ended,
}

struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gets a file. A part of one is removed again.
pub(super) async fn download(
    client: &Client,
    path: &str,
    to: &Path,
    mut told: impl FnMut(TransferProgress),
) -> Result<String, TransferError> {
    let request = request(client, Method::GET, path, Empty::<Bytes>::new())?;
    let link = send(client, request).await?;
    let Link { answer, _ended } = link;
    let (head, mut body) = answer.into_parts();
    if !head.status.is_success() {
        let refused = answer_of(client, Response::from_parts(head, body)).await;
        return Err(refused.err().unwrap_or_else(|| no_answer(client, "no file")).into());
    }
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let total = length.and_then(|length| length.parse().ok());
    let position = head.headers.get("consort-position").and_then(|value| value.to_str().ok());
    let position = position.unwrap_or_default().to_owned();
    let mut partial = PartialFile::create(to).await?;
    let mut done = 0;
    while let Some(frame) = next_frame(client, &mut body).await? {
        let Ok(data) = frame.into_data() else { continue };
        partial.file.write_all(&data).await.map_err(|error| file_failed(to, error))?;
        done += data.len() as u64;
        told(TransferProgress { done, total });
    }
    if total.is_some_and(|total| total != done) {
        return Err(no_answer(client, "the file broke off").into());
    }
    partial.finish().await?;
    Ok(position)
}

/// Sends a file.
pub(super) async fn upload(
    client: &Client,
    path: &str,
    from: &Path,
    told: impl Fn(TransferProgress) + Send + Sync + 'static,
) -> Result<Value, TransferError> {
    let file = File::open(from).await.map_err(|error| file_failed(from, error))?;
    let length = file.metadata().await.map_err(|error| file_failed(from, error))?.len();
    let body = FileBody { file, left: length, length, told: Box::new(told) };
    let mut request = request(client, Method::PUT, path, body)?;
    let media_type = HeaderValue::from_static("application/vnd.sqlite3");
    request.headers_mut().insert(CONTENT_TYPE, media_type);
    let Link { answer, _ended } = send(client, request).await?;
    Ok(answer_of(client, answer).await?)
}

fn request<B>(
    client: &Client,
    method: Method,
    path: &str,
    body: B,
) -> Result<Request<B>, ClientError> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    let full = format!("{}{path}", client.base_path());
    *request.uri_mut() = full.parse().map_err(|_| no_answer(client, "its path is not one"))?;
    let host = HeaderValue::try_from(client.authority());
    request.headers_mut().insert(HOST, host.map_err(|_| no_answer(client, "its host is not one"))?);
    if let Some(token) = client.token() {
        request.headers_mut().insert(AUTHORIZATION, token.clone());
    }
    Ok(request)
}

async fn send<B>(client: &Client, request: Request<B>) -> Result<Link, ClientError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let unreachable =
        |reason: String| ClientError::Unreachable { url: client.url().to_owned(), reason };
    let connecting = TcpStream::connect(client.authority());
    let stream = tokio::time::timeout(CONNECT_WITHIN, connecting)
        .await
        .map_err(|_| unreachable(late(CONNECT_WITHIN)))?
        .map_err(|error| unreachable(error.to_string()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    // What goes wrong with the connection, the request hears as well.
    let ended = Ended(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    let answer = tokio::time::timeout(HEAD_WITHIN, sender.send_request(request)).await;
    let answer = answer
        .map_err(|_| no_answer(client, &late(HEAD_WITHIN)))?
        .map_err(|error| no_answer(client, &error.to_string()))?;
    Ok(Link { answer, _ended: ended })
}

/// A small answer.
async fn answer_of(client: &Client, answer: Response<Incoming>) -> Result<Value, ClientError> {
    let (head, body) = answer.into_parts();
    let body = tokio::time::timeout(SILENT_FOR, Limited::new(body, ANSWER_MOST).collect()).await;
    let body = body
        .map_err(|_| no_answer(client, &late(SILENT_FOR)))?
        .map_err(|error| no_answer(client, &error.to_string()))?
        .to_bytes();
    let reply = Reply { status: head.status, headers: head.headers, body };
    read_reply(client.url(), &reply)
}

async fn next_frame(
    client: &Client,
    body: &mut Incoming,
) -> Result<Option<Frame<Bytes>>, ClientError> {
    let frame = tokio::time::timeout(SILENT_FOR, body.frame()).await;
    let frame = frame.map_err(|_| no_answer(client, &late(SILENT_FOR)))?;
    frame.transpose().map_err(|error| no_answer(client, &error.to_string()))
}

fn no_answer(client: &Client, reason: &str) -> ClientError {
    ClientError::NoAnswer { url: client.url().to_owned(), reason: reason.to_owned() }
}

fn file_failed(path: &Path, source: io::Error) -> TransferError {
    TransferError::File { path: path.display().to_string(), source }
}

/// A file that is removed unless it was finished.
struct PartialFile<'a> {
    path: &'a Path,
    file: File,
    is_finished: bool,
}

impl<'a> PartialFile<'a> {
    /// An existing file is left alone.
    async fn create(path: &'a Path) -> Result<PartialFile<'a>, TransferError> {
        let file = File::create_new(path).await.map_err(|error| file_failed(path, error))?;
        Ok(PartialFile { path, file, is_finished: false })
    }

    async fn finish(mut self) -> Result<(), TransferError> {
        // A backup that a power loss could take is none.
        self.file.sync_all().await.map_err(|error| file_failed(self.path, error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The caller hears of the failure itself.
            let _ = std::fs::remove_file(self.path);
        }
    }
}

/// A file as the body of a request.
struct FileBody {
    file: File,
    left: u64,
    length: u64,
    told: Box<dyn Fn(TransferProgress) + Send + Sync>,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = BytesMut::zeroed(STEP.min(usize::try_from(self.left).unwrap_or(STEP)));
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.file).poll_read(context, &mut buffer))?;
        let read = buffer.filled().len();
        if read == 0 {
            let shorter = io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter");
            return Poll::Ready(Some(Err(shorter)));
        }
        piece.truncate(read);
        self.left -= read as u64;
        (self.told)(TransferProgress { done: self.length - self.left, total: Some(self.length) });
        Poll::Ready(Some(Ok(Frame::data(piece.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
