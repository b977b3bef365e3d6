//! A client of either workload. It repeats a call until the outcome is known or it gives up, and records the span and
//! outcome of all tries together.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{DbClient, NodeList, ReadAnswer, WriteAnswer};
use super::clock::TrialClock;
use crate::lin::history::{CallSpan, ReadLevel, Row, ToldOutcome};

/// How long every other client waits for an answer: shorter than a node is paused, so that outcomes are unknown.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How long the others wait: longer than a node holds a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause before a request is sent again.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause between two calls of one client, in milliseconds. Two cores are for the nodes.
const THINKS_MILLIS: std::ops::Range<u64> = 10..70;

/// How long a call may take with all its tries: servers may be down for some seconds.
const DONE_WITHIN: Duration = Duration::from_secs(90);

/// One write in so many is given up by its client at its first failure.
const GIVES_UP_ONE_IN: u32 = 5;

/// One write in so many has no key, so it cannot be repeated after an unknown outcome.
const KEYLESS_ONE_IN: u32 = 5;

/// One acknowledged write in so many is sent again, as by a client that did not hear the answer.
const REPEAT_ONE_IN: u32 = 15;

/// The state that all callers of a workload share. Clones are of the same workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The nodes.
    pub nodes: NodeList,
    /// The database.
    pub database: &'static str,
    /// The clock.
    pub clock: TrialClock,
    stamps: Arc<AtomicI64>,
    acknowledged: Arc<AtomicUsize>,
    stop: watch::Sender<bool>,
}

impl Workload {
    /// Nothing is sent yet.
    pub fn new(nodes: NodeList, database: &'static str, clock: TrialClock) -> Workload {
        let (stop, _) = watch::channel(false);
        let (stamps, acknowledged) = (Arc::new(AtomicI64::new(1)), Arc::default());
        Workload { nodes, database, clock, stamps, acknowledged, stop }
    }

    /// How many writes are acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Asks all callers to end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// One client, which makes one call after another.
#[derive(Debug)]
pub struct DbCaller {
    /// Its number.
    pub number: u32,
    /// Its chance.
    pub random: StdRng,
    /// The highest index that it saw.
    pub position: u64,
    workload: Workload,
    client: DbClient,
}

impl DbCaller {
    /// A client.
    pub fn new(number: u32, workload: &Workload, random: &mut StdRng) -> DbCaller {
        let mut random = StdRng::seed_from_u64(random.random());
        let within = if number.is_multiple_of(2) { ANSWER_WITHIN } else { PATIENCE };
        let client = DbClient::new(workload.nodes.clone(), workload.database, within, &mut random);
        DbCaller { number, random, position: 0, workload: workload.clone(), client }
    }

    /// Whether it should end.
    pub fn is_stopped(&self) -> bool {
        *self.workload.stop.borrow()
    }

    /// A stamp that no other write has.
    pub fn stamp(&self) -> i64 {
        self.workload.stamps.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits as a client does between two calls.
    pub async fn think(&mut self) {
        let millis = self.random.random_range(THINKS_MILLIS);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Writes as any client does: with or without a key, and giving up or not.
    pub async fn write(&mut self, statements: &Value) -> (CallSpan, ToldOutcome) {
        let has_key = !self.random.random_ratio(1, KEYLESS_ONE_IN);
        let gives_up = self.random.random_ratio(1, GIVES_UP_ONE_IN);
        self.write_as(statements, has_key, gives_up).await
    }

    /// Writes until it is known whether it is stored.
    pub async fn insist(&mut self, statements: &Value) -> (CallSpan, ToldOutcome) {
        self.write_as(statements, true, false).await
    }

    async fn write_as(
        &mut self,
        statements: &Value,
        has_key: bool,
        gives_up: bool,
    ) -> (CallSpan, ToldOutcome) {
        let key = has_key.then(|| format!("{:032x}", self.random.random::<u128>()));
        let (began, deadline) = (self.workload.clock.now(), Instant::now() + DONE_WITHIN);
        let mut tries = Tries::default();
        loop {
            let answer = self.client.write(statements, key.as_deref()).await;
            if let Some(outcome) = tries.take(&answer, has_key, gives_up) {
                let mut span = self.workload.clock.ended(began);
                if outcome == ToldOutcome::Unknown {
                    span.ended = None;
                }
                self.heard(statements, key.as_deref(), answer).await;
                return (span, outcome);
            }
            assert!(Instant::now() < deadline, "never acknowledged: {statements}: {answer:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes note of the last answer. At times it sends an acknowledged write again, which gets the first answer.
    async fn heard(&mut self, statements: &Value, key: Option<&str>, answer: WriteAnswer) {
        let WriteAnswer::Stored { index, .. } = answer else { return };
        self.workload.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.position = self.position.max(index.unwrap_or(0));
        if key.is_none() || index.is_none() || !self.random.random_ratio(1, REPEAT_ONE_IN) {
            return;
        }
        let again = self.client.write(statements, key).await;
        let is_first = match &again {
            WriteAnswer::Stored { index: Some(_), .. } => again == answer,
            WriteAnswer::Unmet => false,
            _ => true,
        };
        assert!(is_first, "a repeat of {statements} got {again:?} after {answer:?}");
    }

    /// Reads until there is an answer, each try a call of its own. Nothing if the workload ends first.
    pub async fn read(
        &mut self,
        queries: &Value,
        level: ReadLevel,
    ) -> Option<(CallSpan, u64, Vec<Vec<Row>>)> {
        let deadline = Instant::now() + DONE_WITHIN;
        loop {
            let began = self.workload.clock.now();
            match self.client.read(queries, level).await {
                ReadAnswer::Rows { index, results } => {
                    self.position = self.position.max(index);
                    return Some((self.workload.clock.ended(began), index, results));
                }
                ReadAnswer::Failed(_) if self.is_stopped() => return None,
                ReadAnswer::Failed(said) => {
                    assert!(Instant::now() < deadline, "never answered: {queries}: {said}");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The tries of one write so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// One may take effect at any later time.
    may_be_stored: bool,
}

impl Tries {
    /// Takes the answer to the next try; returns the outcome of the write if there is no further try. A refusal settles
    /// only its own try: an earlier one may still take effect.
    fn take(&mut self, answer: &WriteAnswer, has_key: bool, gives_up: bool) -> Option<ToldOutcome> {
        let is_open = self.may_be_stored;
        let refused = |outcome| if is_open { ToldOutcome::Unknown } else { outcome };
        match answer {
            WriteAnswer::Stored { index, .. } => Some(ToldOutcome::Stored { index: *index }),
            WriteAnswer::Unmet => Some(refused(ToldOutcome::Unmet)),
            WriteAnswer::NotStored(_) => gives_up.then(|| refused(ToldOutcome::NotStored)),
            WriteAnswer::Unknown(_) => {
                self.may_be_stored = true;
                (gives_up || !has_key).then_some(ToldOutcome::Unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_after_an_unknown_outcome_leaves_it_unknown() {
        let (unknown, busy) =
            (WriteAnswer::Unknown("late".into()), WriteAnswer::NotStored("busy".into()));
        let stored = WriteAnswer::Stored { index: Some(4), results: Value::Null };
        let known = ToldOutcome::Stored { index: Some(4) };
        // The answers in order, with a key, giving up at the first failure; the outcome.
        let cases: [(&[&WriteAnswer], bool, bool, Option<ToldOutcome>); 9] = [
            (&[&stored], true, false, Some(known)),
            (&[&busy, &stored], false, false, Some(known)),
            (&[&unknown, &busy, &stored], true, false, Some(known)),
            (&[&unknown, &WriteAnswer::Unmet], true, false, Some(ToldOutcome::Unknown)),
            (&[&busy, &WriteAnswer::Unmet], true, false, Some(ToldOutcome::Unmet)),
            (&[&unknown], false, false, Some(ToldOutcome::Unknown)),
            (&[&unknown], true, true, Some(ToldOutcome::Unknown)),
            (&[&busy], true, true, Some(ToldOutcome::NotStored)),
            (&[&unknown, &busy], true, false, None),
        ];
        for (answers, has_key, gives_up, expected) in cases {
            let mut tries = Tries::default();
            let outcomes: Vec<_> =
                answers.iter().map(|answer| tries.take(answer, has_key, gives_up)).collect();
            assert_eq!(outcomes.last(), Some(&expected), "{answers:?}");
            let (_, before) = outcomes.split_last().unwrap();
            assert!(before.iter().all(Option::is_none), "{answers:?}");
        }
    }
}
