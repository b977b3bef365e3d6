//! The client of a database over real sockets: what is sent, and which node is asked next.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use consort_client::{DbClient, DbClientError, ReadConsistency, SqlStatement};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const WITHIN: Duration = Duration::from_secs(4);

const STORED: &str =
    r#"{"position": "1-17", "index": 17, "results": [{"changes": 1, "last_id": null}]}"#;
const ROWS: &str =
    r#"{"columns": ["a"], "rows": [["x"]], "position": "1-17", "index": 17, "worker": 3}"#;
const NO_WORKER: &str =
    r#"{"type": "urn:consort:problem:db-no-worker", "detail": "none", "outcome": "not stored"}"#;
const CONSTRAINT: &str =
    r#"{"type": "urn:consort:problem:db-constraint", "detail": "taken", "outcome": "not stored"}"#;
const OLD_ERA: &str =
    r#"{"type": "urn:consort:problem:db-era", "detail": "restored", "outcome": "not stored"}"#;

/// One answer of a node.
#[derive(Clone, Copy)]
enum Answer {
    /// A status, a position and a body.
    Says(u16, &'static str, &'static str),
    /// The request is read, and the connection closed.
    HangsUp,
    /// The request is read, and nothing is said.
    Silent,
}

/// A socket that gives these answers, one after another, whatever is asked.
struct Node {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Node {
    async fn start(answers: impl IntoIterator<Item = Answer>) -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (answers, heard_too) =
            (answers.into_iter().collect::<Vec<_>>().into_iter(), heard.clone());
        tokio::spawn(serve(listener, answers, heard_too));
        Node { url, heard }
    }

    /// The requests so far.
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve(
    listener: TcpListener,
    mut answers: impl Iterator<Item = Answer>,
    heard: Arc<Mutex<Vec<String>>>,
) {
    let mut silent = Vec::new();
    'accept: while let Ok((mut stream, _)) = listener.accept().await {
        while let Some(request) = request(&mut stream).await {
            heard.lock().unwrap().push(request);
            match answers.next().expect("no more requests than answers") {
                Answer::Says(status, position, body) => {
                    let length = body.len();
                    let answer = format!(
                        "HTTP/1.1 {status} Word\r\nconsort-position: {position}\r\ncontent-length: {length}\r\n\r\n{body}"
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                Answer::HangsUp => continue 'accept,
                Answer::Silent => {
                    silent.push(stream);
                    continue 'accept;
                }
            }
        }
    }
}

/// A whole request in lower case; nothing if the client has left.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn client(nodes: &[&Node]) -> DbClient {
    let urls: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    DbClient::new(&urls, "rideshare", Some("0123456789abcdef"), WITHIN).unwrap()
}

fn insert() -> [SqlStatement; 1] {
    [SqlStatement::new("INSERT INTO t VALUES (?)").bind("ann")]
}

fn select() -> SqlStatement {
    SqlStatement::new("SELECT a FROM t")
}

#[tokio::test]
async fn a_write_is_sent_with_its_key_and_its_token_over_a_kept_connection() {
    let node = Node::start([Answer::Says(200, "1-17", STORED); 2]).await;
    let client = client(&[&node]);
    for key in [Some("6c1f3a"), None] {
        let outcome = client.write(&insert(), key).await.unwrap();
        assert_eq!((&*outcome.position, outcome.results.unwrap()[0].changes), ("1-17", 1));
    }
    let heard = node.heard();
    assert!(heard[0].starts_with("post /db/rideshare/write http/1.1\r\n"), "{}", heard[0]);
    assert!(heard[0].contains("\r\nidempotency-key: 6c1f3a\r\n"), "{}", heard[0]);
    assert!(heard[0].contains("\r\nauthorization: bearer 0123456789abcdef\r\n"), "{}", heard[0]);
    assert!(
        heard[0].ends_with(r#"{"statements":[["insert into t values (?)","ann"]]}"#),
        "{}",
        heard[0]
    );
    assert!(!heard[1].contains("idempotency-key"), "{}", heard[1]);
}

#[tokio::test]
async fn default_reads_ask_for_what_was_seen_and_strong_ones_need_not() {
    let node = Node::start([
        Answer::Says(200, "1-17", ROWS),
        Answer::Says(200, "1-9", ROWS),
        Answer::Says(200, "1-17", ROWS),
        Answer::Says(409, "2-1", OLD_ERA),
        Answer::Says(200, "2-1", ROWS),
    ])
    .await;
    let client = client(&[&node]);
    for consistency in [ReadConsistency::Any, ReadConsistency::Any, ReadConsistency::Strong] {
        assert_eq!(client.read(&select(), consistency).await.unwrap().worker, 3);
    }
    let ended = client.read(&select(), ReadConsistency::Any).await.unwrap_err();
    assert!(matches!(ended, DbClientError::EraEnded(_)), "{ended:?}");
    client.read(&select(), ReadConsistency::Any).await.unwrap();
    let after: Vec<Option<String>> = node
        .heard()
        .iter()
        .map(|heard| {
            let line = heard.lines().find_map(|line| line.strip_prefix("consort-after: "));
            line.map(str::to_owned)
        })
        .collect();
    assert_eq!(after, [None, Some("1-17".to_owned()), None, Some("1-17".to_owned()), None]);
    assert!(node.heard()[2].ends_with(r#"{"consistency":"strong","query":["select a from t"]}"#));
}

#[tokio::test]
async fn the_node_that_answered_is_asked_first_the_next_time() {
    let (away, other) = (
        Node::start([Answer::Says(503, "", NO_WORKER)]).await,
        Node::start([Answer::Says(200, "1-17", ROWS); 2]).await,
    );
    let client = client(&[&away, &other]);
    for _ in 0..2 {
        client.read(&select(), ReadConsistency::Strong).await.unwrap();
    }
    assert_eq!((away.heard().len(), other.heard().len()), (1, 2));
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_passed_over() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let node = Node::start([Answer::Says(200, "1-17", STORED)]).await;
    let urls = [format!("http://{closed}"), node.url.clone()];
    let client = DbClient::new(&urls, "rideshare", None, WITHIN).unwrap();
    // Nothing was sent to the first, so a key is not needed.
    client.write(&insert(), None).await.unwrap();

    let client = DbClient::new(&urls[..1], "rideshare", None, WITHIN).unwrap();
    let error = client.write(&insert(), None).await.unwrap_err();
    assert!(matches!(error, DbClientError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains(&format!("cannot reach http://{closed}")), "{error}");
}

#[tokio::test]
async fn a_write_that_may_be_stored_is_sent_again_only_with_a_key() {
    for (key, asked, stored) in [(Some("k"), 1, true), (None, 0, false)] {
        let (broken, other) = (
            Node::start([Answer::HangsUp]).await,
            Node::start([Answer::Says(200, "1-17", STORED)]).await,
        );
        let outcome = client(&[&broken, &other]).write(&insert(), key).await;
        assert_eq!(other.heard().len(), asked);
        match outcome {
            Ok(_) => assert!(stored),
            Err(error) => assert!(matches!(error, DbClientError::Unknown(_)), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn an_unknown_outcome_stays_unknown_when_another_node_has_no_worker() {
    let (broken, other) = (
        Node::start([Answer::HangsUp]).await,
        Node::start([Answer::Says(503, "", NO_WORKER)]).await,
    );
    let error = client(&[&broken, &other]).write(&insert(), Some("k")).await.unwrap_err();
    assert!(matches!(error, DbClientError::Unknown(_)), "{error:?}");
    assert_eq!(other.heard().len(), 1);
}

#[tokio::test]
async fn what_one_node_refuses_for_good_is_not_sent_to_another() {
    let (first, other) =
        (Node::start([Answer::Says(409, "1-3", CONSTRAINT)]).await, Node::start([]).await);
    let error = client(&[&first, &other]).write(&insert(), Some("k")).await.unwrap_err();
    assert!(matches!(error, DbClientError::Constraint(_)), "{error:?}");
    assert_eq!(error.to_string(), "taken");
    assert_eq!(other.heard().len(), 0);
}

#[tokio::test]
async fn a_silent_node_costs_half_of_the_time() {
    let (silent, other) =
        (Node::start([Answer::Silent]).await, Node::start([Answer::Says(200, "1-17", ROWS)]).await);
    let within = Duration::from_millis(400);
    let urls = [silent.url.clone(), other.url.clone()];
    let client = DbClient::new(&urls, "rideshare", None, within).unwrap();
    let begun = Instant::now();
    client.read(&select(), ReadConsistency::Strong).await.unwrap();
    assert!(begun.elapsed() >= within / 2, "{:?}", begun.elapsed());
    assert_eq!(silent.heard().len(), 1);
}

#[tokio::test]
async fn workers_are_listed_and_one_is_ended() {
    let list = r#"{"workers": [{"id": 1, "role": "leader", "node": "a", "index": 17, "lag": 0}], "wanted": 2}"#;
    let gone = r#"{"type": "urn:consort:problem:db-not-found", "detail": "no worker 9", "outcome": "not stored"}"#;
    let node = Node::start([
        Answer::Says(200, "1-17", list),
        Answer::Says(200, "1-17", r#"{"id": 1}"#),
        Answer::Says(404, "", gone),
    ])
    .await;
    let client = client(&[&node]);
    let list = client.workers().await.unwrap();
    assert!(list.workers[0].is_leader());
    client.crash(1).await.unwrap();
    let error = client.crash(9).await.unwrap_err();
    assert!(matches!(error, DbClientError::NotFound(_)), "{error:?}");
    let heard = node.heard();
    assert!(heard[0].starts_with("get /db/rideshare/workers http"), "{}", heard[0]);
    assert!(heard[1].starts_with("post /db/rideshare/workers/1/crash http"), "{}", heard[1]);
    assert!(heard[1].ends_with("\r\n\r\n{}"), "{}", heard[1]);
}
