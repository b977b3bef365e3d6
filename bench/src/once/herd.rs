//! A cold herd: so many connections ask for one key at the same moment.
//!
//! One thread sends all requests and then reads whatever is there, with as little work of its own as possible: it
//! shares the machine with those whom it measures.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mio::{Events, Interest, Poll, Token};

use super::contestant::Served;
use super::{ANSWER_BYTES, ORIGIN_TAKES, ask};
use crate::measure::rank;

/// Many times what a herd takes.
const WITHIN: Duration = Duration::from_secs(60);
/// Connections that are opened at once, and the pause after them: fewer than any contestant lets wait to be
/// accepted.
const OPEN_AT_ONCE: usize = 64;
const OPEN_PAUSE: Duration = Duration::from_millis(5);
/// From the last connection to the herd: until every contestant has accepted all of them and is at rest.
const REST: Duration = Duration::from_millis(200);
/// The headers of an answer are shorter than this.
const HEAD_MOST: usize = 2_048;

/// What became of a herd.
#[derive(Debug)]
pub(super) struct Herd {
    /// From the moment at which the herd sets off until each answer is there in full, beyond the time that the
    /// origin takes, in milliseconds; sorted.
    beyond: Vec<f64>,
    /// How often the origin was asked.
    pub(super) calls: u64,
}

impl Herd {
    /// The time beyond the origin's that so many do not exceed, in milliseconds.
    pub(super) fn p(&self, part: f64) -> f64 {
        rank(&self.beyond, part)
    }
}

/// Sends a herd to these servers, spread evenly.
pub(super) async fn run(size: usize, servers: &[Served], origin: &Served) -> Result<Herd> {
    let key = ask::fresh_key();
    let asked: Vec<_> = servers.iter().map(|server| (server.address, server.path(&key))).collect();
    let asked: Vec<_> = asked.into_iter().cycle().take(size).collect();
    let beyond = tokio::task::spawn_blocking(move || ask_all(&asked)).await??;
    Ok(Herd { beyond, calls: ask::calls(origin, &key).await? })
}

/// One who asks.
struct Asker {
    stream: mio::net::TcpStream,
    request: String,
    answer: Vec<u8>,
}

fn ask_all(asked: &[(std::net::SocketAddr, String)]) -> Result<Vec<f64>> {
    let mut poll = Poll::new()?;
    let mut askers = Vec::with_capacity(asked.len());
    for (place, (address, path)) in asked.iter().enumerate() {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = Vec::with_capacity(HEAD_MOST + ANSWER_BYTES);
        askers.push(Asker { stream, request, answer });
        if place % OPEN_AT_ONCE == 0 {
            std::thread::sleep(OPEN_PAUSE);
        }
    }
    // Nobody is asked yet: that all are connected is no part of the times.
    std::thread::sleep(REST);
    let set_off = Instant::now();
    for asker in &mut askers {
        // Nothing was sent before: a few bytes find room at once.
        let sent = asker.stream.write(asker.request.as_bytes()).context("a request is sent")?;
        ensure!(sent == asker.request.len(), "a request could not be sent at once");
    }
    let mut beyond = Vec::with_capacity(askers.len());
    let mut events = Events::with_capacity(256);
    while beyond.len() < askers.len() {
        poll.poll(&mut events, Some(WITHIN))?;
        ensure!(!events.is_empty(), "the herd is stuck: {} answers came", beyond.len());
        for event in &events {
            if askers[event.token().0].is_answered()? {
                let took = set_off.elapsed().as_secs_f64() - ORIGIN_TAKES.as_secs_f64();
                beyond.push(took * 1e3);
            }
        }
    }
    beyond.sort_by(f64::total_cmp);
    Ok(beyond)
}

impl Asker {
    /// Reads what is there. Whether the answer, which must be the origin's, is complete with it.
    fn is_answered(&mut self) -> Result<bool> {
        let mut buffer = [0; HEAD_MOST + ANSWER_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("a connection was closed before its answer had come"),
                Ok(read) => self.answer.extend(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error).context("an answer is read"),
            }
            if length(&self.answer)?.is_some_and(|length| self.answer.len() >= length) {
                return Ok(true);
            }
        }
    }
}

/// How long an answer is in all, once its head is there.
fn length(answer: &[u8]) -> Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_length) = head.parse(answer)? else { return Ok(None) };
    let said = head.headers.iter().find(|said| said.name.eq_ignore_ascii_case("content-length"));
    let body = said.and_then(|said| std::str::from_utf8(said.value).ok()?.parse::<usize>().ok());
    if head.code != Some(200) || body != Some(ANSWER_BYTES) {
        bail!("an answer of another kind: {}", String::from_utf8_lossy(answer));
    }
    Ok(Some(head_length + ANSWER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body() {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_BYTES}\r\n\r\n");
        assert_eq!(length(head.as_bytes()).unwrap(), Some(head.len() + ANSWER_BYTES));
        assert_eq!(length(&head.as_bytes()[..30]).unwrap(), None);
    }

    #[test]
    fn an_error_is_no_answer() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno!";
        assert!(length(answer).unwrap_err().to_string().contains("503"));
    }
}
