//! A store with feeds, deliverers at work on it, and a sink that shows what it was given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::tenure::TenureControl;
use consort_cluster::{Ended, Part, Tenure, TokioRuntime};
use consort_feeds::{
    Delivery, Failed, FeedSpec, FeedsPart, LinePayload, OpenSink, Options, Payload, Retention,
    SendMode, Sink, Timing, deliverer_role, parked,
};
use consort_kernel::{
    Change, Commit, Moment, Name, Note, Operation, Shard, Store, SystemClock, SystemEntropy, memory,
};
use consort_line::{FieldValue, Point};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const SHARD: Shard = Shard(0);

/// The time of the rows.
pub(crate) const START: i64 = 1_480_876_680_000_000_000;

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A value of a user.
pub(crate) fn row(user: &str, value: &str, revision: u64) -> Change {
    let payload = format!("{{\"user\":\"{user}\",\"value\":{value},\"revision\":{revision}}}");
    let payload = RawValue::from_string(payload).unwrap();
    Change { subject: user.replace("\\n", "\n"), time: Moment(START), revision, payload }
}

#[derive(Debug)]
struct Rows;

impl Payload for Rows {
    fn name(&self) -> &'static str {
        "row"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(format!("{}/{}", change.subject, change.revision))
    }

    fn points(&self) -> Option<&dyn LinePayload> {
        Some(self)
    }
}

impl LinePayload for Rows {
    fn point(&self, change: &Change) -> Result<Point<'static>, String> {
        let payload: serde_json::Value = serde_json::from_str(change.payload.get()).unwrap();
        let value = match &payload["value"] {
            serde_json::Value::String(text) => FieldValue::Text(text.clone().into()),
            number => FieldValue::Float(number.as_f64().ok_or("there is no value")?),
        };
        Ok(Point {
            measurement: Some("v".into()),
            tags: vec![("user".into(), change.subject.clone().into())],
            fields: vec![("value".into(), value)],
            time: Some(change.time.0),
        })
    }
}

/// The feed of the rows, with these sinks.
pub(crate) fn feed(sinks: &[&str]) -> FeedSpec {
    FeedSpec {
        path: "views/v".into(),
        feed: name("rows.v"),
        payload: Arc::new(Rows),
        retention: Retention::default(),
        sinks: sinks.iter().map(|sink| (*sink).to_owned()).collect(),
    }
}

/// A sink that takes every change.
pub(crate) fn open_sink(text: &str, sink: Arc<dyn Sink>) -> OpenSink {
    OpenSink { name: name(text), sink, send: SendMode::Pieces }
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

    /// Appends rows as the part that fills the feed does.
    pub(crate) async fn emit(&self, rows: impl IntoIterator<Item = Change>) {
        let note =
            |row: Change| Operation::Append(Note { feed: name("rows.v"), entry: row.encode() });
        self.store.commit(SHARD, Commit::of(rows.into_iter().map(note))).await.unwrap();
    }

    /// A deliverer of the feed to `sink`, called `s`.
    pub(crate) fn deliver(&self, sink: Arc<dyn Sink>, options: Options) -> Deliverer {
        let sinks = vec![open_sink("s", sink)];
        Deliverer::start(FeedsPart::with_sinks(vec![feed(&["s"])], sinks, options).unwrap(), "s")
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
        let refused = self.refused.lock();
        if rows.iter().any(|delivery| refused.contains(&delivery.change.subject)) {
            return Err(Failed::Refused { reason: "not this one".into() });
        }
        for Delivery { change, .. } in rows {
            self.all.lock().push(format!("{}:{}", change.subject, change.revision));
            self.last.lock().insert(change.subject.clone(), change.revision);
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
