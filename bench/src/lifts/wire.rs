//! A connection that posts finished requests and reads no more of the answers than it must: the load
//! shares its machine with what it loads.

use std::io;
use std::net::SocketAddr;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than any answer's.
const HEADERS: usize = 32;

/// A kept-alive connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    read: BytesMut,
}

/// What an answer's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Bytes of the head itself, and of the body.
    length: usize,
    body: usize,
    closes: bool,
}

/// How a post was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// Whether the connection is of no more use.
    pub(super) closes: bool,
}

impl Wire {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, read: BytesMut::with_capacity(1024) })
    }

    /// Posts, and waits for the answer.
    pub(super) async fn post(&mut self, request: &[u8]) -> io::Result<Answered> {
        self.stream.write_all(request).await?;
        let head = loop {
            if let Some(head) = head(&self.read)? {
                break head;
            }
            self.more().await?;
        };
        while self.read.len() < head.length + head.body {
            self.more().await?;
        }
        self.read.advance(head.length + head.body);
        Ok(Answered { status: head.status, closes: head.closes })
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The head at the beginning of `read`; `None` if it is not complete.
fn head(read: &[u8]) -> io::Result<Option<Head>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(read).map_err(|error| wrong(error.to_string()))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let value = |name: &str| {
        let header = answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let body = value("content-length").and_then(|length| length.trim().parse().ok());
    let body = body.ok_or_else(|| wrong("an answer without content-length".into()))?;
    let closes = value("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"));
    Ok(Some(Head { status: answer.code.unwrap_or(0), length, body, closes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 14\r\n\r\n{\"accepted\":1}";
        let length = answer.len() - 14;
        assert_eq!(head(&answer[..length - 1]).unwrap(), None);
        let read = Head { status: 201, length, body: 14, closes: false };
        assert_eq!(head(answer).unwrap(), Some(read));
    }

    #[test]
    fn an_answer_may_end_its_connection() {
        let answer =
            b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let read = Head { status: 503, length: answer.len(), body: 0, closes: true };
        assert_eq!(head(answer).unwrap(), Some(read));
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
