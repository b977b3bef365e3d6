//! A client that remembers what it posted, so that its queries see it; and one that sends a body piece by
//! piece.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use consort_client::{Client, ClientError, Connection, Method, Reply};
use consort_cluster::Place;
use consort_views::Position;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::bed::PATIENCE;

/// Between two looks at a view.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Headers of a request.
pub(crate) type Headers<'a> = &'a [(&'static str, &'a str)];

/// A client with one connection.
pub(crate) struct Caller {
    connection: Connection,
    posted: Vec<Place>,
}

impl Caller {
    pub(crate) fn of(url: &str) -> Caller {
        let client = Client::new(url, None).expect("an address");
        Caller { connection: Connection::new(client, PATIENCE), posted: Vec::new() }
    }

    /// Any request; nothing is added to it.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Reply {
        let sent = self.connection.send(method, path, headers, body).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A post that may go unanswered.
    pub(crate) async fn try_post(
        &mut self,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Result<Reply, ClientError> {
        let reply = self.connection.send(Method::POST, path, headers, body).await?;
        self.remember(&reply);
        Ok(reply)
    }

    pub(crate) async fn post_with(
        &mut self,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Reply {
        let sent = self.try_post(path, headers, body).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Reply {
        self.post_with(path, &[], body).await
    }

    /// Posts what must be accepted.
    pub(crate) async fn accept(&mut self, path: &str, body: impl Into<Bytes>) -> Reply {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, 201, "{path}: {}", text(&reply));
        reply
    }

    /// Posts lines.
    pub(crate) async fn lines(&mut self, path: &str, body: impl Into<Bytes>) -> Reply {
        self.post_with(path, &[("content-type", "application/x-ndjson")], body).await
    }

    /// Asks, and sees all that this caller posted.
    pub(crate) async fn get_with(&mut self, path: &str, headers: Headers<'_>) -> Reply {
        let position = self.position();
        let mut all = headers.to_vec();
        if !position.is_empty() {
            all.push(("consort-after", &position));
        }
        self.send(Method::GET, path, &all, "").await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    /// Asks for what is there, as JSON.
    pub(crate) async fn json(&mut self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", text(&reply));
        assert_eq!(reply.header("content-type"), Some("application/json"), "{path}");
        json(&reply)
    }

    /// Asks for a group, and gives its value.
    pub(crate) async fn value(&mut self, path: &str) -> Value {
        self.json(path).await["value"].take()
    }

    /// Waits until the views have come as far as a position.
    pub(crate) async fn reaches(&mut self, position: &str) {
        let position: Position = position.trim().parse().expect("a position");
        self.posted.extend_from_slice(position.places());
        let first = self.json("/views").await["views"][0]["view"].take();
        let path = format!("/views/{}?limit=1", first.as_str().expect("a view"));
        self.json(&path).await;
    }

    /// Waits until a group has come to a value by what others sent.
    pub(crate) async fn comes_to(&mut self, path: &str, value: &Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.value(path).await;
            if said == *value {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{path}: {said} and not {value} within {PATIENCE:?}"
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Behind all that was posted.
    pub(crate) fn position(&self) -> String {
        Position::of(self.posted.iter().cloned()).to_string()
    }

    fn remember(&mut self, reply: &Reply) {
        let body = json_or_null(reply);
        let said = reply.header("consort-position").or_else(|| body["position"].as_str());
        if let Some(said) = said {
            let position: Position = said.parse().expect("a position");
            self.posted.extend_from_slice(position.places());
        }
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

pub(crate) fn json(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", text(reply)))
}

fn json_or_null(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

/// Checks that an answer is a problem of this kind which says these words.
#[track_caller]
pub(crate) fn is_problem(reply: &Reply, status: u16, kind: &str, words: &[&str]) {
    let said = text(reply);
    assert_eq!(reply.status, status, "{said}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{said}");
    let problem = json(reply);
    assert_eq!(problem["type"], format!("urn:consort:problem:{kind}"), "{said}");
    assert_eq!(problem["status"], status, "{said}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    for word in words {
        assert!(detail.contains(word), "'{word}' is not said: {said}");
    }
}

/// A post of lines that is sent in pieces.
pub(crate) struct Slow(TcpStream);

impl Slow {
    /// Sends the head of the request.
    pub(crate) async fn begin(address: SocketAddr, path: &str) -> Slow {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/x-ndjson\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("the head is sent");
        Slow(stream)
    }

    /// Sends a piece of the body.
    pub(crate) async fn piece(&mut self, piece: &[u8]) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        let sent = timeout(PATIENCE, self.0.write_all(&chunk)).await;
        sent.expect("the node reads").expect("the piece is sent");
    }

    /// Ends the body, and reads the answer's status and body.
    pub(crate) async fn end(mut self) -> (u16, Value) {
        self.0.write_all(b"0\r\n\r\n").await.expect("the end is sent");
        let mut answer = String::new();
        let read = timeout(PATIENCE, self.0.read_to_string(&mut answer)).await;
        read.expect("an answer").expect("it is text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }
}
