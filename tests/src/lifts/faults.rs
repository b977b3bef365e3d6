//! The faults: a shuffled deck of them, dealt one after another while earlier ones are still going on.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use tokio::time::Instant;

use super::nodes::{LEASE, Nodes};
use super::servers::Servers;
use crate::cluster::operator::{self, Answer};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of a node, which is then started again.
    Kill,
    /// SIGSTOP of a node past its lease, then SIGCONT.
    Pause,
    /// One more node.
    Join,
    /// A node is retired.
    Drain,
    /// A server is restarted in order. All nodes are there to notice: one that starts meanwhile does not
    /// come up.
    Restart,
    /// SIGKILL of a server, which is then started again. All nodes are there to notice.
    KillServer,
}

/// How often each happens.
pub const DECK: [(Fault, usize); 5] =
    [(Fault::Kill, 7), (Fault::Pause, 6), (Fault::Join, 2), (Fault::Drain, 2), (Fault::Restart, 1)];

/// Between two faults, in milliseconds.
const GAP_MILLIS: std::ops::Range<u64> = 400..1_800;

/// How long a killed node stays down: within its lease, about as long, and longer.
const DOWN_MILLIS: std::ops::Range<u64> = 0..2_000;

/// How long a paused node stays so: always past its lease.
const PAUSE_MILLIS: std::ops::Range<u64> = 1_300..3_000;

/// How long a server is down, without the time of its start.
const RESTART_MILLIS: std::ops::Range<u64> = 0..1_000;

/// Between two looks at what is due.
const TEND_EVERY: Duration = Duration::from_millis(20);

/// How long it may take until the next fault is possible, or all earlier ones are over.
const OVER_WITHIN: Duration = Duration::from_secs(90);

/// What is hurt, and by whose chance.
#[derive(Debug)]
pub struct Scene {
    /// The servers.
    pub servers: Servers,
    /// The nodes.
    pub nodes: Nodes,
    random: StdRng,
}

impl Scene {
    /// A scene in which nothing has happened yet.
    pub fn new(servers: Servers, nodes: Nodes, random: StdRng) -> Scene {
        Scene { servers, nodes, random }
    }

    /// Deals a whole deck: each fault so many times. `acknowledged` tells how much the clients have done, for the
    /// trial's own log.
    ///
    /// # Panics
    ///
    /// If a node does what it should not, or the cluster gets stuck.
    pub async fn suffer(&mut self, deck: &[(Fault, usize)], acknowledged: impl Fn() -> usize) {
        let mut deck: Vec<Fault> =
            deck.iter().flat_map(|&(fault, times)| vec![fault; times]).collect();
        deck.shuffle(&mut self.random);
        let began = Instant::now();
        while !deck.is_empty() {
            let fault = self.next(&mut deck).await;
            let (at, acknowledged) = (began.elapsed(), acknowledged());
            eprintln!("{at:7.2?} {fault:?}, {acknowledged} acknowledged");
            let gap = Duration::from_millis(self.random.random_range(GAP_MILLIS));
            self.tend_for(gap).await;
        }
    }

    /// Waits until every fault is over.
    ///
    /// # Panics
    ///
    /// If one is not.
    pub async fn all_over(&mut self) {
        let deadline = Instant::now() + OVER_WITHIN;
        while !self.nodes.all_well() {
            assert!(Instant::now() < deadline, "nodes do not recover: {:?}", self.nodes);
            self.tend_for(TEND_EVERY).await;
        }
    }

    /// Does the first fault of the deck that can happen now, as soon as there is one.
    async fn next(&mut self, deck: &mut Vec<Fault>) -> Fault {
        let deadline = Instant::now() + OVER_WITHIN;
        loop {
            for at in 0..deck.len() {
                if self.inflict(deck[at]).await {
                    return deck.remove(at);
                }
            }
            assert!(Instant::now() < deadline, "no fault is possible: {:?}", self.nodes);
            self.tend_for(TEND_EVERY).await;
        }
    }

    /// Does `fault`, if it can happen now. One node is always left alone.
    async fn inflict(&mut self, fault: Fault) -> bool {
        let well = self.nodes.well();
        let one = well.choose(&mut self.random).cloned().filter(|_| well.len() > 1);
        match (fault, one) {
            (Fault::Kill, Some(id)) => {
                let until = self.later(DOWN_MILLIS);
                self.nodes.kill(&id, until).await;
            }
            (Fault::Pause, Some(id)) => {
                let until = self.later(PAUSE_MILLIS);
                self.nodes.pause(&id, until);
            }
            (Fault::Join, _) => drop(self.nodes.add()),
            (Fault::Drain, Some(id)) => self.drain(&id, &well).await,
            (Fault::Restart, _) if self.nodes.all_well() => {
                let down_for = Duration::from_millis(self.random.random_range(RESTART_MILLIS));
                self.servers.restart(&mut self.random, down_for).await;
            }
            (Fault::KillServer, _) if self.nodes.all_well() => {
                let down_for = Duration::from_millis(self.random.random_range(RESTART_MILLIS));
                self.servers.kill(&mut self.random, down_for).await;
            }
            _ => return false,
        }
        true
    }

    /// Asks another node of `well` that `id` retires, as an operator does, who asks again when it is unclear
    /// what came of it.
    async fn drain(&mut self, id: &str, well: &[String]) {
        let others: Vec<&String> = well.iter().filter(|other| *other != id).collect();
        let other = others.choose(&mut self.random).expect("one node is always left alone");
        let asked = self.nodes.address(other);
        self.nodes.retires(id);
        let deadline = Instant::now() + LEASE * 20;
        loop {
            let answer = operator::drain(&asked, id).await;
            match answer {
                Answer::Taken => return,
                // It may be out of touch for a moment, after a pause or while a server was down.
                Answer::Refused | Answer::Unclear(_) => {}
            }
            assert!(Instant::now() < deadline, "{asked} does not retire {id}: {answer:?}");
            self.tend_for(TEND_EVERY).await;
            if !self.nodes.has(id) {
                // An earlier request, of which nobody heard, was taken.
                return;
            }
        }
    }

    fn later(&mut self, millis: std::ops::Range<u64>) -> Instant {
        Instant::now() + Duration::from_millis(self.random.random_range(millis))
    }

    async fn tend_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            self.nodes.tend();
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep(TEND_EVERY.min(until - Instant::now())).await;
        }
    }
}
