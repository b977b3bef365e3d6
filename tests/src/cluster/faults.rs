//! The faults: a shuffled deck of them, dealt one after another while earlier ones are still going on.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use tokio::time::Instant;

use super::ledger::Ledger;
use super::nodes::{LEASE, Nodes};
use super::operator::{self, Answer};
use super::servers::{Blow, Servers, Victim};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of a node, which is then started again.
    Kill,
    /// SIGSTOP of a node past its lease, then SIGCONT.
    Pause,
    /// The same, with another process under its id meanwhile.
    Replace,
    /// One more node.
    Join,
    /// A node is retired.
    Drain,
    /// A server goes down and comes back with its data. Only while nodes are there to notice: those that
    /// start meanwhile do not come up.
    Outage(Victim, Blow),
}

/// How often each fault happens: 62 in all, without those of the broker. As many join as retire.
const DECK: [(Fault, usize); 7] = [
    (Fault::Kill, 14),
    (Fault::Pause, 12),
    (Fault::Replace, 4),
    (Fault::Join, 11),
    (Fault::Drain, 11),
    (Fault::Outage(Victim::Redis, Blow::Kill), 5),
    (Fault::Outage(Victim::Redis, Blow::Stop), 5),
];

/// What the broker adds.
const BROKER_DECK: [(Fault, usize); 2] = [
    (Fault::Outage(Victim::Rabbit, Blow::Kill), 3),
    (Fault::Outage(Victim::Rabbit, Blow::Stop), 3),
];

/// A cluster has at least so many nodes, some of which may be down, and at most so many.
const FEWEST: usize = 2;
const MOST: usize = 5;

/// Between two faults, in milliseconds.
const GAP_MILLIS: std::ops::Range<u64> = 300..1_600;

/// How long a killed node stays down: within its lease, about as long, and longer.
const DOWN_MILLIS: std::ops::Range<u64> = 0..2_500;

/// How long a paused node stays so: always past its lease.
const PAUSE_MILLIS: std::ops::Range<u64> = 1_700..4_500;

/// How long a server is down, without the time of its start: within the leases, and past them.
const OUTAGE_MILLIS: std::ops::Range<u64> = 0..2_500;

/// Records that are acknowledged between two outages of one server.
const PROGRESS: usize = 1_000;

/// Between two looks at what is due.
const TEND_EVERY: Duration = Duration::from_millis(20);

/// How long it may take until the next fault is possible, or all earlier ones are over. A broker starts
/// within some ten seconds on a busy machine, and nodes join some seconds later.
const OVER_WITHIN: Duration = Duration::from_secs(120);

/// What is hurt, and by whose chance.
#[derive(Debug)]
pub struct Scene {
    /// The servers.
    pub servers: Servers,
    /// The nodes.
    pub nodes: Nodes,
    /// What was acknowledged.
    pub ledger: Ledger,
    /// What decides.
    pub random: StdRng,
    /// How much was acknowledged when a server last went down.
    before: BTreeMap<Victim, usize>,
}

impl Scene {
    /// A scene in which nothing has happened yet.
    pub fn new(servers: Servers, nodes: Nodes, ledger: Ledger, random: StdRng) -> Self {
        Scene { servers, nodes, ledger, random, before: BTreeMap::new() }
    }

    /// Deals the whole deck; gives how often each fault happened.
    ///
    /// # Panics
    ///
    /// If a node does what it should not, or the cluster gets stuck.
    pub async fn suffer(&mut self, with_broker: bool) -> BTreeMap<Fault, usize> {
        let broker = BROKER_DECK.iter().filter(|_| with_broker);
        let cards = DECK.iter().chain(broker).flat_map(|&(fault, times)| vec![fault; times]);
        let mut deck: Vec<Fault> = cards.collect();
        deck.shuffle(&mut self.random);
        let began = Instant::now();
        let mut happened = BTreeMap::new();
        while !deck.is_empty() {
            let fault = self.next(&mut deck).await;
            *happened.entry(fault).or_default() += 1;
            let number: usize = happened.values().sum();
            let acknowledged = self.ledger.acknowledged();
            eprintln!("{:7.2?} {number:3} {fault:?}, {acknowledged} acknowledged", began.elapsed());
            let gap = Duration::from_millis(self.random.random_range(GAP_MILLIS));
            self.tend_for(gap).await;
        }
        happened
    }

    /// Waits until every fault is over.
    ///
    /// # Panics
    ///
    /// If one is not.
    pub async fn all_over(&mut self) {
        self.servers.all_up().await;
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

    /// Does `fault`, if it can happen now.
    async fn inflict(&mut self, fault: Fault) -> bool {
        let well = self.nodes.well();
        let one = well.choose(&mut self.random).cloned();
        match (fault, one) {
            (Fault::Kill, Some(id)) => {
                let until = self.later(DOWN_MILLIS);
                self.nodes.kill(&id, until).await;
            }
            (Fault::Pause, Some(id)) => {
                let until = self.later(PAUSE_MILLIS);
                self.nodes.pause(&id, until);
            }
            (Fault::Replace, Some(id)) => {
                let until = self.later(PAUSE_MILLIS);
                self.nodes.replace(&id, until);
            }
            (Fault::Join, _) if self.nodes.staying() < MOST => drop(self.nodes.add()),
            (Fault::Drain, Some(id)) if self.nodes.staying() > FEWEST => {
                return self.drain(&id).await;
            }
            (Fault::Outage(victim, blow), _) if well.len() > 1 => return self.outage(victim, blow),
            _ => return false,
        }
        true
    }

    /// Takes a server down, unless little was acknowledged since it was down before: without time between
    /// two outages, a trial would see nothing but outages.
    fn outage(&mut self, victim: Victim, blow: Blow) -> bool {
        let acknowledged = self.ledger.acknowledged();
        let before = self.before.get(&victim).copied().unwrap_or(0);
        if !self.servers.is_up(victim) || acknowledged < before + PROGRESS {
            return false;
        }
        self.before.insert(victim, acknowledged);
        let down_for = self.random.random_range(OUTAGE_MILLIS);
        self.servers.hurt(victim, blow, Duration::from_millis(down_for));
        true
    }

    /// Asks a node to retire, as an operator does, who asks again when the store fails.
    async fn drain(&mut self, id: &str) -> bool {
        if !self.servers.is_up(Victim::Redis) {
            return false;
        }
        let Some(asked) = self.another_than(id) else { return false };
        self.nodes.retires(id);
        let deadline = Instant::now() + LEASE * 10;
        let (mut unclear, mut refused) = (String::new(), false);
        // An earlier request, of which nobody heard, may have been taken, and the node may be gone.
        while Instant::now() < deadline && self.nodes.has(id) {
            refused = false;
            match operator::drain(&asked, id).await {
                Answer::Taken => return true,
                // Or it was not taken, and the node is not known just now: a pause or an outage cost it its lease.
                // Then it comes back, and can be asked again.
                Answer::Refused => refused = true,
                Answer::Unclear(why) => unclear = why,
            }
            if refused && unclear.is_empty() {
                break;
            }
            self.tend_for(TEND_EVERY).await;
        }
        if refused && self.nodes.has(id) {
            self.nodes.stays(id);
            return false;
        }
        assert!(
            !self.nodes.has(id),
            "{asked} could not be asked to retire {id} although Redis is up: {unclear}"
        );
        true
    }

    /// The address of a node, other than `id`, that can be asked.
    fn another_than(&mut self, id: &str) -> Option<String> {
        let well = self.nodes.well();
        let others: Vec<&String> = well.iter().filter(|other| *other != id).collect();
        let other = others.choose(&mut self.random)?;
        self.nodes.address(other).map(str::to_string)
    }

    fn later(&mut self, millis: std::ops::Range<u64>) -> Instant {
        Instant::now() + Duration::from_millis(self.random.random_range(millis))
    }

    async fn tend_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            self.servers.tend().await;
            self.nodes.tend(&self.servers);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep(TEND_EVERY.min(until - Instant::now())).await;
        }
    }
}

/// Whether each fault happened as often as the deck says.
pub fn is_whole(happened: &BTreeMap<Fault, usize>, with_broker: bool) -> bool {
    let broker = BROKER_DECK.iter().filter(|_| with_broker);
    DECK.iter().chain(broker).all(|(fault, times)| happened.get(fault) == Some(times))
}
