//! Producers: tasks that append records all the time, by appenders of their own, and keep the ledger.
//!
//! They stand for the doors of several nodes and their clients. A client that got no answer, or lost
//! patience, may send the same record again, under the same id; some send twice for no reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use consort_cluster::{Appender, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::{AppendError, Records, SystemEntropy};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::ledger::{Ledger, Outcome};
use super::lossy::LossyLog;
use crate::tally::{self, Entry, PARTITIONS};

/// Keys that are counted: several in each partition.
const KEYS: u32 = 48;

/// Appenders, by how long they try: an impatient one ends with unknown and failed appends.
const GIVE_UP_AFTER: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(10)];

/// Tasks that share one appender.
const TASKS_EACH: usize = 2;

/// The pause between two appends of one task, in milliseconds. Far below what the engines could take: two
/// cores are for the nodes.
const PAUSE_MILLIS: std::ops::Range<u64> = 5..45;

/// The records of most frames.
const RECORDS: std::ops::RangeInclusive<usize> = 1..=6;

/// The records of a large frame: more than one commit of a shard takes.
const MANY_RECORDS: usize = 1_500;

/// One frame in so many is large.
const LARGE_ONE_IN: u32 = 600;

/// One append in so many is given up by its client at a random moment.
const ABANDONED_ONE_IN: u32 = 40;

/// One frame in so many has a record that was sent before.
const REPEAT_ONE_IN: u32 = 6;

/// How many earlier records a task may repeat, and how many it remembers to send again.
const REMEMBERED: usize = 200;

/// Running producers.
#[derive(Debug)]
pub struct Producers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

/// One client.
struct Client {
    appender: Arc<Appender>,
    ledger: Ledger,
    values: Arc<AtomicU64>,
    random: StdRng,
    /// Records that were sent before, with any outcome.
    sent: VecDeque<Entry>,
    /// Records whose client got no acknowledgement and tries again.
    again: VecDeque<Entry>,
}

impl Producers {
    /// Starts to append to `engine`.
    pub fn start(engine: &Engine, ledger: &Ledger, random: &mut StdRng) -> Self {
        let (stop, values) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
        let mut tasks = JoinSet::new();
        for give_up_after in GIVE_UP_AFTER {
            let appender = Arc::new(Appender::new(
                LossyLog::over(&engine.log),
                Arc::clone(&engine.store),
                TokioRuntime::current(),
                Arc::new(SystemEntropy),
                give_up_after,
            ));
            for _ in 0..TASKS_EACH {
                let client = Client {
                    appender: Arc::clone(&appender),
                    ledger: ledger.clone(),
                    values: Arc::clone(&values),
                    random: StdRng::seed_from_u64(random.random()),
                    sent: VecDeque::new(),
                    again: VecDeque::new(),
                };
                tasks.spawn(client.run(Arc::clone(&stop)));
            }
        }
        Producers { stop, tasks }
    }

    /// Stops when what is under way is settled.
    ///
    /// # Panics
    ///
    /// If a producer did.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a producer does not panic");
        }
    }
}

impl Client {
    async fn run(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            let entries = self.entries();
            let outcome = self.append(&entries).await;
            self.ledger.take(&entries, outcome);
            self.remember(&entries, outcome);
            let pause = self.random.random_range(PAUSE_MILLIS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// The records of the next frame: new ones, one that is tried again, and at times one that was sent
    /// before.
    fn entries(&mut self) -> Vec<Entry> {
        let again = self.again.pop_front();
        let partition = match &again {
            Some(entry) => entry.partition(),
            None => self.random.random_range(0..PARTITIONS),
        };
        let mut entries: Vec<Entry> = again.into_iter().collect();
        let count = match self.one_in(LARGE_ONE_IN) {
            true => MANY_RECORDS,
            false => self.random.random_range(RECORDS),
        };
        let keys: Vec<u32> =
            (0..KEYS).filter(|&key| entry(key, 0).partition() == partition).collect();
        for _ in 0..count {
            // A partition without keys would be silent, and only have ticks.
            let Some(&key) = keys.get(self.random.random_range(0..keys.len().max(1))) else {
                break;
            };
            entries.push(entry(key, self.values.fetch_add(1, Ordering::Relaxed)));
        }
        if self.one_in(REPEAT_ONE_IN) {
            let sent = self.sent.iter().filter(|entry| entry.partition() == partition);
            let sent: Vec<&Entry> = sent.collect();
            if !sent.is_empty() {
                entries.push(sent[self.random.random_range(0..sent.len())].clone());
            }
        }
        entries
    }

    async fn append(&mut self, entries: &[Entry]) -> Outcome {
        let Some(first) = entries.first() else { return Outcome::Failed };
        let at = tally::partition(first.partition());
        let records: Records = entries.iter().map(|entry| entry.to_string()).collect();
        let append = self.appender.events(&at, records);
        let result = if self.random.random_ratio(1, ABANDONED_ONE_IN) {
            let patience = Duration::from_micros(self.random.random_range(0..5_000));
            match tokio::time::timeout(patience, append).await {
                Ok(result) => result,
                // Dropped in the middle: nobody knows.
                Err(_) => return Outcome::Unknown,
            }
        } else {
            append.await
        };
        match result {
            Ok(place) => {
                self.ledger.reached(&place);
                Outcome::Acknowledged
            }
            Err(AppendError::Unknown(_)) => Outcome::Unknown,
            Err(AppendError::Engine(_)) => Outcome::Failed,
            Err(AppendError::Refused(refusal)) => panic!("a frame of the test's own: {refusal}"),
        }
    }

    fn remember(&mut self, entries: &[Entry], outcome: Outcome) {
        // Half of those that got no acknowledgement are sent again, by clients that insist.
        for entry in entries.iter().take(REMEMBERED) {
            if outcome != Outcome::Acknowledged && self.random.random() {
                self.again.push_back(entry.clone());
            }
            self.sent.push_back(entry.clone());
        }
        for queue in [&mut self.sent, &mut self.again] {
            let over = queue.len().saturating_sub(REMEMBERED);
            queue.drain(..over);
        }
    }

    fn one_in(&mut self, chances: u32) -> bool {
        self.random.random_ratio(1, chances)
    }
}

fn entry(key: u32, value: u64) -> Entry {
    Entry { key: format!("key-{key}"), value, id: format!("r{value}") }
}
