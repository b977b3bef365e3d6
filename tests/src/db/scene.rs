//! The scene of a trial: faults strike one after another, some while earlier ones are still going on.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use tokio::time::Instant;

use super::faults::{DbFault, FaultTarget, deck};
use super::nodes::{DbNodes, LEASE};
use super::pauses::FaultLog;
use super::status::{self, WorkerEntry};
use super::stores::{DbStore, DbUpon, StopSignal};
use super::{BANK, REGISTER};
use crate::cluster::operator::{self, Answer};

/// Between two faults, in milliseconds.
const GAP_MILLIS: std::ops::Range<u64> = 300..1_500;

/// How long a node stays down: within its lease, about as long, and longer.
const DOWN_MILLIS: std::ops::Range<u64> = 0..2_000;

/// How long a node is paused or silent: always past its lease.
const PAUSE_MILLIS: std::ops::Range<u64> = 1_300..3_000;

/// How long a server is down, without the time of its start.
const OUTAGE_MILLIS: std::ops::Range<u64> = 0..1_500;

/// The bytes of answers that still arrive before connections break: none, a part of an answer, or some answers.
const CUT_BYTES: std::ops::Range<u64> = 0..2_000;

/// Writes that are acknowledged before every other fault, so that a trial has more than outages.
const PROGRESS: usize = 40;

/// Between two looks at the nodes.
const TEND_EVERY: Duration = Duration::from_millis(20);

/// How long it may take until the next fault is possible, or all earlier ones are over.
const OVER_WITHIN: Duration = Duration::from_secs(90);

/// Store and nodes, and all that happened to them.
#[derive(Debug)]
pub struct DbScene {
    /// The store.
    pub store: DbStore,
    /// The nodes.
    pub nodes: DbNodes,
    /// The faults so far.
    pub log: FaultLog,
    random: StdRng,
}

impl DbScene {
    /// A scene in which nothing has happened yet.
    pub fn new(store: DbStore, nodes: DbNodes, log: FaultLog, random: StdRng) -> DbScene {
        DbScene { store, nodes, log, random }
    }

    /// Lets so many faults strike. `acknowledged` counts the writes of all clients.
    ///
    /// # Panics
    ///
    /// If a node does not do as it should, or the cluster gets stuck.
    pub async fn suffer(&mut self, upon: DbUpon, faults: usize, acknowledged: impl Fn() -> usize) {
        let mut deck = deck(upon, faults, &mut self.random);
        let began = Instant::now();
        while !deck.is_empty() {
            if deck.len().is_multiple_of(2) {
                self.progress(&acknowledged).await;
            }
            let fault = self.next(&mut deck).await;
            let (at, number) = (began.elapsed(), self.log.len());
            eprintln!("{at:7.2?} {number:3} {fault}, {} acknowledged", acknowledged());
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

    /// Waits until further writes are acknowledged.
    async fn progress(&mut self, acknowledged: impl Fn() -> usize) {
        let (deadline, enough) = (Instant::now() + OVER_WITHIN, acknowledged() + PROGRESS);
        while acknowledged() < enough {
            assert!(Instant::now() < deadline, "no write is acknowledged any more");
            self.tend_for(TEND_EVERY).await;
        }
    }

    /// Does the first fault of the deck that can happen now, as soon as there is one.
    async fn next(&mut self, deck: &mut Vec<DbFault>) -> DbFault {
        let deadline = Instant::now() + OVER_WITHIN;
        loop {
            for at in (0..deck.len()).rev() {
                let now = self.log.now();
                if self.inflict(deck[at]).await {
                    let fault = deck.remove(at);
                    self.log.note(now, fault);
                    return fault;
                }
            }
            assert!(Instant::now() < deadline, "no fault is possible: {:?}", self.nodes);
            self.tend_for(TEND_EVERY).await;
        }
    }

    /// Does `fault`, if it can happen now. Of several nodes, one is always left alone.
    async fn inflict(&mut self, fault: DbFault) -> bool {
        let database = *[REGISTER, BANK].choose(&mut self.random).unwrap_or(&REGISTER);
        match fault {
            DbFault::Kill(target) => {
                let Some(id) = self.node_of(target, database).await else { return false };
                let (until, keeps) = (self.later(DOWN_MILLIS), self.random.random_bool(0.7));
                self.nodes.kill(&id, until, keeps).await;
                true
            }
            DbFault::Stop(target) => {
                let Some(id) = self.node_of(target, database).await else { return false };
                let until = self.later(DOWN_MILLIS);
                self.nodes.stop_one(&id, until).await;
                true
            }
            DbFault::Pause(target) => {
                let Some(id) = self.node_of(target, database).await else { return false };
                let until = self.later(PAUSE_MILLIS);
                self.nodes.pause(&id, until);
                true
            }
            DbFault::Crash(target) => self.crash(target, database).await,
            DbFault::Cut => {
                let Some(id) = self.node_of(FaultTarget::Leader, database).await else {
                    return false;
                };
                let bytes = self.random.random_range(CUT_BYTES);
                self.nodes.cut(&id, bytes)
            }
            DbFault::Silence => {
                let Some(id) = self.node_of(FaultTarget::Leader, database).await else {
                    return false;
                };
                let (until, only_answers) = (self.later(PAUSE_MILLIS), self.random.random());
                self.nodes.silence(&id, only_answers, until)
            }
            DbFault::Outage(signal) => self.outage(signal).await,
            DbFault::Drain(target) => {
                let Some(id) = self.node_of(target, database).await else { return false };
                self.drain(&id).await
            }
        }
    }

    /// The node that has this part of a database, if it is well and not the last one that is.
    async fn node_of(&mut self, target: FaultTarget, database: &str) -> Option<String> {
        let well = self.nodes.well();
        let asked = self.nodes.address(well.choose(&mut self.random)?);
        let id = match target {
            FaultTarget::Supervisor => status::supervisor(&asked, database).await?,
            _ => self.worker(&asked, target, database).await?.node,
        };
        let is_alone = self.nodes.list().all().len() == 1;
        (well.contains(&id) && (is_alone || well.len() > 1)).then_some(id)
    }

    /// A worker, as the node at `asked` lists them.
    async fn worker(
        &mut self,
        asked: &str,
        target: FaultTarget,
        database: &str,
    ) -> Option<WorkerEntry> {
        let list = status::workers(asked, database).await?;
        match target {
            FaultTarget::Leader => list.leader().cloned(),
            FaultTarget::Reader => list.readers().choose(&mut self.random).cloned(),
            FaultTarget::Supervisor => None,
        }
    }

    async fn crash(&mut self, target: FaultTarget, database: &str) -> bool {
        let well = self.nodes.well();
        let Some(asked) = well.choose(&mut self.random).map(|id| self.nodes.address(id)) else {
            return false;
        };
        match self.worker(&asked, target, database).await {
            Some(worker) => status::crash(&asked, database, worker.id).await,
            None => false,
        }
    }

    /// Takes the store's server down while all nodes are there to notice: one that starts meanwhile does not come up.
    async fn outage(&mut self, signal: StopSignal) -> bool {
        if !self.nodes.all_well() {
            return false;
        }
        let down_for = Duration::from_millis(self.random.random_range(OUTAGE_MILLIS));
        self.store.restart(signal, down_for).await
    }

    /// Lets a node join and asks it to retire `id`; asks again while the outcome is unclear, as an operator does.
    async fn drain(&mut self, id: &str) -> bool {
        if !self.nodes.all_well() {
            return false;
        }
        let other = self.nodes.add(&self.store).await;
        let deadline = Instant::now() + OVER_WITHIN;
        while !self.nodes.well().contains(&other) {
            assert!(Instant::now() < deadline, "{other} does not join");
            self.tend_for(TEND_EVERY).await;
        }
        let asked = self.nodes.address(&other);
        self.nodes.retires(id);
        let deadline = Instant::now() + LEASE * 20;
        while self.nodes.has(id) {
            match operator::drain(&asked, id).await {
                Answer::Taken => return true,
                // It may be out of touch for a moment.
                answer @ (Answer::Refused | Answer::Unclear(_)) => {
                    assert!(Instant::now() < deadline, "{asked} does not retire {id}: {answer:?}");
                }
            }
            self.tend_for(TEND_EVERY).await;
        }
        true
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
