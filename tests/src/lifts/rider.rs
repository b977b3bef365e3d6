//! The riders: clients that post rides through the balancer, each with a key of its own and until it is
//! acknowledged, and ask any node for what they have just written.

use std::net::SocketAddr;
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::count::Count;
use super::ledger::Ledger;
use super::rides::{Ride, SEASON};

/// How many there are.
const RIDERS: u32 = 16;

/// Skiers that only one rider posts for.
const SKIERS: u32 = 8;

/// How long every other rider waits for an answer: longer than any takes while nothing is wrong, and shorter
/// than a node is paused, so that posts whose outcome is unknown are sent to another.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How long the others wait: longer than a node holds a post, and so long enough to be told what is wrong.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long it waits for an answer that includes what it wrote; the node itself waits for ten seconds.
const QUESTION_WITHIN: Duration = Duration::from_secs(4);

/// The pause before a ride is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long one ride or question may take, with all its tries: servers may be down for some seconds, and
/// then nodes must find each other again.
const DONE_WITHIN: Duration = Duration::from_secs(90);

/// Requests on one connection, at most: then it is another node's turn.
const REQUESTS_MOST: u32 = 12;

/// One ride in so many is sent once more although it was acknowledged, as a client does that did not hear.
const REPEAT_ONE_IN: u32 = 25;

/// After one ride in so many, the rider asks for what it wrote.
const QUESTION_ONE_IN: u32 = 8;

/// All riders.
#[derive(Debug)]
pub struct Riders {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Riders {
    /// They begin.
    pub fn start(balancer: SocketAddr, ledger: &Ledger, random: &mut StdRng) -> Riders {
        let (stop, stopped) = watch::channel(false);
        let client = Client::new(&format!("http://{balancer}"), None).expect("an address");
        let rider = |number: u32| Rider {
            skiers: 1 + number * SKIERS..1 + (number + 1) * SKIERS,
            posts: Line::new(
                &client,
                if number.is_multiple_of(2) { ANSWER_WITHIN } else { PATIENCE },
            ),
            questions: Line::new(&client, QUESTION_WITHIN),
            dice: StdRng::seed_from_u64(random.random()),
            count: Count::default(),
            ledger: ledger.clone(),
            stopped: stopped.clone(),
        };
        let riders: Vec<Rider> = (0..RIDERS).map(rider).collect();
        Riders { stop, tasks: riders.into_iter().map(|rider| tokio::spawn(rider.ride())).collect() }
    }

    /// Each ends when its last ride is acknowledged.
    ///
    /// # Panics
    ///
    /// If one got a wrong answer, or none.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await.expect("a rider does not panic");
        }
    }
}

/// A connection that is given up after some requests, so that the balancer gives another.
struct Line {
    client: Client,
    within: Duration,
    connection: Option<(Connection, u32)>,
}

impl Line {
    fn new(client: &Client, within: Duration) -> Line {
        Line { client: client.clone(), within, connection: None }
    }

    /// Sends one request. Nothing, if nobody answered.
    async fn send(
        &mut self,
        dice: &mut StdRng,
        method: Method,
        path: &str,
        header: (&'static str, &str),
        body: String,
    ) -> Option<Reply> {
        let fresh = || Connection::new(self.client.clone(), self.within);
        let (mut connection, left) = self
            .connection
            .take()
            .filter(|(_, left)| *left > 0)
            .unwrap_or_else(|| (fresh(), dice.random_range(0..REQUESTS_MOST)));
        let reply = connection.send(method, path, &[header], body).await.ok()?;
        self.connection = Some((connection, left.saturating_sub(1)));
        Some(reply)
    }
}

struct Rider {
    skiers: std::ops::Range<u32>,
    posts: Line,
    questions: Line,
    dice: StdRng,
    /// What was acknowledged to it, which is all there is of its skiers.
    count: Count,
    ledger: Ledger,
    stopped: watch::Receiver<bool>,
}

impl Rider {
    async fn ride(mut self) {
        while !*self.stopped.borrow() {
            let ride = Ride::random(&mut self.dice, self.skiers.clone());
            let key = format!("{:032x}", self.dice.random::<u128>());
            let position = self.post(&ride, &key).await;
            self.count.add(&ride);
            self.ledger.acknowledge(ride);
            if self.dice.random_ratio(1, REPEAT_ONE_IN) {
                self.ledger.repeat();
                self.post(&ride, &key).await;
            }
            if self.dice.random_ratio(1, QUESTION_ONE_IN) {
                self.ask(&ride, &position).await;
            }
        }
    }

    /// Posts until it is acknowledged; gives the position.
    async fn post(&mut self, ride: &Ride, key: &str) -> String {
        let (path, began) = (ride.path(), Instant::now());
        loop {
            let header = ("idempotency-key", key);
            let sent = self.posts.send(&mut self.dice, Method::POST, &path, header, ride.body());
            let said = match sent.await {
                Some(reply) if reply.status == 201 => {
                    let position = reply.header("consort-position");
                    return position.expect("an accepted post has a position").to_owned();
                }
                Some(reply) => {
                    self.ledger.refuse();
                    refusal(&path, &reply)
                }
                None => {
                    self.ledger.breaks();
                    "no answer".to_owned()
                }
            };
            assert!(began.elapsed() < DONE_WITHIN, "{path} is never acknowledged: {said}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks for a group of the ride's own skier as of `position`, until there is an answer. Nobody else posts
    /// for this skier, and this rider has no post under way: so the answer is known.
    async fn ask(&mut self, ride: &Ride, position: &str) {
        let Ride { day, skier, .. } = *ride;
        let (vertical, lifts) = &self.count.skier_days[&(skier, day)];
        let of_day = format!("skier={skier}&season={SEASON}&day={day}");
        let (path, expected) = match self.dice.random_range(0..3) {
            0 => (format!("/views/skier_vertical?{of_day}"), json!(vertical)),
            1 => (format!("/views/skier_lifts?{of_day}"), json!(lifts)),
            _ => (
                format!("/views/skier_days?skier={skier}&season={SEASON}"),
                json!(self.count.days[&skier].len()),
            ),
        };
        let began = Instant::now();
        loop {
            let header = ("consort-after", position);
            let asked =
                self.questions.send(&mut self.dice, Method::GET, &path, header, String::new());
            let said = match asked.await {
                Some(reply) if reply.status == 200 => {
                    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                    assert_eq!(answer["value"], expected, "{path} after {position}");
                    return self.ledger.answer();
                }
                Some(reply) => refusal(&path, &reply),
                None => "no answer".to_owned(),
            };
            assert!(began.elapsed() < DONE_WITHIN, "{path} is never answered: {said}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What a refusal says. It must be one that asks to come again.
fn refusal(path: &str, reply: &Reply) -> String {
    let said = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, 503, "{path}: {said}");
    assert!(reply.header("retry-after").is_some(), "{path}: no Retry-After with {said}");
    said
}
