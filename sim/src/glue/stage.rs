//! The collection of a run, the nodes that work on it, and the senders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::mutation::Mutation;
use consort_cluster::worker::{self, Control};
use consort_cluster::{
    Appender, Collector, Ended, FramesInFlight, Part, Role, Runtime, Tenure, queue_consumer,
};
use consort_glue::fold::FoldRules;
use consort_glue::part::{CollectionQueue, GlueOptions, GluePart, TIMER};
use consort_glue::stored::word::{PART, Replacement};
use consort_glue::stored::{Condition, DocumentHead, GlueWord, SourceNumber, WordAction};
use consort_glue::{
    Collection, CollectionCells, DocumentFormat, OnGap, OnReject, PieceForm, PiecePlace,
    PieceRecord, partition_key,
};
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Cell, Entropy, Kind, Log, Partition, Store, Value, partition_of};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::GlueTwist;
use super::queue::{QUEUE, SimInlet, SimJudge, SimQueue};
use super::requests::{Requests, WatchedLog};
use crate::dice::Dice;
use crate::runtime::NodeRuntime;
use crate::world::{World, at_once};

pub(super) const PARTITIONS: u32 = 3;
const TENANTS: [&str; 2] = ["one", "two"];
pub(super) const IDS: [&str; 3] = ["a", "b", "c"];
const SOURCES: [&str; 2] = ["s", "t"];
const KEYS: [&str; 4] = ["k", "l", "m", "n"];

/// Numbers that a sender skips or sends again: up to so many from the last one on.
const NUMBERS_AROUND: u64 = 3;

/// Memory for documents: little, so that some are evicted.
const CACHE: usize = 8 << 10;

/// The definitions of a run, and whether senders go on.
#[derive(Debug)]
pub(super) struct GlueStage {
    pub(super) collection: Arc<Collection>,
    pub(super) cells: CollectionCells,
    pub(super) shards: u16,
    /// What the engine really holds.
    store: Arc<MemoryStore>,
    stopped: AtomicBool,
    pub(super) requests: Requests,
    pub(super) queue: Arc<SimQueue>,
    /// The next number of each document and source, for all senders together.
    numbers: Mutex<BTreeMap<(usize, usize, usize), u64>>,
}

impl GlueStage {
    pub(super) fn new(seed: u64, world: &World) -> Self {
        let dice = Dice::new(seed, "collection");
        let collection = Collection {
            on_gap: dice.pick(&[OnGap::Skip, OnGap::Reject, OnGap::Halt]).unwrap_or(OnGap::Skip),
            on_reject: dice.pick(&[OnReject::Skip, OnReject::Halt]).unwrap_or(OnReject::Skip),
            revive: dice.per_mille(500),
            gap_for: Duration::from_secs(5),
            ids_for: Duration::from_secs(20),
            history: if dice.per_mille(500) { 5 } else { 0 },
            ..Collection::new("content", DocumentFormat::Json, PARTITIONS)
        };
        let cells = match CollectionCells::new(&collection.name) {
            Ok(cells) => cells,
            Err(error) => panic!("the stage is built wrongly: {error}"),
        };
        let queue = SimQueue::default();
        // Runs that have everything all the time look alike: in every other one the queue stays empty.
        if dice.per_mille(500) {
            queue.stop();
        }
        GlueStage {
            collection: Arc::new(collection),
            cells,
            shards: world.store.shards(),
            store: Arc::clone(&world.store),
            stopped: AtomicBool::new(false),
            requests: Requests::default(),
            queue: Arc::new(queue),
            numbers: Mutex::default(),
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.queue.stop();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn partition(&self, index: u32) -> Partition {
        Partition::new(self.cells.stream().clone(), index)
    }

    /// The place of the piece that halts a document: operators find it in the reject list.
    fn halting(&self, tenant: &str, id: &str) -> Option<PiecePlace> {
        let shard = CollectionCells::shard(partition(tenant, id), self.shards);
        let cell = Cell::new(Kind::Bytes, self.cells.head(tenant, id));
        match at_once(self.store.get(shard, &[cell])).ok()?.pop()? {
            Some(Value::Bytes(head)) => Some(DocumentHead::decode(&head).ok()?.halting?.place),
            _ => None,
        }
    }

    /// The roles of the run. Nothing is trimmed: the account reads all of it.
    pub(super) fn roles(&self) -> Vec<Role> {
        let worker = |index| worker::role(self.cells.stream(), index);
        let timer = Role::new(TIMER, self.collection.name.clone());
        let consumer = queue_consumer::role(format!("{}/{QUEUE}", self.collection.name));
        (0..PARTITIONS).map(worker).chain([timer, consumer]).collect()
    }
}

/// A node's part, with a rule broken if that is wanted.
#[derive(Debug)]
pub(super) struct GlueStation {
    part: GluePart,
    appender: Arc<Appender>,
    collector: Collector,
    mutation: Option<Mutation>,
}

impl GlueStation {
    pub(super) fn new(
        stage: &Arc<GlueStage>,
        world: &World,
        node: u32,
        twist: Option<GlueTwist>,
    ) -> Self {
        let (mutation, rules) = match twist {
            Some(GlueTwist::Worker(mutation)) => (Some(mutation), FoldRules::default()),
            Some(GlueTwist::Fold(rule)) => (None, FoldRules::without(rule)),
            Some(GlueTwist::TicketIgnored | GlueTwist::TriesLate | GlueTwist::SecondTaker)
            | None => (None, FoldRules::default()),
        };
        let log: Arc<dyn Log> = world.node_log(node);
        let log: Arc<dyn Log> =
            Arc::new(WatchedLog::new(log, world.runtime(node), Arc::clone(stage)));
        let store: Arc<dyn Store> = world.node_store(node);
        let runtime: Arc<dyn Runtime> = world.runtime(node);
        let entropy: Arc<dyn Entropy> = world.entropy.clone();
        let appender = Appender::new(
            Arc::clone(&log),
            Arc::clone(&store),
            Arc::clone(&runtime),
            Arc::clone(&entropy),
            Duration::from_secs(5),
        );
        let appender = Arc::new(match twist {
            Some(GlueTwist::TriesLate) => appender.trying_late(),
            _ => appender,
        });
        let collector = Collector::new(
            Arc::clone(&appender),
            Arc::clone(&runtime),
            Duration::from_millis(1),
            FramesInFlight::Unbounded,
        );
        let is_exclusive = twist != Some(GlueTwist::SecondTaker);
        let inlet = SimInlet::new(Arc::clone(&stage.queue), world.runtime(node), is_exclusive);
        let queue = CollectionQueue {
            collection: stage.collection.name.clone(),
            queue: QUEUE.to_owned(),
            inlet: Arc::new(inlet),
            judge: Arc::new(SimJudge),
            admission: Arc::new(queue_consumer::Unlimited),
        };
        let options = GlueOptions {
            log,
            store,
            runtime,
            entropy,
            appender: Arc::clone(&appender),
            collector: collector.clone(),
            queues: vec![queue],
            cache: CACHE,
        };
        let collections = [Arc::clone(&stage.collection)];
        let part = match GluePart::with_rules(&collections, options, rules) {
            Ok(part) => part,
            Err(error) => panic!("the stage is built wrongly: {error}"),
        };
        GlueStation { part, appender, collector, mutation }
    }

    pub(super) fn collector(&self) -> Collector {
        self.collector.clone()
    }

    pub(super) fn appender(&self) -> Arc<Appender> {
        Arc::clone(&self.appender)
    }
}

impl Part for GlueStation {
    fn roles(&self) -> Vec<Role> {
        self.part.roles()
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        match self.part.worker_options(tenure.role()) {
            Some(options) => worker::run_broken(options, tenure, self.mutation).boxed(),
            None => self.part.work(tenure),
        }
    }
}

/// Sends frames of pieces and of operators' words. A frame that fails or is unknown is not tried again: the account
/// goes by the log.
pub(super) async fn send(
    stage: Arc<GlueStage>,
    appender: Arc<Appender>,
    runtime: Arc<NodeRuntime>,
    dice: Dice,
) {
    while !stage.is_stopped() {
        let mut frames: BTreeMap<u32, Vec<Bytes>> = BTreeMap::new();
        for _ in 0..=dice.below(6) {
            let (index, record) = piece(&stage, &dice);
            frames.entry(index).or_default().push(record);
        }
        for (index, records) in frames {
            let _ = appender.events(&stage.partition(index), records).await;
            // Sometimes an operator decides about a place, which may halt its document or not.
            if dice.per_mille(150) {
                let (index, word) = word(&stage, &dice);
                let _ = appender.control(&stage.partition(index), vec![word]).await;
            }
        }
        let pause = if dice.per_mille(20) { 10_000 } else { 1_500 };
        runtime.sleep(dice.time(Duration::from_millis(pause))).await;
    }
}

fn piece(stage: &GlueStage, dice: &Dice) -> (u32, Bytes) {
    let (tenant, id) = (dice.below(2) as usize, dice.below(3) as usize);
    let source = dice.per_mille(600).then(|| dice.below(2) as usize);
    let source = source.map(|source| {
        let seq = number(stage, dice, (tenant, id, source));
        SourceNumber { source: SOURCES[source], seq }
    });
    let (form, content) = change(dice);
    let condition = match dice.below(12) {
        0 => Some(Condition::Exists),
        1 => Some(Condition::Absent),
        _ => None,
    };
    let record = PieceRecord {
        tenant: TENANTS[tenant],
        id: IDS[id],
        form,
        key: dice.pick(&KEYS).filter(|_| dice.per_mille(150)),
        source,
        condition,
        wanted: dice.per_mille(300),
        content: content.as_bytes(),
    };
    (partition(TENANTS[tenant], IDS[id]), record.encode().into())
}

/// Mostly the next number; sometimes one is left out, or sent again, or sent early.
fn number(stage: &GlueStage, dice: &Dice, of: (usize, usize, usize)) -> u64 {
    let mut numbers = stage.numbers.lock();
    let next = numbers.entry(of).or_insert(1);
    match dice.below(10) {
        0 => (*next + dice.below(NUMBERS_AROUND)).max(1),
        1 | 2 => next.saturating_sub(1 + dice.below(NUMBERS_AROUND)).max(1),
        3 => {
            *next += 2;
            *next - 1
        }
        _ => {
            *next += 1;
            *next - 1
        }
    }
}

/// Changes that do not commute.
fn change(dice: &Dice) -> (PieceForm, String) {
    let value = dice.below(1_000);
    let at = dice.below(4);
    let patch = |operations: &str| (PieceForm::JsonPatch, operations.to_owned());
    match dice.below(12) {
        0 => (PieceForm::Delete, String::new()),
        1 => (PieceForm::Whole, format!(r#"{{"list":[{value}],"v":{value}}}"#)),
        2 | 3 => (PieceForm::MergePatch, format!(r#"{{"v":{value},"m{at}":{{"x":{value}}}}}"#)),
        4 => (PieceForm::MergePatch, format!(r#"{{"m{at}":null,"list":[1,2,3]}}"#)),
        5 => patch(r#"[{"op":"move","from":"/list/0","path":"/list/-"}]"#),
        6 => patch(r#"[{"op":"remove","path":"/list/0"},{"op":"remove","path":"/list/0"}]"#),
        7 => patch(&format!(
            r#"[{{"op":"test","path":"/list/0","value":{at}}},{{"op":"add","path":"/hit","value":{value}}}]"#
        )),
        8 => patch(&format!(
            r#"[{{"op":"copy","from":"/list","path":"/c"}},{{"op":"replace","path":"/v","value":{value}}}]"#
        )),
        _ => patch(&format!(r#"[{{"op":"add","path":"/list/{at}","value":{value}}}]"#)),
    }
}

/// A word about a place that may have halted a document: operators see it in the reject list.
fn word(stage: &GlueStage, dice: &Dice) -> (u32, Bytes) {
    let (tenant, id) = (TENANTS[dice.below(2) as usize], IDS[dice.below(3) as usize]);
    let index = partition(tenant, id);
    let place = stage.halting(tenant, id).filter(|_| dice.per_mille(800));
    let place = place.unwrap_or(PiecePlace { partition: index, era: 0, offset: 1, record: 0 });
    let action = match dice.below(3) {
        0 => WordAction::Discard { place },
        1 => WordAction::Retry { place, replacement: None },
        _ => WordAction::Retry {
            place,
            replacement: Some(Replacement {
                form: PieceForm::Whole,
                content: Bytes::from_static(br#"{"list":[0],"v":0}"#),
            }),
        },
    };
    let mut word = GlueWord::new(tenant, id, action);
    word.wanted = dice.per_mille(500);
    let word = Control::Word { part: PART.to_owned(), text: word.encode() };
    (index, word.encode())
}

pub(super) fn partition(tenant: &str, id: &str) -> u32 {
    partition_of(partition_key(tenant, id).as_bytes(), PARTITIONS)
}
