//! Writers: clients that each have a document of their own, and change it by pieces with idempotency keys: single ones, bulk
//! requests, conditional ones, and some that halt the document until they are discarded.

use std::net::SocketAddr;
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The collection, which halts a document at a piece that does not apply.
pub(super) const COLLECTION: &str = "owned";

/// How many there are.
const WRITERS: usize = 6;

/// Pieces of a bulk request, at most.
const BULK: usize = 20;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The pause before a request is sent again, and how long it may take with all tries.
const PAUSE: Duration = Duration::from_millis(50);
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// All of them.
#[derive(Debug)]
pub(super) struct Writers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<OwnedDocument>>,
}

/// A document, as its client knows it.
#[derive(Debug)]
pub(super) struct OwnedDocument {
    pub(super) id: String,
    /// What was inserted, in order.
    items: Vec<String>,
    /// Pieces that halted the document and were discarded.
    pub(super) discarded: usize,
    /// Requests that were answered.
    pub(super) requests: usize,
}

struct Writer {
    client: Client,
    owned: OwnedDocument,
    keys: u64,
    dice: StdRng,
}

impl Writers {
    /// They begin.
    pub(super) fn start(balancer: SocketAddr, random: &mut StdRng) -> Writers {
        let (stop, stopped) = watch::channel(false);
        let client = Client::new(&format!("http://{balancer}"), None).expect("an address");
        let tasks = (0..WRITERS).map(|number| {
            let id = format!("owned-{number}");
            let owned = OwnedDocument { id, items: Vec::new(), discarded: 0, requests: 0 };
            let dice = StdRng::seed_from_u64(random.random());
            let writer = Writer { client: client.clone(), owned, keys: 0, dice };
            tokio::spawn(writer.play(stopped.clone()))
        });
        Writers { stop, tasks: tasks.collect() }
    }

    /// Each ends when its last piece is answered.
    pub(super) async fn stop(self) -> Vec<OwnedDocument> {
        self.stop.send_replace(true);
        let mut all = Vec::new();
        for task in self.tasks {
            all.push(task.await.expect("a writer does not panic"));
        }
        all
    }
}

impl OwnedDocument {
    /// Compares with the document and with its rows in the feed, which must have every version.
    pub(super) fn meets(&self, document: &Value, rows: &[Value]) {
        assert_eq!(document["items"], json!(self.items), "{}", self.id);
        let mut replayed = Vec::new();
        for (version, row) in (1..).zip(rows) {
            assert_eq!(row["version"], version, "{}: versions have no gap", self.id);
            match row["form"].as_str() {
                Some("whole") => replayed.clear(),
                Some("json-patch") => replayed.push(row["piece"][0]["value"].clone()),
                form => panic!("{}: {form:?}", self.id),
            }
        }
        assert_eq!(json!(replayed), json!(self.items), "{}: the rows", self.id);
    }
}

impl Writer {
    async fn play(mut self, stopped: watch::Receiver<bool>) -> OwnedDocument {
        let created = json!({ "items": [] });
        let headers = [("content-type", "application/json"), ("idempotency-key", "created")];
        let path = format!("/glue/{COLLECTION}/{}?wait=applied", self.owned.id);
        self.until(Method::PUT, &path, &headers, created.to_string(), &[200]).await;
        while !*stopped.borrow() {
            match self.dice.random_range(0..5) {
                0 | 1 => self.insert().await,
                2 => self.insert_many().await,
                3 => self.insert_if_unchanged().await,
                _ => self.halt_and_discard().await,
            }
        }
        self.owned
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.owned.id, self.keys)
    }

    /// A piece that is applied or stored.
    async fn insert(&mut self) {
        let wait = if self.dice.random_bool(0.5) { "?wait=applied" } else { "" };
        self.patch(wait, None, &[200, 202]).await;
    }

    async fn insert_many(&mut self) {
        let keys: Vec<String> = (0..self.dice.random_range(2..=BULK)).map(|_| self.key()).collect();
        let line = |key: &String| {
            let line =
                json!({"id": self.owned.id, "form": "json-patch", "piece": add(key), "key": key});
            format!("{line}\n")
        };
        let body: String = keys.iter().map(line).collect();
        let path = format!("/glue/{COLLECTION}");
        let headers = [("content-type", "application/x-ndjson")];
        // All of it again after a failure: the lines that were stored are known by their keys.
        let reply = self.until(Method::POST, &path, &headers, body, &[202]).await;
        assert_eq!(said(&reply)["accepted"], keys.len(), "{}", said(&reply));
        self.owned.items.extend(keys);
    }

    /// A piece for exactly the version that was read. Nobody else changes the document.
    async fn insert_if_unchanged(&mut self) {
        // All that was stored before is applied by the time a piece is, behind which nothing waits.
        self.patch("?wait=applied", None, &[200]).await;
        let path = format!("/glue/{COLLECTION}/{}", self.owned.id);
        let read = self.until(Method::GET, &path, &[], String::new(), &[200]).await;
        let tag = read.header("etag").expect("an ETag").to_owned();
        self.patch("", Some(&tag), &[200]).await;
    }

    /// A piece that halts the document, one that waits behind it, and a decision.
    async fn halt_and_discard(&mut self) {
        let key = self.key();
        let headers = [("content-type", "application/json-patch+json"), ("idempotency-key", &*key)];
        let path = format!("/glue/{COLLECTION}/{}?wait=applied", self.owned.id);
        let failing = json!([{"op": "remove", "path": "/none"}]).to_string();
        let halted = self.until(Method::PATCH, &path, &headers, failing, &[409]).await;
        let place = said(&halted)["place"].clone();
        assert!(place.is_string(), "{}", said(&halted));
        self.patch("", None, &[202]).await;
        let headers = [("content-type", "application/json")];
        let path = format!("/glue/{COLLECTION}/{}/discard?wait=applied", self.owned.id);
        let decision = json!({ "place": place }).to_string();
        // A decision whose answer was lost has been taken: the document is not halted any more.
        self.until(Method::POST, &path, &headers, decision, &[200, 409]).await;
        self.owned.discarded += 1;
    }

    async fn patch(&mut self, query: &str, tag: Option<&str>, expected: &[u16]) {
        let key = self.key();
        let mut headers =
            vec![("content-type", "application/json-patch+json"), ("idempotency-key", &*key)];
        headers.extend(tag.map(|tag| ("if-match", tag)));
        let path = format!("/glue/{COLLECTION}/{}{query}", self.owned.id);
        self.until(Method::PATCH, &path, &headers, add(&key).to_string(), expected).await;
        self.owned.items.push(key);
    }

    /// Sends a request until the answer has one of these statuses. A piece that waits for its outcome may hear 202, if the
    /// partition has no owner meanwhile: it is sent again.
    async fn until(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: String,
        expected: &[u16],
    ) -> Reply {
        let began = Instant::now();
        loop {
            let mut connection = Connection::new(self.client.clone(), ANSWER_WITHIN);
            let told = match connection.send(method.clone(), path, headers, body.clone()).await {
                Ok(reply) if expected.contains(&reply.status.as_u16()) => {
                    self.owned.requests += 1;
                    return reply;
                }
                Ok(reply) => {
                    let status = reply.status.as_u16();
                    let told = format!("{status}: {}", said(&reply));
                    // 423: behind pieces that are released step by step.
                    assert!([202, 423, 429, 503].contains(&status), "{method} {path}: {told}");
                    told
                }
                Err(error) => error.to_string(),
            };
            assert!(began.elapsed() < DONE_WITHIN, "{method} {path} is never answered: {told}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn add(value: &str) -> Value {
    json!([{"op": "add", "path": "/items/-", "value": value}])
}

fn said(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_default()
}
