//! The editors: clients that send pieces through the balancer, each as a source of its own with numbers of its own,
//! and repeat a piece until it is answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ledger::{Answered, DocumentId, PieceId, PieceLedger};
use super::pieces::{Collection, Piece};

/// How many there are.
const EDITORS: u32 = 16;

/// The tenants. The id of a document names its own, so that lists of all tenants show whose it is.
const TENANTS: [&str; 3] = ["one", "two", "three"];

/// Documents of each collection and tenant: few, so that the pieces of several editors meet in each.
const DOCUMENTS: u32 = 4;

/// How long every other editor waits for an answer: shorter than a node is paused, so that pieces whose outcome is
/// unknown go to another node.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How long the others wait: longer than a node holds a request.
const PATIENCE: Duration = Duration::from_secs(15);

/// The pause before a piece is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long one piece may take with all its tries: servers may be down for some seconds.
const DONE_WITHIN: Duration = Duration::from_secs(90);

/// Requests on one connection, at most: then it is another node's turn.
const REQUESTS_MOST: u32 = 12;

/// One piece in so many is sent once more although it was answered.
const REPEAT_ONE_IN: u32 = 20;

/// One piece in so many is sent behind its successor, so that the successor waits for it.
const SWAP_ONE_IN: u32 = 15;

/// All editors.
#[derive(Debug)]
pub struct Editors {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Editors {
    /// They begin.
    pub fn start(balancer: SocketAddr, ledger: &PieceLedger, random: &mut StdRng) -> Editors {
        let (stop, stopped) = watch::channel(false);
        let client = Client::new(&format!("http://{balancer}"), None).expect("an address");
        let editor = |number: u32| Editor {
            source: format!("editor-{number}"),
            client: client.clone(),
            within: if number.is_multiple_of(2) { ANSWER_WITHIN } else { PATIENCE },
            connection: None,
            numbers: BTreeMap::new(),
            dice: StdRng::seed_from_u64(random.random()),
            ledger: ledger.clone(),
            stopped: stopped.clone(),
        };
        let editors: Vec<Editor> = (0..EDITORS).map(editor).collect();
        Editors { stop, tasks: editors.into_iter().map(|e| tokio::spawn(e.edit())).collect() }
    }

    /// Each ends when its last piece is answered.
    ///
    /// # Panics
    ///
    /// If one got a wrong answer, or none.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await.expect("an editor does not panic");
        }
    }
}

struct Editor {
    source: String,
    client: Client,
    within: Duration,
    connection: Option<(Connection, u32)>,
    numbers: BTreeMap<DocumentId, u64>,
    dice: StdRng,
    ledger: PieceLedger,
    stopped: watch::Receiver<bool>,
}

impl Editor {
    async fn edit(mut self) {
        while !*self.stopped.borrow() {
            let document = self.any_document();
            let first = self.next_piece(&document);
            if self.dice.random_ratio(1, SWAP_ONE_IN) {
                let second = self.next_piece(&document);
                self.send(&second).await;
                self.send(&first).await;
            } else {
                self.send(&first).await;
            }
            if self.dice.random_ratio(1, REPEAT_ONE_IN) {
                self.ledger.repeat();
                self.send(&first).await;
            }
        }
    }

    fn any_document(&mut self) -> DocumentId {
        let collection = Collection::ALL[self.dice.random_range(0..Collection::ALL.len())];
        let tenant = TENANTS[self.dice.random_range(0..TENANTS.len())];
        (collection, format!("crid://{tenant}/{}", self.dice.random_range(0..DOCUMENTS)))
    }

    fn next_piece(&mut self, document: &DocumentId) -> (PieceId, Piece) {
        let number = self.numbers.entry(document.clone()).or_default();
        *number += 1;
        let stamp = format!("{}-{number}", self.source);
        let piece = Piece::random(&mut self.dice, document.0, &stamp);
        let id = (document.clone(), self.source.clone(), *number);
        self.ledger.send(id.clone(), piece.clone());
        (id, piece)
    }

    /// Sends it until it is answered.
    async fn send(&mut self, (id, piece): &(PieceId, Piece)) {
        let ((collection, name), source, number) = id;
        let wait = if self.dice.random_bool(0.5) { "&wait=applied" } else { "" };
        let name = name.replace('/', "%2F");
        let path = format!("/glue/{}/{name}?source={source}&seq={number}{wait}", collection.name());
        let (method, content_type, body) = piece.request(*collection);
        let method: Method = method.parse().expect("a method");
        let began = Instant::now();
        loop {
            let headers = [("content-type", content_type), ("consort-tenant", tenant_of(&id.0.1))];
            let said = match self.exchange(&method, &path, &headers, &body).await {
                Some(reply) => match answered(&path, &reply) {
                    Some(answered) => return self.ledger.answer(id, answered),
                    None => {
                        self.ledger.refuse();
                        String::from_utf8_lossy(&reply.body).into_owned()
                    }
                },
                None => {
                    self.ledger.breaks();
                    "no answer".to_owned()
                }
            };
            assert!(began.elapsed() < DONE_WITHIN, "{path} is never answered: {said}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One request; nothing, if no answer came. A connection is given up after some requests, so that the balancer
    /// gives another.
    async fn exchange(
        &mut self,
        method: &Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let (mut connection, left) =
            self.connection.take().filter(|(_, left)| *left > 0).unwrap_or_else(|| {
                let fresh = Connection::new(self.client.clone(), self.within);
                (fresh, self.dice.random_range(0..REQUESTS_MOST))
            });
        let reply = connection.send(method.clone(), path, headers, body.to_owned()).await.ok()?;
        self.connection = Some((connection, left.saturating_sub(1)));
        Some(reply)
    }
}

/// Whose document it is, by its id.
pub(super) fn tenant_of(id: &str) -> &str {
    id.trim_start_matches("crid://").split('/').next().unwrap_or_default()
}

/// What an answer says of the piece; nothing if it asks to come again.
///
/// # Panics
///
/// If it is none that this piece may get.
fn answered(path: &str, reply: &Reply) -> Option<Answered> {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    match reply.status.as_u16() {
        200 if body["state"] == "applied" => {
            let version = body["version"].as_u64();
            Some(Answered::Applied(version.unwrap_or_else(|| panic!("{path}: {body}"))))
        }
        // A repeat of an older number, a piece that waits for its predecessor, or one that is in the log.
        200 | 202 | 204 => Some(Answered::Accepted),
        404 | 409 | 410 | 422 => {
            let kind = body["type"].as_str().unwrap_or_default();
            let reason = kind.strip_prefix("urn:consort:problem:");
            Some(Answered::Rejected(reason.unwrap_or_else(|| panic!("{path}: {body}")).to_owned()))
        }
        429 | 503 => {
            assert!(reply.header("retry-after").is_some(), "{path}: no Retry-After with {body}");
            None
        }
        status => panic!("{path}: {status} {body}"),
    }
}
