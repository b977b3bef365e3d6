//! A connection while all that comes by it are plain posts. They are read and answered here, without hyper, of whose
//! care for everything that HTTP allows they need nothing; it costs more than the post itself.
//!
//! With the first request that is not plain, the connection is hyper's, for good, with all that was read of it.

use std::cell::RefCell;
use std::pin::pin;
use std::time::SystemTime;

use axum::body::to_bytes;
use axum::http::{StatusCode, header};
use axum::response::Response;
use bytes::{Buf as _, Bytes, BytesMut};
use consort_views::text_of;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::head::{self, Head, Read};
use super::{Cut, Plain, Way};
use crate::framing;
use crate::socket::{Phase, Progress, Socket};
use crate::streams::Outcome;

/// What a connection reads at once: a plain post, and mostly more than that.
const BUFFER: usize = 2 * 1024;

/// How a connection goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is hyper's, with what was read of the next request.
    Others(Bytes),
    /// It is over. Whether it was at rest when the server was told to stop.
    Closed { at_rest: bool },
}

/// Answers plain posts.
pub(crate) async fn serve(
    way: &Way,
    socket: &mut Socket<TcpStream>,
    progress: &Progress,
    stopping: &watch::Receiver<bool>,
) -> End {
    let (mut read, mut answer) = (BytesMut::new(), Vec::new());
    let mut watched = stopping.clone();
    // A server that is gone without having said stop counts as stopping.
    let mut told_to_stop = pin!(async { drop(watched.wait_for(|stop| *stop).await) });
    let mut told = false;
    loop {
        let plain = match head::read(&read) {
            Read::Other => return End::Others(read.freeze()),
            Read::TwoLengths => {
                // The connection ends, so a client that does not take the answer changes nothing.
                let _ = socket.write_all(&framing::two_lengths().to_http1()).await;
                return End::Closed { at_rest: false };
            }
            Read::More => {
                read.reserve(BUFFER);
                let came = tokio::select! {
                    biased;
                    came = socket.read_buf(&mut read) => came,
                    () = &mut told_to_stop, if !told => {
                        if read.is_empty() {
                            return End::Closed { at_rest: true };
                        }
                        // A request that has begun to come is answered, and is the last.
                        told = true;
                        continue;
                    }
                };
                match came {
                    Ok(0) | Err(_) => return End::Closed { at_rest: false },
                    Ok(_) => continue,
                }
            }
            Read::Plain(head) => {
                let Head { path, host, said, body_at, body_length } = head;
                let plain = match way.accepts_host(host) {
                    true => way.plain(path, &said, body_length as u64),
                    false => None,
                };
                plain.map(|plain| (plain, body_at, body_length))
            }
        };
        let Some((plain, body_at, body_length)) = plain else { return End::Others(read.freeze()) };
        progress.enter(Phase::Answering);
        read.advance(body_at);
        let body = whole(&mut read, body_length, socket, way).await;
        let goes_on = {
            let answering = pin!(plain.write(body, stopping, &mut answer));
            tokio::select! {
                biased;
                goes_on = answering => goes_on,
                // A client that has left makes room for others.
                () = left(socket, &mut read) => return End::Closed { at_rest: false },
            }
        };
        if socket.write_all(&answer).await.is_err() || !goes_on {
            return End::Closed { at_rest: false };
        }
        answer.clear();
        // Some clients end a body with a line break that does not count.
        while read.first().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            read.advance(1);
        }
        progress.enter(if read.is_empty() { Phase::Idle } else { Phase::Head });
    }
}

/// Returns when the client has left. What it sends meanwhile is kept, and then its leaving is not noticed before the
/// answer is written. A client that only ends its sending side waits for its answer.
async fn left(socket: &mut Socket<TcpStream>, read: &mut BytesMut) {
    if read.is_empty() {
        read.reserve(BUFFER);
        match socket.read_buf(read).await {
            Ok(0) => return socket.reset().await,
            Ok(_) => {}
            Err(_) => return,
        }
    }
    std::future::pending().await
}

/// The body, of which some has been read.
async fn whole(
    read: &mut BytesMut,
    length: usize,
    socket: &mut Socket<TcpStream>,
    way: &Way,
) -> Result<Bytes, Cut> {
    if read.len() < length {
        let patience = way.door.limits.body;
        let more = async {
            read.reserve(length - read.len());
            while read.len() < length {
                if !matches!(socket.read_buf(read).await, Ok(1..)) {
                    return Err(Cut::Short);
                }
            }
            Ok(())
        };
        tokio::time::timeout(patience, more).await.map_err(|_| Cut::Slow(patience))??;
    }
    Ok(read.split_to(length).freeze())
}

impl Plain {
    /// Writes the answer to the events of its body; false if the connection ends with it.
    async fn write(
        self,
        body: Result<Bytes, Cut>,
        stopping: &watch::Receiver<bool>,
        to: &mut Vec<u8>,
    ) -> bool {
        let Plain { began, posted, metrics, door } = self;
        let answer = match body {
            Ok(body) => super::catch(posted.events(body)).await,
            Err(cut) => Outcome::Other(cut.answer(&door)),
        };
        let mut closes = *stopping.borrow();
        let status = match answer {
            Outcome::Accepted(place) => {
                to.extend_from_slice(
                    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nconsort-position: ",
                );
                to.extend_from_slice(text_of(&place).as_bytes());
                to.extend_from_slice(b"\r\ncontent-length: 14\r\n");
                end_head(closes, to);
                to.extend_from_slice(b"{\"accepted\":1}");
                StatusCode::CREATED
            }
            Outcome::Other(response) => {
                let status = response.status();
                closes |=
                    response.headers().get(header::CONNECTION).is_some_and(|it| it == "close");
                write(response, closes, to).await;
                status
            }
        };
        door.metrics.answered_by(&metrics, status, began.elapsed());
        !closes
    }
}

/// Writes an answer of any kind, whose body is there.
async fn write(response: Response, closes: bool, to: &mut Vec<u8>) {
    let (head, body) = response.into_parts();
    // What is answered to posts was made in memory.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let reason = head.status.canonical_reason().unwrap_or_default();
    to.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", head.status.as_u16()).as_bytes());
    for (name, value) in head.headers.iter().filter(|(name, _)| *name != header::CONNECTION) {
        to.extend_from_slice(name.as_str().as_bytes());
        to.extend_from_slice(b": ");
        to.extend_from_slice(value.as_bytes());
        to.extend_from_slice(b"\r\n");
    }
    if !head.headers.contains_key(header::CONTENT_LENGTH) {
        to.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    end_head(closes, to);
    to.extend_from_slice(&body);
}

fn end_head(closes: bool, to: &mut Vec<u8>) {
    if closes {
        to.extend_from_slice(b"connection: close\r\n");
    }
    to.extend_from_slice(b"date: ");
    with_date(|date| to.extend_from_slice(date.as_bytes()));
    to.extend_from_slice(b"\r\n\r\n");
}

/// The date as a header says it, which is written anew once a second.
fn with_date(then: impl FnOnce(&str)) {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(written, date)| {
        if *written != second || date.is_empty() {
            (*written, *date) = (second, httpdate::fmt_http_date(now));
        }
        then(date);
    });
}
