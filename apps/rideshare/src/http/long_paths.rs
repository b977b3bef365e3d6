//! Paths that are longer than hyper's type for addresses can hold.
//!
//! That type holds 65,534 bytes. A name of 10,000 characters takes up to 120,000 bytes in percent code, but never more
//! than 40,000 as plain UTF-8. So the request line of such a request is shortened before hyper reads it: bytes beyond
//! ASCII are written as they are, and everything else stays as it was sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::server::MAX_HEAD;

/// Request lines up to this length stay as they are.
const SHORT: usize = 60_000;

/// How much is read at a time while a request line is not whole.
const STEP: usize = 8 * 1024;

/// A socket whose long request lines are shortened.
#[derive(Debug)]
pub(super) struct ShortPaths<S> {
    inner: S,
    /// Bytes that have been read and not handed on.
    held: BytesMut,
    begins: RequestBegins,
}

/// Whether the next byte of a socket begins a request. Whoever answers requests says so after each answer: by then
/// the body has been read.
#[derive(Clone, Debug)]
pub(super) struct RequestBegins(Arc<AtomicBool>);

/// What the first bytes of a request are.
#[derive(Debug, PartialEq, Eq)]
enum Beginning {
    /// A part of a request line.
    Part,
    /// A whole line of this length, with its end, or something else.
    Known(Option<usize>),
}

impl RequestBegins {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S> ShortPaths<S> {
    pub(super) fn new(inner: S) -> ShortPaths<S> {
        let begins = RequestBegins(Arc::new(AtomicBool::new(true)));
        ShortPaths { inner, held: BytesMut::new(), begins }
    }

    pub(super) fn begins(&self) -> RequestBegins {
        self.begins.clone()
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> ShortPaths<S> {
    /// Reads until the request line is whole, and shortens it if it is long.
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut step = [0; STEP];
            let mut step = ReadBuf::new(&mut step);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut step))?;
            self.held.extend_from_slice(step.filled());
            let known = match beginning(&self.held) {
                Beginning::Part if !step.filled().is_empty() => continue,
                Beginning::Part => None,
                Beginning::Known(line) => line,
            };
            if let Some(length) = known.filter(|length| *length > SHORT) {
                let rest = self.held.split_off(length);
                self.held = shortened(&self.held);
                self.held.extend_from_slice(&rest);
            }
            self.begins.0.store(false, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ShortPaths<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.begins.0.load(Ordering::Relaxed) {
            ready!(this.poll_line(context))?;
        }
        if this.held.is_empty() {
            return Pin::new(&mut this.inner).poll_read(context, into);
        }
        let length = this.held.len().min(into.remaining());
        into.put_slice(&this.held[..length]);
        this.held.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ShortPaths<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

/// A request line is `METHOD /PATH HTTP/1.1`. Anything else, such as the middle of a body that a client has sent
/// ahead, is handed on at once: it may have no end of a line to wait for.
fn beginning(bytes: &[u8]) -> Beginning {
    if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        return Beginning::Known(Some(end + 1));
    }
    let method = bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_line = method > 0 && bytes[method..].starts_with(b" /");
    if is_line && bytes.len() < MAX_HEAD { Beginning::Part } else { Beginning::Known(None) }
}

/// The same line with the bytes beyond ASCII as they are, if they are UTF-8.
fn shortened(line: &[u8]) -> BytesMut {
    let mut short = BytesMut::with_capacity(line.len());
    let mut rest = line;
    while let [byte, after @ ..] = rest {
        match escaped(rest).filter(|byte| !byte.is_ascii()) {
            Some(byte) => {
                short.extend_from_slice(&[byte]);
                rest = &rest[3..];
            }
            None => {
                short.extend_from_slice(&[*byte]);
                rest = after;
            }
        }
    }
    if std::str::from_utf8(&short).is_ok() { short } else { BytesMut::from(line) }
}

/// The byte that `%XX` stands for.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::delete;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::super::segment::PathSegment;
    use super::*;
    use crate::testing::TestServer;

    #[test]
    fn a_request_line_is_told_from_other_bytes() {
        for (bytes, expected) in [
            (&b"DELETE /api"[..], Beginning::Part),
            (b"", Beginning::Known(None)),
            (b"DEL", Beginning::Known(None)),
            (b" /", Beginning::Known(None)),
            (b"GET / HTTP/1.1\r\nhost: h", Beginning::Known(Some(16))),
            (b"{\"username\"", Beginning::Known(None)),
            (b"a b", Beginning::Known(None)),
            (b"xxx\n", Beginning::Known(Some(4))),
        ] {
            assert_eq!(beginning(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
        let endless = [b"GET /".to_vec(), vec![b'a'; MAX_HEAD]].concat();
        assert_eq!(beginning(&endless), Beginning::Known(None));
    }

    #[test]
    fn only_bytes_beyond_ascii_are_written_as_they_are() {
        for (line, short) in [
            ("DELETE /%E2%82%AC HTTP/1.1\r\n", "DELETE /€ HTTP/1.1\r\n"),
            ("DELETE /%e2%82%ac%2F%20%25%3F HTTP/1.1\r\n", "DELETE /€%2F%20%25%3F HTTP/1.1\r\n"),
            ("DELETE /%FF HTTP/1.1\r\n", "DELETE /%FF HTTP/1.1\r\n"),
            ("DELETE /%zz%E HTTP/1.1\r\n", "DELETE /%zz%E HTTP/1.1\r\n"),
            ("DELETE /%", "DELETE /%"),
        ] {
            assert_eq!(shortened(line.as_bytes()), short.as_bytes());
        }
    }

    #[tokio::test]
    async fn names_of_10_000_characters_are_read_whatever_the_characters() {
        let length = async |PathSegment(name): PathSegment| name.chars().count().to_string();
        let server = TestServer::start(Router::new().route("/users/{name}", delete(length))).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        for (character, code) in
            [("a", "a"), ("€", "%E2%82%AC"), ("🚗", "%F0%9F%9A%97"), (" ", "%20")]
        {
            assert_eq!(character.chars().count(), 1);
            let path = code.repeat(10_000);
            let request =
                format!("DELETE /users/{path} HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nxyz");
            // In pieces, as a network may deliver them, on one connection.
            for piece in request.as_bytes().chunks(50_000) {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
            }
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n10000") {
                assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{code}");
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 "), "{code}");
        }
    }
}
