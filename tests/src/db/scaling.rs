//! A trial of scaling: a hundred reads in a window, and then silence. Readers grow from one to five and shrink to one.
//! A crash is replaced at any time, and a retired reader is not.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{DbClient, ReadAnswer};
use super::nodes::DbNodes;
use super::status::{self, WorkerList};
use super::stores::{DbStore, DbUpon};
use crate::lin::history::ReadLevel;
use crate::seed::seed;

const COUNTER: &str = "counter";

/// The window: long enough for all reads on a busy machine, and short enough to wait for its end.
const WINDOW: Duration = Duration::from_secs(10);

/// `per_reads` is 20, so these want five readers.
const READS: usize = 100;

/// Clients that share the reads.
const CLIENTS: usize = 10;

/// How long each step may take. It bounds a hang: readers shrink at the end of the second window at the latest.
const STEP_WITHIN: Duration = Duration::from_secs(90);

/// Between two looks at the workers.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct DbScalingTrial {
    /// Its name.
    pub name: &'static str,
    /// The program, which is `env!("CARGO_BIN_EXE_consort-under-test")`.
    pub program: &'static str,
}

struct Stage {
    nodes: DbNodes,
    began: Instant,
    /// Every worker id that was ever listed.
    seen: BTreeSet<u64>,
}

impl DbScalingTrial {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If the readers do not follow the reads, a crashed worker is not replaced, or a retired reader comes back.
    pub async fn run(self) {
        let mut random = StdRng::seed_from_u64(seed(self.name));
        let store = DbStore::start(DbUpon::Redis).await;
        let window = WINDOW.as_secs();
        let readers =
            format!("readers = {{ min = 1, max = 8, per_reads = 20, window = '{window}s' }}");
        let mut nodes = DbNodes::new(self.program, &[(COUNTER, "src/db/schema/counter", &readers)]);
        for _ in 0..DbUpon::Redis.nodes() {
            nodes.add(&store).await;
        }
        let mut stage = Stage { nodes, began: Instant::now(), seen: BTreeSet::new() };
        let first = stage.until("a leader, and a reader on another node", |list| {
            let nodes: BTreeSet<&str> = list.workers.iter().map(|w| w.node.as_str()).collect();
            reader_ids(list).len() == 1 && list.leader().is_some() && nodes.len() == 2
        });
        let leader = leader_id(&first.await);
        let has_schema = |list: &WorkerList| list.workers.iter().all(|worker| worker.index > 0);
        stage.until("workers with the schema", has_schema).await;

        stage.read_all(&mut random).await;
        let five = stage.until("five readers", |list| reader_ids(list).len() == 5).await;
        let newest = *reader_ids(&five).last().expect("there are five readers");
        let five = stage.replaces(newest, 5).await;

        // The wanted number falls before any reader is told to go, so one that stays crashes while others go.
        let falls = |list: &WorkerList| list.wanted < five.wanted;
        let fewer = stage.until("fewer readers are wanted", falls).await;
        let oldest = *reader_ids(&fewer).first().expect("one reader stays");
        let last = stage.replaces(oldest, 1).await;
        assert_eq!(leader_id(&last), leader, "the leader stays");
        stage.stays(&last, WINDOW * 2).await;
        stage.nodes.stop().await;
    }
}

impl Stage {
    /// Looks at the workers until they are as they should be.
    async fn until(&mut self, what: &str, fits: impl Fn(&WorkerList) -> bool) -> WorkerList {
        let deadline = Instant::now() + STEP_WITHIN;
        loop {
            self.nodes.tend();
            let list = self.look().await;
            if let Some(list) = list.as_ref().filter(|list| fits(list)) {
                eprintln!("{:6.1?} {what}: {list:?}", self.began.elapsed());
                return list.clone();
            }
            assert!(Instant::now() < deadline, "{what}: never; at last {list:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&mut self) -> Option<WorkerList> {
        let id = self.nodes.well().into_iter().next()?;
        let list = status::workers(&self.nodes.address(&id), COUNTER).await?;
        self.seen.extend(list.workers.iter().map(|worker| worker.id));
        Some(list)
    }

    /// Sends all reads within one window. Each must be answered at once: one that is sent again would count twice.
    async fn read_all(&self, random: &mut StdRng) {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let mut client = DbClient::new(self.nodes.list(), COUNTER, ANSWER_WITHIN, random);
            clients.spawn(async move {
                for _ in 0..READS / CLIENTS {
                    let query = json!([["SELECT COUNT(*) FROM counter"]]);
                    let answer = client.read(&query, ReadLevel::Any).await;
                    assert!(matches!(answer, ReadAnswer::Rows { .. }), "{answer:?}");
                }
            });
        }
        clients.join_all().await;
        eprintln!("{:6.1?} {READS} reads are answered", self.began.elapsed());
    }

    /// Crashes a reader, and waits until there are as many readers as wanted, one of them with an id that is higher
    /// than all before.
    async fn replaces(&mut self, id: u64, readers: usize) -> WorkerList {
        let highest = self.seen.last().copied().unwrap_or(0);
        let well = self.nodes.well();
        let asked = self.nodes.address(well.first().expect("a node is well"));
        assert!(status::crash(&asked, COUNTER, id).await, "reader {id} is there to crash");
        let what = format!("{readers} readers, one of them instead of {id}");
        let is_replaced = |list: &WorkerList| {
            let ids = reader_ids(list);
            ids.len() == readers && !ids.contains(&id) && ids.last() > Some(&highest)
        };
        self.until(&what, is_replaced).await
    }

    /// Looks for this time that no other worker is listed.
    async fn stays(&mut self, list: &WorkerList, time: Duration) {
        let ids = |list: &WorkerList| list.workers.iter().map(|w| w.id).collect::<Vec<u64>>();
        let until = Instant::now() + time;
        while Instant::now() < until {
            if let Some(now) = self.look().await {
                assert_eq!(ids(&now), ids(list), "no retired reader comes back");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The ids of the readers, ascending.
fn reader_ids(list: &WorkerList) -> Vec<u64> {
    list.readers().map(|reader| reader.id).collect()
}

fn leader_id(list: &WorkerList) -> Option<u64> {
    list.leader().map(|leader| leader.id)
}
