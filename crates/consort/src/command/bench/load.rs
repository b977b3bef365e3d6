//! The load: many connections that post rides, one after another on each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use consort_client::{Client, ClientError, Connection, Method, Reply};
use consort_cluster::Place;
use consort_kernel::{Partition, Producer};
use consort_views::Position;
use futures::future::try_join_all;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use super::progress::Progress;
use super::rides::{Ride, Season};

/// How long one request may take: longer than a node holds it.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How often a refused ride is sent again without `--retry`, and with it.
const TRIES: u32 = 20;
const TRIES_WITH_RETRY: u32 = 600;

/// The pause before a ride is sent again: much shorter than `Retry-After` says, as load is what is wanted.
const PAUSE: Duration = Duration::from_millis(100);

/// What to do.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) clients: Vec<Client>,
    pub(super) requests: u64,
    pub(super) connections: u64,
    pub(super) retry: bool,
    pub(super) season: Season,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Rides that were accepted.
    pub(super) rides: Vec<Ride>,
    /// Rides of which it is not known.
    pub(super) doubtful: Vec<Ride>,
    /// Answers 503 that said no for certain.
    pub(super) refused: u64,
    /// Rides that were given up.
    pub(super) failed: u64,
    failure: Option<String>,
    /// How long each accepted request took, in microseconds.
    micros: Vec<u32>,
    /// Behind all of them.
    places: BTreeMap<(Partition, Producer), Place>,
    pub(super) took: Duration,
}

/// Times of requests, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Load {
    pub(super) async fn run(&self) -> Result<Outcome, String> {
        self.greet().await?;
        let progress = Progress::of(self.requests);
        let left = Arc::new(AtomicU64::new(self.requests));
        let began = Instant::now();
        let posts = (0..self.connections).map(|number| {
            let client = self.clients[number as usize % self.clients.len()].clone();
            let poster = Poster {
                connection: Connection::new(client, ANSWER_WITHIN),
                retry: self.retry,
                season: self.season.clone(),
                outcome: Outcome::default(),
            };
            let (left, done) = (Arc::clone(&left), progress.counter());
            tokio::spawn(poster.run(left, done))
        });
        let parts =
            try_join_all(posts.collect::<Vec<_>>()).await.map_err(|error| error.to_string())?;
        let mut whole = Outcome { took: began.elapsed(), ..Outcome::default() };
        for part in parts {
            whole.join(part);
        }
        Ok(whole)
    }

    /// One request to each node before the clock runs, so that a wrong address is told at once.
    async fn greet(&self) -> Result<(), String> {
        for client in &self.clients {
            let mut connection = Connection::new(client.clone(), ANSWER_WITHIN);
            let reply = connection.send(Method::GET, "/views/skier_days?limit=1", &[], "").await;
            let reply = reply.map_err(|error| error.to_string())?;
            if !reply.status.is_success() {
                let said = String::from_utf8_lossy(&reply.body).into_owned();
                return Err(format!(
                    "{} does not serve the lift rides ({}): {said}\nStart it with the streams and views of \
                     examples/lifts.toml, as `consort serve` without a config does",
                    client.url(),
                    reply.status
                ));
            }
        }
        Ok(())
    }
}

/// One connection's work.
struct Poster {
    connection: Connection,
    retry: bool,
    season: Season,
    outcome: Outcome,
}

/// What a try came to.
enum Tried {
    Accepted(Reply),
    Refused(String),
    Doubtful(String),
    Failed(String),
}

impl Poster {
    async fn run(mut self, left: Arc<AtomicU64>, done: Arc<AtomicU64>) -> Outcome {
        let mut dice = SmallRng::from_os_rng();
        let take = |left: u64| left.checked_sub(1);
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            let ride = Ride::random(&mut dice);
            self.post(ride).await;
            done.fetch_add(1, Ordering::Relaxed);
        }
        self.outcome
    }

    /// Posts a ride until it is accepted, or given up.
    async fn post(&mut self, ride: Ride) {
        let (path, body) = (ride.path(&self.season), ride.body());
        let key = self.retry.then(|| format!("{:032x}", rand::random::<u128>()));
        let tries = if self.retry { TRIES_WITH_RETRY } else { TRIES };
        let mut reason = String::new();
        for _ in 0..tries {
            let began = Instant::now();
            match self.send(&path, &body, key.as_deref()).await {
                Tried::Accepted(reply) => {
                    return self.outcome.accept(ride, began.elapsed(), &reply);
                }
                Tried::Refused(said) => {
                    self.outcome.refused += 1;
                    reason = said;
                }
                // With its key it may be sent again: it counts once.
                Tried::Doubtful(said) if self.retry => reason = said,
                Tried::Doubtful(said) => {
                    self.outcome.doubtful.push(ride);
                    return self.outcome.fail(said);
                }
                Tried::Failed(said) => return self.outcome.fail(said),
            }
            tokio::time::sleep(PAUSE).await;
        }
        if self.retry {
            self.outcome.doubtful.push(ride);
        }
        self.outcome.fail(reason);
    }

    async fn send(&mut self, path: &str, body: &str, key: Option<&str>) -> Tried {
        let headers: Vec<(&'static str, &str)> =
            key.map(|key| ("idempotency-key", key)).into_iter().collect();
        let reply = match self.connection.send(Method::POST, path, &headers, body.to_owned()).await
        {
            Ok(reply) => reply,
            Err(error @ ClientError::Unreachable { .. }) => {
                return Tried::Refused(error.to_string());
            }
            Err(error) => return Tried::Doubtful(error.to_string()),
        };
        let said = || format!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        match reply.status.as_u16() {
            201 => Tried::Accepted(reply),
            503 if said().contains("outcome-unknown") => Tried::Doubtful(said()),
            503 => Tried::Refused(said()),
            _ => Tried::Failed(said()),
        }
    }
}

impl Outcome {
    fn accept(&mut self, ride: Ride, took: Duration, reply: &Reply) {
        self.rides.push(ride);
        self.micros.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let position = reply.header("consort-position").and_then(|text| text.parse().ok());
        for place in position.iter().flat_map(Position::places) {
            let line = (place.partition.clone(), place.producer);
            match self.places.get_mut(&line) {
                Some(known) if known.sequence >= place.sequence => {}
                Some(known) => *known = place.clone(),
                None => {
                    self.places.insert(line, place.clone());
                }
            }
        }
    }

    fn fail(&mut self, reason: String) {
        self.failed += 1;
        self.failure.get_or_insert(reason);
    }

    fn join(&mut self, other: Outcome) {
        self.rides.extend(other.rides);
        self.doubtful.extend(other.doubtful);
        self.refused += other.refused;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.micros.extend(other.micros);
        for (line, place) in other.places {
            match self.places.get(&line) {
                Some(known) if known.sequence >= place.sequence => {}
                _ => {
                    self.places.insert(line, place);
                }
            }
        }
    }

    /// What a query must wait for to see all of it.
    pub(super) fn position(&self) -> Position {
        Position::of(self.places.values().cloned())
    }

    pub(super) fn first_failure(&self) -> String {
        format!("the first of them: {}", self.failure.as_deref().unwrap_or("not known"))
    }

    pub(super) fn times(&self) -> Times {
        let mut micros = self.micros.clone();
        micros.sort_unstable();
        let at = |share: f64| {
            let place = (micros.len() as f64 * share) as usize;
            f64::from(micros.get(place.min(micros.len().saturating_sub(1))).copied().unwrap_or(0))
                / 1000.0
        };
        let sum: f64 = micros.iter().map(|&time| f64::from(time)).sum();
        Times {
            mean: sum / micros.len().max(1) as f64 / 1000.0,
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
