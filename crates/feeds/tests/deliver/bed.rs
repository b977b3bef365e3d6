//! A store with feeds, deliverers at work on it, and a sink that shows what it was given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::tenure::TenureControl;
use consort_cluster::{Ended, Part, Tenure, TokioRuntime};
use consort_feeds::{Delivery, Failed, FeedsPart, Options, Sink, Timing, deliverer_role, parked};
use consort_kernel::row::Group;
use consort_kernel::{
    Commit, Moment, Name, Note, Operation, Row, Shard, Store, SystemClock, SystemEntropy, memory,
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const SHARD: Shard = Shard(0);

/// The beginning of the rows' window.
pub(crate) const START: i64 = 1_480_876_680_000_000_000;

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn row(view: &str, user: &str, value: &str, revision: u64) -> Row {
    let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    Row {
        name: view.into(),
        group: Group(vec![("user".into(), json(&format!("\"{user}\"")))]),
        start: Moment(START),
        end: Moment(START + 60_000_000_000),
        value: json(value),
        revision,
    }
}

pub(crate) struct Bed {
    pub(crate) store: Arc<dyn Store>,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed { store: Arc::new(memory::open(1, Arc::new(SystemClock::default())).1) }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            store: Arc::clone(&self.store),
            runtime: TokioRuntime::current(),
            entropy: Arc::new(SystemEntropy),
            sole: false,
            timing: Timing::default(),
            publishers: BTreeMap::new(),
        }
    }

    /// Appends rows as whoever emits them does.
    pub(crate) async fn emit(&self, rows: impl IntoIterator<Item = Row>) {
        let note = |row: Row| {
            let feed = Row::feed(&row.name).unwrap();
            Operation::Append(Note { feed, entry: row.encode() })
        };
        self.store.commit(SHARD, Commit::of(rows.into_iter().map(note))).await.unwrap();
    }

    /// A deliverer of the feed of view `v` to `sink`, called `s`.
    pub(crate) fn deliver(&self, sink: Arc<dyn Sink>, options: Options) -> Deliverer {
        let sinks = vec![(name("s"), sink, vec![name("rows.v")])];
        Deliverer::start(FeedsPart::of(sinks, [], options).unwrap(), "s")
    }

    pub(crate) async fn parked(&self, sink: &str) -> Vec<parked::Parked> {
        let lines = parked::newest(&*self.store, &name(sink), 100).await.unwrap();
        let parked = |line| match line {
            parked::Line::Parked(parked) => parked,
            parked::Line::Unreadable { unreadable } => panic!("{unreadable}"),
        };
        lines.into_iter().map(parked).collect()
    }
}

/// A deliverer at work.
pub(crate) struct Deliverer {
    pub(crate) part: FeedsPart,
    pub(crate) control: TenureControl,
    work: JoinHandle<Ended>,
}

impl Deliverer {
    pub(crate) fn start(part: FeedsPart, sink: &str) -> Deliverer {
        let (tenure, control) = Tenure::new(deliverer_role(&name(sink), SHARD), 1);
        let work = tokio::spawn(part.work(tenure));
        Deliverer { part, control, work }
    }

    /// Ends it in good order.
    pub(crate) async fn end(self) {
        self.control.end();
        assert_eq!(
            tokio::time::timeout(PATIENCE, self.work).await.unwrap().unwrap(),
            Ended::Drained
        );
    }

    /// Drops its work, as a node does that has lost the lease.
    pub(crate) fn drop_work(self) {
        self.work.abort();
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.control.gauge().trouble
    }
}

/// Keeps what was written last of each row, as InfluxDB does, and all that ever came.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) all: Mutex<Vec<String>>,
    pub(crate) last: Mutex<BTreeMap<String, u64>>,
    /// Rows of these users are refused for good.
    pub(crate) refused: Mutex<Vec<String>>,
    /// With this reason every request fails.
    pub(crate) down: Mutex<Option<String>>,
}

impl Shelf {
    pub(crate) fn take(&self, rows: &[Delivery]) -> Result<(), Failed> {
        if let Some(reason) = &*self.down.lock() {
            return Err(Failed::Retry { reason: reason.clone(), after: None });
        }
        let user = |row: &Row| row.group.0[0].1.get().trim_matches('"').to_owned();
        let refused = self.refused.lock();
        if rows.iter().any(|delivery| refused.contains(&user(&delivery.row))) {
            return Err(Failed::Refused { reason: "not this one".into() });
        }
        for Delivery { row, .. } in rows {
            self.all.lock().push(format!("{}:{}", user(row), row.revision));
            self.last.lock().insert(user(row), row.revision);
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.all.lock().clone()
    }
}

#[async_trait]
impl Sink for Shelf {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        self.take(rows)
    }
}
