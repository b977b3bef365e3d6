//! The load in an open loop: posts come at a fixed rate, whether earlier ones are answered or not, as they
//! do from people. The time of an answer counts from when its post was due.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::ride::Ride;
use super::wire::Wire;
use crate::measure::rank;

/// Requests made beforehand.
const REQUESTS: usize = 20_000;
/// A post that no connection is free for within this time after it was due is not sent: its client has
/// gone. With it the number of connections bounds what is under way.
const SENT_WITHIN: Duration = Duration::from_millis(100);
/// A client waits no longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// After a broken connection, before the next one.
const RECONNECT_AFTER: Duration = Duration::from_millis(20);

/// How much is offered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// Posts a second.
    pub(super) rate: f64,
    pub(super) time: Duration,
    /// Posts under way at once.
    pub(super) connections: usize,
}

/// What came of it. Times are in milliseconds, of the posts that were accepted.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Taken {
    /// Posts that were due.
    pub(super) due: u64,
    /// 201.
    pub(super) accepted: u64,
    /// 503.
    pub(super) refused: u64,
    /// Other answers, broken connections, no answer in time.
    pub(super) failed: u64,
    /// No connection was free.
    pub(super) unsent: u64,
    /// Accepted posts a second.
    pub(super) rate: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Taken {
    /// Which part of the posts that were sent was refused.
    pub(super) fn refused_part(&self) -> f64 {
        self.refused as f64 / (self.due - self.unsent).max(1) as f64
    }
}

/// What one connection counts.
#[derive(Debug, Default)]
struct Tally {
    micros: Vec<u32>,
    refused: u64,
    failed: u64,
    unsent: u64,
}

struct Line {
    offer: Offer,
    address: SocketAddr,
    requests: Vec<Bytes>,
    started: Instant,
    /// The next post that nobody has taken.
    next: AtomicU64,
}

impl Offer {
    fn posts(&self) -> u64 {
        (self.rate * self.time.as_secs_f64()) as u64
    }

    /// Offers it, and waits for the last answer.
    pub(super) async fn run(self, address: SocketAddr) -> Result<Taken> {
        ensure!(self.rate >= 1.0, "an offer of less than a post a second");
        let requests = {
            let mut random = rand::rng();
            (0..REQUESTS).map(|_| Ride::random(&mut random).request()).collect()
        };
        // Before the clock runs: many connections at once overflow the queue of those not yet accepted,
        // and the kernel then tries again only after a second.
        let mut wires = Vec::new();
        for _ in 0..self.connections {
            wires.push(Wire::open(address).await.ok());
        }
        let (started, next) = (Instant::now(), AtomicU64::new(0));
        let line = Arc::new(Line { offer: self, address, requests, started, next });
        let mut connections = JoinSet::new();
        for wire in wires {
            connections.spawn(connection(line.clone(), wire));
        }
        let tallies = connections.join_all().await;
        Ok(sum(self, tallies))
    }
}

async fn connection(line: Arc<Line>, mut wire: Option<Wire>) -> Tally {
    let mut tally = Tally::default();
    loop {
        let post = line.next.fetch_add(1, Ordering::Relaxed);
        if post >= line.offer.posts() {
            return tally;
        }
        let due = line.started + Duration::from_secs_f64(post as f64 / line.offer.rate);
        sleep_until(due).await;
        if due.elapsed() > SENT_WITHIN {
            tally.unsent += 1;
            continue;
        }
        let request = &line.requests[post as usize % line.requests.len()];
        match timeout(ANSWER_WITHIN, send(&mut wire, line.address, request)).await {
            Ok(Some(201)) => {
                tally.micros.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(Some(503)) => tally.refused += 1,
            Ok(Some(_)) => tally.failed += 1,
            Ok(None) | Err(_) => {
                tally.failed += 1;
                wire = None;
                tokio::time::sleep(RECONNECT_AFTER).await;
            }
        }
    }
}

/// The status of the answer; `None` if the connection broke. The wire is opened if there is none, and
/// kept if it can be.
async fn send(wire: &mut Option<Wire>, address: SocketAddr, request: &[u8]) -> Option<u16> {
    let mut open = match wire.take() {
        Some(open) => open,
        None => Wire::open(address).await.ok()?,
    };
    let answered = open.post(request).await.ok()?;
    if !answered.closes {
        *wire = Some(open);
    }
    Some(answered.status)
}

fn sum(offer: Offer, tallies: Vec<Tally>) -> Taken {
    let add = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
    let mut millis: Vec<f64> = tallies
        .iter()
        .flat_map(|tally| &tally.micros)
        .map(|&micros| f64::from(micros) / 1e3)
        .collect();
    millis.sort_by(f64::total_cmp);
    let at = |part| if millis.is_empty() { 0.0 } else { rank(&millis, part) };
    Taken {
        due: offer.posts(),
        accepted: millis.len() as u64,
        refused: add(|tally| tally.refused),
        failed: add(|tally| tally.failed),
        unsent: add(|tally| tally.unsent),
        rate: millis.len() as f64 / offer.time.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        max: at(1.0),
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use tokio::net::TcpListener;

    use super::*;
    use crate::lifts::ride::ROUTE;

    /// Answers as `statuses` say, in turn.
    async fn answering(statuses: [u16; 3]) -> SocketAddr {
        let turn = Arc::new(AtomicU64::new(0));
        let answer = move || {
            let turn = turn.fetch_add(1, Ordering::Relaxed) as usize;
            async move { StatusCode::from_u16(statuses[turn % statuses.len()]).unwrap() }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route(ROUTE, post(answer));
        tokio::spawn(async { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn every_post_that_is_due_is_accounted_for() {
        let address = answering([201, 503, 400]).await;
        let offer = Offer { rate: 300.0, time: Duration::from_secs(1), connections: 4 };
        let taken = offer.run(address).await.unwrap();
        assert_eq!(taken.due, 300);
        assert_eq!(taken.accepted + taken.refused + taken.failed + taken.unsent, 300);
        // In turn: however many were sent, the kinds differ by one at most.
        assert!(taken.accepted > 0, "{taken:?}");
        assert!(taken.accepted - taken.refused <= 1, "{taken:?}");
        assert!(taken.refused - taken.failed <= 1, "{taken:?}");
    }

    #[tokio::test]
    async fn posts_that_nobody_answers_are_failed_or_unsent() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let offer = Offer { rate: 50.0, time: Duration::from_secs(1), connections: 2 };
        let taken = offer.run(closed).await.unwrap();
        assert_eq!((taken.accepted, taken.refused), (0, 0));
        assert_eq!(taken.failed + taken.unsent, 50);
    }

    #[test]
    fn what_the_connections_counted_is_added() {
        let offer = Offer { rate: 5.0, time: Duration::from_secs(2), connections: 2 };
        let one = Tally { micros: vec![3_000, 1_000], refused: 2, failed: 0, unsent: 1 };
        let two = Tally { micros: vec![2_000], refused: 1, failed: 1, unsent: 2 };
        let taken = sum(offer, vec![one, two]);
        assert_eq!((taken.due, taken.accepted, taken.refused), (10, 3, 3));
        assert_eq!((taken.failed, taken.unsent), (1, 3));
        assert_eq!((taken.rate, taken.p50, taken.p99, taken.max), (1.5, 2.0, 3.0, 3.0));
        assert!((taken.refused_part() - 3.0 / 7.0).abs() < 1e-9);
    }
}
