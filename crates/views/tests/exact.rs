//! Random events through the log, the workers and the queries, compared with an independent count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::{self, Plan};
use consort_cluster::{Appender, Role, Tenure, TokioRuntime};
use consort_kernel::{
    Entropy, Log, Most, Name, Partition, SeededEntropy, Store, SystemClock, memory,
};
use consort_views::schema::{Field, Schema, Unknown};
use consort_views::{
    Aggregate, Event, Expression, GroupField, Query, Stream, StreamPlan, Tallies, Value, View,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const PARTITIONS: u32 = 3;
const SHARDS: u16 = 4;

fn stream() -> Arc<Stream> {
    let fields = [
        ("amount", "decimal(2)?"),
        ("lift", "int 1..9"),
        ("name", "text"),
        ("skier", "int 1..5"),
        ("when", "int"),
    ];
    let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
    let schema = Schema::new(fields.map(field).into(), Unknown::Reject);
    Arc::new(Stream {
        name: "rides".parse().unwrap(),
        key: vec![3],
        id: None,
        ids_for: Duration::from_secs(3600),
        time: schema.find("when"),
        partitions: PARTITIONS,
        retain: Duration::from_secs(3600),
        route: None,
        schema: Arc::new(schema),
    })
}

fn views(stream: &Arc<Stream>) -> Vec<Arc<View>> {
    let expression = |text: &str| Expression::parse(text, &stream.schema).unwrap();
    let mut numbers = 0..;
    let mut view = |name: &str, by: &[&str], aggregate: Aggregate, condition: Option<&str>| {
        let group = |text: &&str| GroupField { name: (*text).into(), expression: expression(text) };
        Arc::new(View {
            name: name.parse().unwrap(),
            number: numbers.next().unwrap(),
            from: Arc::clone(stream),
            by: by.iter().map(group).collect(),
            aggregate,
            condition: condition.map(expression),
            windows: None,
            sinks: Vec::new(),
            routes: Vec::new(),
            answer: None,
        })
    };
    vec![
        view("count", &["skier"], Aggregate::Count, None),
        view("count_of_some", &["lift"], Aggregate::Count, Some("lift > 3 && name != 'b'")),
        view("sum", &["name"], Aggregate::Sum(expression("lift * 10")), None),
        view("paid", &["skier"], Aggregate::Sum(expression("amount")), None),
        view("least", &["skier"], Aggregate::Min(expression("amount")), None),
        view("most", &["lift"], Aggregate::Max(expression("name")), None),
        view("last", &["skier"], Aggregate::Last(expression("name")), None),
        view("lifts", &["skier", "name"], Aggregate::Set(expression("lift")), None),
        view("pairs", &[], Aggregate::Distinct(vec![expression("lift"), expression("name")]), None),
        view("about", &["skier"], Aggregate::DistinctApprox(vec![expression("lift")]), None),
    ]
}

#[derive(Clone, Debug)]
struct Ride {
    amount: Option<i64>,
    lift: i64,
    name: &'static str,
    skier: i64,
    when: i64,
    id: Option<u8>,
}

fn ride() -> impl Strategy<Value = Ride> {
    let amount = prop::option::of(-500..500i64);
    let name = prop::sample::select(vec!["a", "b", "ä\0", ""]);
    // Few ids, so that many events are repeats.
    (amount, 1..=9i64, name, 1..=5i64, any::<i64>(), prop::option::of(0..12u8)).prop_map(
        |(amount, lift, name, skier, when, id)| Ride { amount, lift, name, skier, when, id },
    )
}

impl Ride {
    fn event(&self) -> Event {
        let values = vec![
            self.amount.map(Value::Decimal),
            Some(Value::Int(self.lift)),
            Some(Value::Text(self.name.into())),
            Some(Value::Int(self.skier)),
            Some(Value::Int(self.when)),
        ];
        // An id belongs to one skier: repeats of an event have its key.
        let id = self.id.map(|id| format!("{}-{id}", self.skier));
        Event { id, values }
    }
}

/// Answers by view and group, as they are written.
type Answers = BTreeMap<(String, String), String>;

fn expected(rides: &[Ride]) -> Answers {
    let mut seen = BTreeSet::new();
    let first = |ride: &&Ride| ride.id.is_none_or(|id| seen.insert((ride.skier, id)));
    let mut groups: BTreeMap<(&str, String), Vec<&Ride>> = BTreeMap::new();
    for ride in rides.iter().filter(first) {
        let (skier, lift, name) = (ride.skier, ride.lift, text(ride.name));
        let mut put = |view, group: String| groups.entry((view, group)).or_default().push(ride);
        for view in ["count", "last", "about"] {
            put(view, format!("{{\"skier\":{skier}}}"));
        }
        if ride.amount.is_some() {
            put("paid", format!("{{\"skier\":{skier}}}"));
            put("least", format!("{{\"skier\":{skier}}}"));
        }
        if lift > 3 && ride.name != "b" {
            put("count_of_some", format!("{{\"lift\":{lift}}}"));
        }
        put("sum", format!("{{\"name\":{name}}}"));
        put("most", format!("{{\"lift\":{lift}}}"));
        put("lifts", format!("{{\"skier\":{skier},\"name\":{name}}}"));
        put("pairs", "{}".into());
    }
    let answers = groups.into_iter().map(|((view, group), rides)| {
        let value = value(view, &rides);
        ((view.to_string(), group), value)
    });
    answers.collect()
}

fn value(view: &str, rides: &[&Ride]) -> String {
    let lifts: BTreeSet<i64> = rides.iter().map(|ride| ride.lift).collect();
    let pairs = || rides.iter().map(|ride| (ride.lift, ride.name)).collect::<BTreeSet<_>>();
    let amounts = || rides.iter().filter_map(|ride| ride.amount);
    match view {
        "count" | "count_of_some" => rides.len().to_string(),
        "sum" => rides.iter().map(|ride| ride.lift * 10).sum::<i64>().to_string(),
        "paid" => decimal(amounts().sum()),
        "least" => decimal(amounts().min().unwrap()),
        "most" => text(rides.iter().map(|ride| ride.name).max().unwrap()),
        "last" => text(rides.iter().max_by_key(|ride| ride.when).unwrap().name),
        "lifts" => format!("{lifts:?}").replace(['{', ' ', '}'], ""),
        "pairs" => pairs().len().to_string(),
        // So few that the sketch counts them exactly.
        _ => lifts.len().to_string(),
    }
}

fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn decimal(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
}

async fn folded(rides: &[Ride], seed: u64) -> Answers {
    let (log, store) = memory::open(SHARDS, Arc::new(SystemClock::default()));
    let (log, store): (Arc<dyn Log>, Arc<dyn Store>) = (Arc::new(log), Arc::new(store));
    let (runtime, stream) = (TokioRuntime::current(), stream());
    let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(seed));
    let give_up = Duration::from_secs(1);
    let appender =
        Appender::new(log.clone(), store.clone(), runtime.clone(), entropy.clone(), give_up);
    let (appender, views) = (Arc::new(appender), views(&stream));
    for ride in rides {
        let (event, record) = (ride.event(), ride.event().encode());
        let partition = stream.partition(stream.partition_for(&event, &record));
        appender.events(&partition, vec![record]).await.unwrap();
    }
    let plan: Arc<dyn Plan> = Arc::new(StreamPlan::new(Arc::clone(&stream), &views, SHARDS));
    let mut workers = Vec::new();
    for index in 0..PARTITIONS {
        let (tenure, control) = Tenure::new(Role::new("worker", format!("rides/{index}")), 1);
        let options = worker::Options {
            log: log.clone(),
            store: store.clone(),
            runtime: runtime.clone(),
            entropy: entropy.clone(),
            partition: Partition::new(stream.name.clone(), index),
            pipeline: Name::new("all").unwrap(),
            plan: plan.clone(),
            appender: appender.clone(),
            batch: Most::entries(5),
            linger: Duration::ZERO,
            yield_after: Duration::from_secs(60),
        };
        workers.push((tokio::spawn(worker::run(options, tenure)), control));
    }
    loop {
        let tallies = Tallies::read(&*store, &stream).await.unwrap();
        if tallies.applied + tallies.duplicate == rides.len() as i64 {
            break;
        }
        tokio::task::yield_now().await;
    }
    for (task, control) in workers {
        control.end();
        task.await.unwrap();
    }
    let mut answers = Answers::new();
    for view in &views {
        ask(&*store, view, &mut answers).await;
    }
    answers
}

/// All groups of a view, page by page.
async fn ask(store: &dyn Store, view: &Arc<View>, answers: &mut Answers) {
    let mut after: Option<String> = None;
    loop {
        let mut parameters = vec![("limit", "2")];
        parameters.extend(after.as_deref().map(|after| ("after", after)));
        let query = Query::new(view, parameters).unwrap();
        let page = query.answer(store).await.unwrap();
        for row in &page.rows {
            let group = consort_views::query::group_json(view, &row.group);
            let one = consort_views::Page { single: true, rows: vec![row.clone()], next: None };
            let value = one.shaped(view, &consort_views::Answer::Bare).collect::<String>();
            let value = value.trim_matches(['[', ']']).to_string();
            answers.insert((view.name.to_string(), group), value);
        }
        after = page.next;
        if after.is_none() {
            return;
        }
    }
}

#[test]
fn every_view_equals_an_independent_count() {
    let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
    let different = |rides: &Vec<Ride>| {
        rides.iter().map(|ride| ride.when).collect::<BTreeSet<_>>().len() == rides.len()
    };
    let rides = prop::collection::vec(ride(), 1..60).prop_filter("one is the last", different);
    let result = TestRunner::new(config).run(&(rides, any::<u64>()), |(rides, seed)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        prop_assert_eq!(runtime.block_on(folded(&rides, seed)), expected(&rides));
        Ok(())
    });
    result.unwrap();
}
