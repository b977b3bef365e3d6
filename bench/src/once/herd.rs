//! A cold herd: so many connections ask for one key at the same moment.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::contestant::Served;
use super::{ANSWER_BYTES, ORIGIN_TAKES, ask};
use crate::measure::rank;

/// Many times what a herd takes.
const WITHIN: Duration = Duration::from_secs(60);
/// Connections that are opened at once: fewer than any contestant lets wait to be accepted.
const OPEN_AT_ONCE: usize = 64;
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
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    let askers: Vec<&Served> = servers.iter().cycle().take(size).collect();
    for some in askers.chunks(OPEN_AT_ONCE) {
        let opened = some.iter().map(|server| TcpStream::connect(server.address));
        for (stream, server) in try_join_all(opened).await?.into_iter().zip(some) {
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            readers.push(tokio::spawn(answered(reader)));
            let path = server.path(&key);
            writers.push((writer, format!("GET {path} HTTP/1.1\r\nHost: once\r\n\r\n")));
        }
    }
    // Nobody is asked yet: that all are connected is no part of the times.
    let set_off = Instant::now();
    for (writer, request) in &writers {
        // Nothing was sent before: a few bytes find room at once.
        let sent = writer.try_write(request.as_bytes());
        ensure!(
            sent.is_ok_and(|sent| sent == request.len()),
            "a request could not be sent at once"
        );
    }
    let answers = try_join_all(readers);
    let answers = tokio::time::timeout(WITHIN, answers).await.context("the herd is stuck")??;
    let mut beyond = Vec::with_capacity(size);
    for answered in answers {
        let took = answered?.saturating_duration_since(set_off).as_secs_f64();
        beyond.push((took - ORIGIN_TAKES.as_secs_f64()) * 1e3);
    }
    beyond.sort_by(f64::total_cmp);
    Ok(Herd { beyond, calls: ask::calls(origin, &key).await? })
}

/// When an answer was there in full. It must be the origin's.
async fn answered(mut reader: OwnedReadHalf) -> Result<Instant> {
    let mut buffer = vec![0; HEAD_MOST + ANSWER_BYTES];
    let mut filled = 0;
    loop {
        let read = reader.read(&mut buffer[filled..]).await?;
        filled += read;
        if let Some(length) = length(&buffer[..filled])?
            && filled >= length
        {
            return Ok(Instant::now());
        }
        ensure!(read > 0, "a connection was closed before its answer had come");
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
