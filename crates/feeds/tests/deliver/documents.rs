//! Documents of tenants, with a feed of their versions: a payload whose subjects have a present state.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use consort_feeds::{
    CoveredChanges, Delivery, Failed, FeedSpec, FeedsPart, OpenSink, Options, Payload, Retention,
    SendMode, Sink, Subject, SubjectChange, SubjectPayload, SubjectRevision, SubjectState,
};
use consort_kernel::{
    Cell, Change, Commit, Key, Kind, Moment, Note, Operation, QueryError, Shard, Store,
    SystemClock, Value, memory,
};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::bed::{Deliverer, SHARD, name};

pub(crate) fn subject(tenant: &str, id: &str) -> Subject {
    Subject { tenant: tenant.into(), id: id.into() }
}

fn revision(version: u64) -> SubjectRevision {
    SubjectRevision { life: [0; 4], version }
}

/// A change, or a state if `form` says so. The text of the document names its version.
fn change(subject: &Subject, version: u64, form: &str, was: u64, filler: usize) -> Change {
    let Subject { tenant, id } = subject;
    let payload = json!({
        "tenant": tenant, "id": id, "version": version, "was": was, "form": form,
        "filler": "x".repeat(filler),
    });
    Change {
        subject: id.clone(),
        time: Moment(0),
        revision: version,
        payload: serde_json::value::to_raw_value(&payload).unwrap(),
    }
}

fn state_cell(subject: &Subject) -> Key {
    Key::from(["document", &subject.tenant, &subject.id])
}

#[derive(Debug)]
pub(crate) struct Documents;

impl Payload for Documents {
    fn name(&self) -> &'static str {
        "document"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(format!("{}/{}", change.subject, change.revision))
    }

    fn subjects(&self) -> Option<&dyn SubjectPayload> {
        Some(self)
    }
}

#[async_trait]
impl SubjectPayload for Documents {
    fn subject_change(&self, change: &Change) -> Result<SubjectChange, String> {
        let payload: Json =
            serde_json::from_str(change.payload.get()).map_err(|error| error.to_string())?;
        let tenant = payload["tenant"].as_str().ok_or("there is no tenant")?;
        Ok(SubjectChange {
            subject: subject(tenant, &change.subject),
            revision: revision(change.revision),
            is_end: payload["form"] == "delete",
        })
    }

    fn shard(&self, subject: &Subject, shards: u16) -> Shard {
        Shard(u16::from(subject.id.bytes().fold(0_u8, |sum, byte| sum ^ byte)) % shards)
    }

    async fn states(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[CoveredChanges],
        most_bytes: usize,
    ) -> Result<Vec<Option<SubjectState>>, QueryError> {
        let (mut states, mut bytes) = (Vec::new(), 0);
        for covered in asked {
            if bytes >= most_bytes && !states.is_empty() {
                break;
            }
            let cell = Cell::new(Kind::Bytes, state_cell(&covered.subject));
            let read = store.get(shard, &[cell]).await?;
            let stored: Option<(u64, usize)> = match &read[0] {
                Some(Value::Bytes(stored)) => serde_json::from_slice(stored).ok(),
                _ => None,
            };
            let state = |version, form, filler| SubjectState {
                change: change(&covered.subject, version, form, covered.was, filler),
                revision: revision(version),
            };
            states.push(match stored {
                Some((version, filler)) => {
                    bytes += filler;
                    Some(state(version, "state", filler))
                }
                None if covered.is_end => Some(state(covered.last.version, "delete", 0)),
                None => None,
            });
        }
        Ok(states)
    }
}

/// The feed of the documents, which goes to these sinks.
pub(crate) fn feed(sinks: &[&str]) -> Arc<FeedSpec> {
    Arc::new(FeedSpec {
        path: "archive/documents".into(),
        feed: name("archive.documents"),
        payload: Arc::new(Documents),
        retention: Retention::default(),
        sinks: sinks.iter().map(|sink| (*sink).to_owned()).collect(),
    })
}

/// A store of documents.
#[derive(Clone)]
pub(crate) struct Archive {
    pub(crate) store: Arc<dyn Store>,
}

impl Archive {
    pub(crate) fn new(shards: u16) -> Archive {
        Archive { store: Arc::new(memory::open(shards, Arc::new(SystemClock::default())).1) }
    }

    /// Stores these versions of a document, each as the state and in the feed, as one commit.
    pub(crate) async fn store(&self, subject: &Subject, versions: std::ops::RangeInclusive<u64>) {
        self.store_large(subject, versions, 0).await;
    }

    pub(crate) async fn store_large(
        &self,
        subject: &Subject,
        versions: std::ops::RangeInclusive<u64>,
        filler: usize,
    ) {
        let state = serde_json::to_vec(&(*versions.end(), filler)).unwrap();
        let note = |version| {
            let entry = change(subject, version, "piece", version - 1, 0).encode();
            Operation::Append(Note { feed: name("archive.documents"), entry })
        };
        let put = Operation::Put { key: state_cell(subject), value: state.into() };
        self.commit(subject, versions.map(note).chain([put])).await;
    }

    /// Deletes a document, and every trace of it but the feed.
    pub(crate) async fn delete(&self, subject: &Subject, version: u64) {
        let entry = change(subject, version, "delete", version - 1, 0).encode();
        let note = Operation::Append(Note { feed: name("archive.documents"), entry });
        let cell = Cell::new(Kind::Bytes, state_cell(subject));
        self.commit(subject, [note, Operation::Delete(cell)]).await;
    }

    async fn commit(&self, subject: &Subject, operations: impl IntoIterator<Item = Operation>) {
        let shard = Documents.shard(subject, self.store.shards());
        self.store.commit(shard, Commit::of(operations)).await.unwrap();
    }

    /// A deliverer of the first shard to the sink `s`.
    pub(crate) fn deliver(
        &self,
        sink: Arc<dyn Sink>,
        send: SendMode,
        options: Options,
    ) -> Deliverer {
        let options = Options { store: Arc::clone(&self.store), ..options };
        let sinks = vec![OpenSink { name: name("s"), sink, send }];
        let feeds = vec![(*feed(&["s"])).clone()];
        Deliverer::start(FeedsPart::with_sinks(feeds, sinks, options).unwrap(), "s")
    }

    /// The cell of a parked document, if there is one.
    pub(crate) async fn parked_cell(&self, subject: &Subject) -> Option<String> {
        let Subject { tenant, id } = subject;
        let key = Key::from(["feeds", "subject", "s", "archive.documents", tenant, id]);
        let cells = self.store.get(SHARD, &[Cell::new(Kind::Bytes, key)]).await.unwrap();
        match &cells[0] {
            Some(Value::Bytes(cell)) => Some(String::from_utf8_lossy(&cell[1..]).into_owned()),
            _ => None,
        }
    }
}

/// Shows each row as tenant, id, form and versions.
pub(crate) fn shown(change: &Change) -> String {
    let row: Json = serde_json::from_str(change.payload.get()).unwrap();
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    let form = text("form");
    let form = if form == "piece" { String::new() } else { format!(" {form}") };
    format!("{}/{} {}-{}{form}", text("tenant"), text("id"), row["was"], row["version"])
}

/// Keeps all rows that it takes. A row can be refused for good by its text.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    all: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    /// The version that each document came to, by applying what was sent.
    pub(crate) applied: Mutex<BTreeMap<String, u64>>,
    /// Rows that did not follow the version before them.
    pub(crate) gaps: Mutex<Vec<String>>,
}

impl Reader {
    pub(crate) fn all(&self) -> Vec<String> {
        self.all.lock().clone()
    }

    pub(crate) fn refuse(&self, rows: &[&str]) {
        *self.refused.lock() = rows.iter().map(|row| (*row).to_owned()).collect();
    }

    pub(crate) fn take(&self, rows: &[Delivery]) -> Result<(), Failed> {
        let refused = self.refused.lock();
        if rows.iter().any(|delivery| refused.contains(&shown(&delivery.change))) {
            return Err(Failed::Refused { reason: "not this one".into() });
        }
        for Delivery { change, .. } in rows {
            let row: Json = serde_json::from_str(change.payload.get()).unwrap();
            let mut applied = self.applied.lock();
            let version = applied.entry(change.subject.clone()).or_default();
            let was = row["was"].as_u64().unwrap();
            let is_state = row["form"] != "piece";
            // A repeat is known by its version, and a state stands for itself.
            if !is_state && was > *version {
                self.gaps.lock().push(shown(change));
            }
            *version = if is_state { change.revision } else { (*version).max(change.revision) };
            self.all.lock().push(shown(change));
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for Reader {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        self.take(rows)
    }
}
