//! The world of one run: an engine that all nodes share, each node's way to it, and what may go wrong.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::memory::{MemoryLog, MemoryStore, ShardImage};
use consort_kernel::{
    Cursor, Frame, Log, LogEntry, Most, Partition, ReadError, SeededEntropy, Shard,
};
use futures::FutureExt;

use crate::clock::SimClock;
use crate::executor::{Executor, Halt};
use crate::faults::Faults;
use crate::handle::Handle;
use crate::log::SimLog;
use crate::runtime::NodeRuntime;
use crate::store::SimStore;
use crate::witness::Witness;

/// Everything of one run. Nodes are numbered by the scenario.
#[derive(Debug)]
pub struct World {
    /// Who runs next. The first field: dropping it ends all tasks before what they use goes.
    pub executor: Executor,
    /// What the engine really holds, without delays and faults: for checks.
    pub store: Arc<MemoryStore>,
    /// What the log really holds.
    pub log: Arc<MemoryLog>,
    /// What may go wrong.
    pub faults: Arc<Faults>,
    /// Randomness for production code.
    pub entropy: Arc<SeededEntropy>,
    /// Sees every commit.
    pub witness: Arc<Witness>,
}

impl World {
    /// An empty engine and the faults of `seed`.
    pub fn new(seed: u64, shards: u16) -> Self {
        World::with_faults(seed, shards, Faults::draw(seed))
    }

    /// An empty engine and these faults.
    pub fn with_faults(seed: u64, shards: u16, faults: Faults) -> Self {
        let executor = Executor::new(seed);
        let clock = Arc::new(SimClock::new(executor.handle().clone()));
        World {
            store: Arc::new(MemoryStore::new(shards, clock)),
            log: Arc::new(MemoryLog::default()),
            faults: Arc::new(faults),
            entropy: Arc::new(SeededEntropy::new(seed)),
            witness: Arc::default(),
            executor,
        }
    }

    /// Time, tasks, pauses, crashes and the trace.
    pub fn handle(&self) -> &Handle {
        self.executor.handle()
    }

    /// Tasks and timers of a node until it crashes.
    pub fn runtime(&self, node: u32) -> Arc<NodeRuntime> {
        Arc::new(self.node_runtime(node))
    }

    /// The store as a node sees it until it crashes.
    pub fn node_store(&self, node: u32) -> Arc<SimStore> {
        let (runtime, faults) = (self.node_runtime(node), Arc::clone(&self.faults));
        let store = SimStore::new(Arc::clone(&self.store), runtime, faults);
        Arc::new(store.seen_by(Arc::clone(&self.witness)))
    }

    /// The log as a node sees it until it crashes.
    pub fn node_log(&self, node: u32) -> Arc<SimLog> {
        let (runtime, faults) = (self.node_runtime(node), Arc::clone(&self.faults));
        Arc::new(SimLog::new(Arc::clone(&self.log), runtime, faults))
    }

    fn node_runtime(&self, node: u32) -> NodeRuntime {
        NodeRuntime::new(self.handle().clone(), node)
    }

    /// See [`Executor::run_for`].
    pub fn run_for(&self, time: Duration) -> Result<(), Halt> {
        self.executor.run_for(time)
    }

    /// See [`Executor::run_until`].
    pub fn run_until(&self, condition: impl FnMut() -> bool, bound: Duration) -> Result<(), Halt> {
        self.executor.run_until(condition, bound)
    }

    /// See [`Executor::run`].
    pub fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        bound: Duration,
    ) -> Result<T, Halt> {
        self.executor.run(work, bound)
    }

    /// Everything that can be read of a partition.
    pub fn entries(&self, at: &Partition) -> Result<Vec<LogEntry>, ReadError> {
        let mut entries = Vec::new();
        let mut cursor = Cursor::at(at_once(self.log.first(at))?);
        loop {
            let page = at_once(self.log.read(at, &cursor, Most::default(), Duration::ZERO))?;
            let Some(last) = page.last() else { return Ok(entries) };
            cursor = last.cursor();
            entries.extend(page);
        }
    }

    /// Makes a partition forget its entries from `from` on, as an engine does that loses its tail. What
    /// is appended next takes their numbers.
    pub fn lose_tail(&self, at: &Partition, from: u64) {
        self.handle().note(format_args!("{at} loses its tail from {from}"));
        self.log.lose_tail(at, from);
    }

    /// Appends these frames behind what is left: other entries under numbers that were read before.
    pub fn regrow(&self, at: &Partition, frames: &[Frame]) {
        self.handle().note(format_args!("{at} regrows by {}", frames.len()));
        for frame in frames {
            if let Err(error) = at_once(self.log.append(at, frame)) {
                panic!("{at} could not regrow: {error}");
            }
        }
    }

    /// What a shard holds now, to be rolled back to.
    pub fn image(&self, shard: Shard) -> ShardImage {
        self.handle().note(format_args!("image of {shard}"));
        self.store.image(shard)
    }

    /// Makes a shard what it was, as an engine does that lost what came after.
    pub fn roll_back(&self, shard: Shard, image: ShardImage) {
        self.handle().note(format_args!("{shard} is rolled back"));
        self.store.roll_back(shard, image);
        self.witness.forget(shard);
    }
}

/// The answer of a call that does not wait, as those of the memory engine: for checks between steps.
pub fn at_once<T>(call: impl Future<Output = T>) -> T {
    match call.now_or_never() {
        Some(answer) => answer,
        None => panic!("a call that must not wait did"),
    }
}
