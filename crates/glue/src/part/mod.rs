//! The part of a node that works on collections: a role for each partition that folds its log, one for each
//! collection that appends words at deadlines, one that lets go of old pieces, rejects and outcomes, and one for each
//! queue that fills a collection.

mod feed_bound;
mod retention;
mod timer;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use consort_cluster::queue_consumer::{self, MessageJudge, QueueAdmission};
use consort_cluster::worker::{self, Plan};
use consort_cluster::{Appender, Collector, Ended, Part, Role, Runtime, Tenure};
use consort_kernel::{Entropy, Inlet, Log, Most, Name, NameError, Partition, Store};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::CollectionCells;
use crate::collection::Collection;
use crate::fold::FoldRules;
use crate::plan::{CacheShare, GluePlan};
use retention::Retention;
use timer::Timer;

/// The pipeline of every collection: its one plan folds all of its log.
pub static PIPELINE: LazyLock<Name> = LazyLock::new(|| match Name::new("all") {
    Ok(name) => name,
    Err(error) => panic!("'all' is a name: {error}"),
});

/// The kinds of roles besides workers and queue consumers.
pub const TIMER: &str = "timer";
/// See [`TIMER`].
pub const RETENTION: &str = "retention";

/// How much a worker reads at once: some 14,000 small pieces, or one large one. Their documents are read in slices.
const BATCH: Most = Most { entries: 1_000, bytes: 2 << 20 };

/// How long a worker may get nowhere before another node should try.
const YIELD_AFTER: Duration = Duration::from_secs(30);

/// A queue that fills a collection.
#[derive(Clone)]
pub struct CollectionQueue {
    /// The collection.
    pub collection: String,
    /// The queue's name.
    pub queue: String,
    /// The queue.
    pub inlet: Arc<dyn Inlet>,
    /// Turns its messages into records.
    pub judge: Arc<dyn MessageJudge>,
    /// Admits its pieces by the quota of its tenant.
    pub admission: Arc<dyn QueueAdmission>,
}

/// What the part needs.
#[derive(Clone, Debug)]
pub struct GlueOptions {
    /// Where the pieces are.
    pub log: Arc<dyn Log>,
    /// Where the documents are.
    pub store: Arc<dyn Store>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Appends control records.
    pub appender: Arc<Appender>,
    /// Appends the pieces of queues.
    pub collector: Collector,
    /// The queues that fill collections.
    pub queues: Vec<CollectionQueue>,
    /// The memory for parsed documents, in bytes.
    pub cache: usize,
}

/// Works on all collections of a node's definitions.
pub struct GluePart {
    options: GlueOptions,
    cache: Arc<CacheShare>,
    /// The partitions that this node works on now.
    owned: Arc<AtomicUsize>,
    collections: Vec<Folded>,
}

/// One of the partitions that share the cache.
struct OwnedPartition {
    cache: Arc<CacheShare>,
    owned: Arc<AtomicUsize>,
}

impl OwnedPartition {
    fn new(cache: Arc<CacheShare>, owned: Arc<AtomicUsize>) -> Self {
        cache.share_among(owned.fetch_add(1, Ordering::Relaxed) + 1);
        OwnedPartition { cache, owned }
    }
}

impl Drop for OwnedPartition {
    fn drop(&mut self) {
        self.cache.share_among(self.owned.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

struct Folded {
    collection: Arc<Collection>,
    cells: CollectionCells,
    plan: Arc<GluePlan>,
}

impl GluePart {
    /// The part for these collections.
    ///
    /// # Errors
    /// If the name of a collection is none.
    pub fn new(collections: &[Arc<Collection>], options: GlueOptions) -> Result<Self, NameError> {
        GluePart::with_rules(collections, options, FoldRules::default())
    }

    /// The part for these collections, by these rules.
    ///
    /// # Errors
    /// If the name of a collection is none.
    pub fn with_rules(
        collections: &[Arc<Collection>],
        options: GlueOptions,
        rules: FoldRules,
    ) -> Result<Self, NameError> {
        let cache = Arc::new(CacheShare::new(options.cache));
        let folded = |collection: &Arc<Collection>| {
            let (settings, shards) = (Collection::clone(collection), options.store.shards());
            let plan = GluePlan::new(settings, shards, Arc::clone(&cache))?.with_rules(rules);
            let cells = CollectionCells::new(&collection.name)?;
            Ok(Folded { collection: Arc::clone(collection), cells, plan: Arc::new(plan) })
        };
        let collections = collections.iter().map(folded).collect::<Result<_, NameError>>()?;
        Ok(GluePart { options, cache, owned: Arc::default(), collections })
    }

    /// The options of the worker of a role, if it is the role of a worker of this part.
    pub fn worker_options(&self, role: &Role) -> Option<worker::Options> {
        let (stream, index) =
            role.name().rsplit_once('/').filter(|_| role.kind() == worker::KIND)?;
        let of_stream = |folded: &&Folded| folded.cells.stream().as_str() == stream;
        let folded = self.collections.iter().find(of_stream)?;
        let index: u32 = index.parse().ok()?;
        (index < folded.collection.partitions).then(|| self.worker(folded, index))
    }

    /// The options of the worker that folds partition `index` of a collection.
    fn worker(&self, folded: &Folded, index: u32) -> worker::Options {
        let GlueOptions { log, store, runtime, entropy, appender, .. } = self.options.clone();
        worker::Options {
            log,
            store,
            runtime,
            entropy,
            partition: Partition::new(folded.cells.stream().clone(), index),
            pipeline: PIPELINE.clone(),
            plan: Arc::clone(&folded.plan) as Arc<dyn Plan>,
            appender,
            batch: BATCH,
            // A client that waits for its piece waits for the whole way. A batch grows while the one before it is
            // committed.
            linger: Duration::ZERO,
            yield_after: YIELD_AFTER,
        }
    }

    fn timer(&self, folded: &Folded) -> Timer {
        Timer {
            store: Arc::clone(&self.options.store),
            runtime: Arc::clone(&self.options.runtime),
            appender: Arc::clone(&self.options.appender),
            cells: folded.cells.clone(),
            partitions: folded.collection.partitions,
        }
    }

    fn retention(&self, folded: &Folded) -> Retention {
        Retention {
            log: Arc::clone(&self.options.log),
            store: Arc::clone(&self.options.store),
            runtime: Arc::clone(&self.options.runtime),
            cells: folded.cells.clone(),
            collection: Arc::clone(&folded.collection),
        }
    }

    fn queue_consumer(&self, folded: &Folded, queue: &CollectionQueue) -> queue_consumer::Options {
        queue_consumer::Options {
            inlet: Arc::clone(&queue.inlet),
            stream: folded.cells.stream().clone(),
            judge: Arc::clone(&queue.judge),
            admission: Arc::clone(&queue.admission),
            collector: self.options.collector.clone(),
            runtime: Arc::clone(&self.options.runtime),
        }
    }

    /// The work of a role, if it is one of this part's.
    fn work_of(&self, role: &Role, tenure: Tenure) -> Option<BoxFuture<'static, Ended>> {
        let named =
            |name: &str| self.collections.iter().find(|folded| folded.collection.name == name);
        match role.kind() {
            worker::KIND => {
                let (stream, index) = role.name().rsplit_once('/')?;
                let of_stream = |folded: &&Folded| folded.cells.stream().as_str() == stream;
                let folded = self.collections.iter().find(of_stream)?;
                let index: u32 = index.parse().ok()?;
                let options =
                    (index < folded.collection.partitions).then(|| self.worker(folded, index))?;
                let share = OwnedPartition::new(Arc::clone(&self.cache), Arc::clone(&self.owned));
                let work = async move {
                    let ended = worker::run(options, tenure).await;
                    drop(share);
                    ended
                };
                Some(work.boxed())
            }
            TIMER => Some(self.timer(named(role.name())?).run(tenure).boxed()),
            RETENTION => Some(self.retention(named(role.name())?).run(tenure).boxed()),
            queue_consumer::KIND => {
                let (collection, name) = role.name().split_once('/')?;
                let folded = named(collection)?;
                let mut queues = self.options.queues.iter();
                let queue = queues.find(|one| one.collection == collection && one.queue == name)?;
                Some(queue_consumer::run(self.queue_consumer(folded, queue), tenure).boxed())
            }
            _ => None,
        }
    }
}

impl Part for GluePart {
    fn roles(&self) -> Vec<Role> {
        let mut roles = Vec::new();
        for Folded { collection, cells, .. } in &self.collections {
            let worker = |index| worker::role(cells.stream(), index);
            roles.extend((0..collection.partitions).map(worker));
            roles.push(Role::new(TIMER, collection.name.clone()));
            roles.push(Role::new(RETENTION, collection.name.clone()));
        }
        let consumer = |queue: &CollectionQueue| {
            queue_consumer::role(format!("{}/{}", queue.collection, queue.queue))
        };
        roles.extend(self.options.queues.iter().map(consumer));
        roles
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let role = tenure.role().clone();
        self.work_of(&role, tenure).unwrap_or_else(|| {
            let reason = format!("this node does not know the work of {role}");
            async move { Ended::Yielded { reason } }.boxed()
        })
    }
}

impl fmt::Debug for CollectionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectionQueue")
            .field("collection", &self.collection)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GluePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.collections.iter().map(|folded| &folded.collection.name);
        f.debug_struct("GluePart").field("collections", &names.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
