//! The load: kinds of posts at a rate that the trial sets, each sent again until it is acknowledged.
//!
//! A kind is a [`PostSender`]. The trial takes any number of them, so that other parts than views can have their posts
//! arrive at the same time, with an independent count of their own at the end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_client::{Client, Connection, Method};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lifts::compare::Views;
use crate::lifts::count::Count;
use crate::lifts::ledger::Ledger;
use crate::lifts::rides::Ride;

/// Tasks of each kind. Each sends one post after another.
const TASKS: u32 = 24;

/// Skiers that only one task posts for.
const SKIERS: u32 = 40;

/// How long an answer may take: longer than a node holds a post.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The pause before a post is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one post may take with all its tries: nodes are killed and refuse meanwhile.
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// Without input a task looks at its rate so often.
const IDLE: Duration = Duration::from_millis(50);

/// A request that is sent until it is acknowledged.
#[derive(Clone, Debug)]
pub struct Post {
    /// Where.
    pub path: String,
    /// Its content type, if it needs one.
    pub content_type: Option<&'static str>,
    /// The key under which it counts once.
    pub key: String,
    /// The body.
    pub body: String,
}

/// One kind of posts, and what should come of those that were acknowledged.
#[async_trait]
pub trait PostSender: Send + Sync + fmt::Debug {
    /// The next post of a task; what it is about is remembered under the key.
    fn next(&self, task: u32, random: &mut StdRng) -> Post;

    /// It was acknowledged.
    fn acknowledged(&self, task: u32);

    /// How many were acknowledged.
    fn count(&self) -> usize;

    /// How the answers of the node at `address` differ from an independent count.
    async fn differences(&self, address: &str) -> Vec<String>;
}

/// Lift rides, counted by plain code.
#[derive(Debug, Default)]
pub struct Rides {
    ledger: Ledger,
    under_way: Mutex<std::collections::BTreeMap<u32, Ride>>,
}

#[async_trait]
impl PostSender for Rides {
    fn next(&self, task: u32, random: &mut StdRng) -> Post {
        let ride = Ride::random(random, 1 + task * SKIERS..1 + (task + 1) * SKIERS);
        self.under_way.lock().insert(task, ride);
        let key = format!("{:032x}", random.random::<u128>());
        Post { path: ride.path(), content_type: None, key, body: ride.body() }
    }

    fn acknowledged(&self, task: u32) {
        if let Some(ride) = self.under_way.lock().remove(&task) {
            self.ledger.acknowledge(ride);
        }
    }

    fn count(&self) -> usize {
        self.ledger.len()
    }

    async fn differences(&self, address: &str) -> Vec<String> {
        let expected = Views::of(&Count::of(&self.ledger.acknowledged()));
        expected.differences(&Views::asked(address).await)
    }
}

/// All posts of all kinds.
#[derive(Debug)]
pub struct PostLoad {
    rate: watch::Sender<f64>,
    stop: watch::Sender<bool>,
    senders: Vec<Arc<dyn PostSender>>,
    tasks: Vec<JoinHandle<()>>,
}

impl PostLoad {
    /// Begins to post to the nodes at these ports of this machine, at `rate` posts a second of all kinds together.
    pub fn start(
        senders: Vec<Arc<dyn PostSender>>,
        ports: Vec<u16>,
        rate: f64,
        seed: u64,
    ) -> PostLoad {
        let rate = rate / senders.len().max(1) as f64;
        let (rate, rates) = watch::channel(rate);
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        for sender in &senders {
            for number in 0..TASKS {
                let task = Task {
                    number,
                    sender: Arc::clone(sender),
                    ports: ports.clone(),
                    rates: rates.clone(),
                    stopped: stopped.clone(),
                    random: StdRng::seed_from_u64(seed.wrapping_add(u64::from(number))),
                    connection: None,
                };
                tasks.push(tokio::spawn(task.run()));
            }
        }
        PostLoad { rate, stop, senders, tasks }
    }

    /// From now on so many posts a second of all kinds together are offered.
    pub fn set_rate(&self, rate: f64) {
        self.rate.send_replace(rate / self.senders.len().max(1) as f64);
    }

    /// How many posts were acknowledged.
    pub fn count(&self) -> usize {
        self.senders.iter().map(|sender| sender.count()).sum()
    }

    /// Each task ends when its last post is acknowledged.
    ///
    /// # Panics
    ///
    /// If one never is.
    pub async fn stop(self) -> Vec<Arc<dyn PostSender>> {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await.expect("a task of the load does not panic");
        }
        self.senders
    }
}

struct Task {
    number: u32,
    sender: Arc<dyn PostSender>,
    ports: Vec<u16>,
    rates: watch::Receiver<f64>,
    stopped: watch::Receiver<bool>,
    random: StdRng,
    connection: Option<Connection>,
}

impl Task {
    async fn run(mut self) {
        let mut due = Instant::now();
        while !*self.stopped.borrow() {
            let rate = *self.rates.borrow() / f64::from(TASKS);
            if rate <= 0.0 {
                sleep(IDLE).await;
                due = Instant::now();
                continue;
            }
            let post = self.sender.next(self.number, &mut self.random);
            self.send(&post).await;
            self.sender.acknowledged(self.number);
            // A task that was held up does not make up for it in a burst.
            due = (due + Duration::from_secs_f64(1.0 / rate)).max(Instant::now() - IDLE);
            let (mut rates, mut stopped) = (self.rates.clone(), self.stopped.clone());
            rates.mark_unchanged();
            stopped.mark_unchanged();
            tokio::select! {
                () = sleep_until(due) => {}
                _ = rates.changed() => due = Instant::now(),
                _ = stopped.changed() => {}
            }
        }
    }

    async fn send(&mut self, post: &Post) {
        let began = Instant::now();
        loop {
            let said = match self.try_once(post).await {
                Ok(()) => return,
                Err(said) => said,
            };
            assert!(began.elapsed() < DONE_WITHIN, "{} is never acknowledged: {said}", post.path);
            sleep(PAUSE).await;
        }
    }

    async fn try_once(&mut self, post: &Post) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let port = self.ports[self.random.random_range(0..self.ports.len())];
                let client = Client::new(&format!("http://127.0.0.1:{port}"), None);
                Connection::new(client.expect("an address"), ANSWER_WITHIN)
            }
        };
        let mut headers = vec![("idempotency-key", post.key.as_str())];
        headers.extend(post.content_type.map(|name| ("content-type", name)));
        let reply = connection.send(Method::POST, &post.path, &headers, post.body.clone()).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&reply.body).into_owned();
        if !reply.status.is_success() {
            // A tenant may be at its quota while nodes come and go.
            assert!([429, 503].contains(&reply.status.as_u16()), "{}: {said}", post.path);
            return Err(said);
        }
        // Now and then another node, so that nodes that came later get their share.
        if !self.random.random_ratio(1, 20) {
            self.connection = Some(connection);
        }
        Ok(())
    }
}
