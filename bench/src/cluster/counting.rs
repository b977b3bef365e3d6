//! Real work: the partitions of a stream, each folded by a worker that counts records by their text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::{self, Memory, Plan, Record, Sheet};
use consort_cluster::{Appender, Ended, Part, Role, Runtime, Tenure, TokioRuntime};
use consort_engines::Engine;
use consort_kernel::{
    Element, Entropy, Key, Most, Name, Partition, Shard, SystemEntropy, shard_of,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::SHARDS;
use super::board::Board;
use super::trail::Trail;

pub(super) const PARTITIONS: u32 = 32;

/// As a node's own: longer than Redis takes to restart.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// Never reached, unless something is very wrong.
const YIELD_AFTER: Duration = Duration::from_secs(30);

pub(super) fn partition(index: u32) -> Partition {
    Partition::new(Name::new("rides").expect("a name"), index)
}

pub(super) fn role(index: u32) -> Role {
    Role::new("worker", partition(index).to_string())
}

pub(super) fn pipeline() -> Name {
    Name::new("all").expect("a name")
}

/// Where records of this text are counted. The counters of a partition are spread over shards, as those
/// of a view are.
pub(super) fn counter(partition: u32, text: &[u8]) -> (Shard, Key) {
    let elements: [Element; 3] = ["count".into(), partition.into(), text.into()];
    let key = Key::of(elements);
    (shard_of(&key, SHARDS), key)
}

/// What brings frames into the log of an engine.
pub(super) fn appender(engine: &Engine) -> Appender {
    let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    Appender::new(log, store, TokioRuntime::current(), entropy, GIVE_UP_AFTER)
}

/// Counts, and leaves a trail.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) trail: Trail,
}

impl Plan for Tally {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        let partition = record.partition.index;
        // What is planned is committed about a millisecond later, before and after a pause alike.
        self.trail.step(partition);
        let (shard, key) = counter(partition, record.bytes);
        sheet.add(shard, key, 1, None);
    }
}

/// The workers of one node.
#[derive(Debug)]
pub(super) struct Counting {
    node: String,
    engine: Engine,
    runtime: Arc<dyn Runtime>,
    appender: Arc<Appender>,
    board: Arc<Board>,
    tally: Arc<Tally>,
    partitions: BTreeMap<Role, Partition>,
}

impl Counting {
    pub(super) fn new(node: &str, engine: &Engine, board: &Arc<Board>, tally: &Arc<Tally>) -> Self {
        Counting {
            node: node.into(),
            engine: engine.clone(),
            runtime: TokioRuntime::current(),
            appender: Arc::new(appender(engine)),
            board: Arc::clone(board),
            tally: Arc::clone(tally),
            partitions: (0..PARTITIONS).map(|index| (role(index), partition(index))).collect(),
        }
    }
}

impl Part for Counting {
    fn roles(&self) -> Vec<Role> {
        self.partitions.keys().cloned().collect()
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let options = worker::Options {
            log: Arc::clone(&self.engine.log),
            store: Arc::clone(&self.engine.store),
            runtime: Arc::clone(&self.runtime),
            entropy: Arc::new(SystemEntropy),
            partition: self.partitions[tenure.role()].clone(),
            pipeline: pipeline(),
            plan: Arc::clone(&self.tally) as _,
            appender: Arc::clone(&self.appender),
            batch: Most::default(),
            linger: Duration::ZERO,
            yield_after: YIELD_AFTER,
        };
        let (board, node) = (Arc::clone(&self.board), self.node.clone());
        async move {
            let _shift = board.begin(tenure.role(), &node);
            worker::run(options, tenure).await
        }
        .boxed()
    }
}
