//! What the windows' scenario plays on: a stream with two views, and those who produce.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort_cluster::{Appender, Collector, FramesInFlight, Part as _, Role, Runtime};
use consort_kernel::{Entropy, Log, Store};
use consort_views::part::{Options, Rules};
use consort_views::schema::{Field, Schema, Unknown};
use consort_views::{
    Aggregate, Definitions, Event, Expression, GroupField, Late, Stream, StreamsPart, Value, View,
    Windows,
};

use crate::clock::EPOCH;
use crate::dice::Dice;
use crate::runtime::NodeRuntime;
use crate::world::World;

pub(super) const PARTITIONS: u32 = 2;

/// How long windows are, wait, and are kept: short, so that many are closed and let go in a run.
const LENGTH: Duration = Duration::from_secs(20);
pub(super) const GRACE: Duration = Duration::from_secs(2);
const KEEP: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

/// How old an event is at most when it is sent: beyond all that is kept.
const OLDEST: Duration = Duration::from_secs(60);

const GROUPS: u64 = 3;
const USERS: u64 = 6;

/// Definitions, and whether producers go on.
pub(super) struct Stage {
    pub(super) definitions: Definitions,
    pub(super) roles: Vec<Role>,
    stopped: AtomicBool,
}

/// What a producer works with.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) runtime: Arc<NodeRuntime>,
    appender: Arc<Appender>,
}

impl Stage {
    pub(super) fn new(seed: u64) -> Self {
        let keep = Dice::new(seed, "keep").pick(&KEEP).unwrap_or_default();
        let definitions = definitions(keep);
        let world = World::new(seed, super::SHARDS);
        let part = StreamsPart::new(&definitions, options(&world, 0, Rules::default()).0);
        let roles = part.roles().into_iter().filter(|role| role.kind() != "keeper").collect();
        Stage { definitions, roles, stopped: AtomicBool::new(false) }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.definitions.streams[0]
    }
}

fn definitions(keep: Duration) -> Definitions {
    let fields = ["group", "user", "when"];
    let field = |name: &str| Field { name: name.into(), ty: "int".parse().unwrap_or_else(wrong) };
    let schema = Schema::new(fields.map(field).into(), Unknown::Reject);
    let stream = Arc::new(Stream {
        name: "events".parse().unwrap_or_else(wrong),
        key: vec![0],
        id: None,
        ids_for: Duration::from_secs(3600),
        time: schema.find("when"),
        partitions: PARTITIONS,
        retain: Duration::from_secs(3600),
        route: None,
        schema: Arc::new(schema),
    });
    let expression = |text: &str| Expression::parse(text, &stream.schema).unwrap_or_else(wrong);
    let view = |number, name: &str, aggregate, late| {
        Arc::new(View {
            name: name.parse().unwrap_or_else(wrong),
            number,
            from: Arc::clone(&stream),
            by: vec![GroupField { name: "group".into(), expression: expression("group") }],
            aggregate,
            condition: None,
            windows: Some(Windows { length: LENGTH, grace: GRACE, keep, late }),
            sinks: Vec::new(),
            routes: Vec::new(),
            answer: None,
        })
    };
    let users = Aggregate::Distinct(vec![expression("user")]);
    let views = vec![
        view(1, "amended", Aggregate::Count, Late::Amend),
        view(2, "listed", users, Late::List),
    ];
    Definitions { streams: vec![Arc::clone(&stream)], views }
}

fn wrong<T>(error: impl std::fmt::Display) -> T {
    panic!("the stage is built wrongly: {error}")
}

/// What a node of the scenario stands on.
pub(super) fn options(world: &World, node: u32, rules: Rules) -> (Options, Line) {
    let log: Arc<dyn Log> = world.node_log(node);
    let store: Arc<dyn Store> = world.node_store(node);
    let own = world.runtime(node);
    let runtime: Arc<dyn Runtime> = own.clone();
    let entropy: Arc<dyn Entropy> = world.entropy.clone();
    let give_up = Duration::from_secs(5);
    let appender = Arc::new(Appender::new(
        Arc::clone(&log),
        Arc::clone(&store),
        Arc::clone(&runtime),
        Arc::clone(&entropy),
        give_up,
    ));
    let linger = Duration::from_millis(1);
    let collector = Collector::new(
        Arc::clone(&appender),
        Arc::clone(&runtime),
        linger,
        FramesInFlight::Unbounded,
    );
    let line = Line { runtime: own, appender: Arc::clone(&appender) };
    let inlets = BTreeMap::new();
    (Options { log, store, runtime, entropy, appender, collector, inlets, rules }, line)
}

/// Sends events of about now, and some that are much older.
pub(super) async fn produce(stage: Arc<Stage>, line: Line, dice: Dice) {
    while !stage.stopped.load(Ordering::Relaxed) {
        let now = EPOCH.after(line.runtime.handle().now());
        let age = match dice.below(4) {
            0 => dice.time(OLDEST),
            _ => dice.time(Duration::from_secs(3)),
        };
        let when = (now.0 - u64::try_from(age.as_millis()).unwrap_or_default()) * 1_000_000;
        let number = |number: u64| Some(Value::Int(number as i64));
        let values = vec![number(dice.below(GROUPS)), number(dice.below(USERS)), number(when)];
        let event = Event { id: None, values };
        let record = event.encode();
        let partition = stage.stream().partition(stage.stream().partition_for(&event, &record));
        // What fails or is unknown is not tried again: the account goes by the log.
        let _ = line.appender.events(&partition, vec![record]).await;
        let pause =
            if dice.per_mille(20) { Duration::from_secs(20) } else { Duration::from_secs(1) };
        line.runtime.sleep(dice.time(pause)).await;
    }
}
