//! Feeds of documents over HTTP: tenants, single documents, states, and the release of parked documents.

use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::TokioRuntime;
use consort_feeds::{
    CoveredChanges, FeedSpec, Figures, Payload, Retention, Subject, SubjectChange, SubjectPayload,
    SubjectRevision, SubjectState,
};
use consort_kernel::{
    Cell, Change, Commit, Key, Kind, Moment, Note, Operation, QueryError, Shard, Store,
    SystemClock, Value, memory,
};
use consort_server::feeds::{self, Catalog, Feeds};
use consort_server::{Metrics, Tokens};
use serde_json::json;

use crate::client::{Answer, Running, options, start};

const OPERATOR: &str = "operators-token-0";
const MINE: &str = "tenants-own-token";

/// Versions of documents. The state of one is its last version, as text.
#[derive(Debug)]
struct Versions;

fn change(subject: &Subject, version: u64, form: &str) -> Change {
    let Subject { tenant, id } = subject;
    let payload = json!({ "tenant": tenant, "id": id, "version": version, "form": form });
    let payload = serde_json::value::to_raw_value(&payload).unwrap();
    Change { subject: id.clone(), time: Moment(0), revision: version, payload }
}

fn revision(version: u64) -> SubjectRevision {
    SubjectRevision { life: [0; 4], version }
}

fn state_key(subject: &Subject) -> Key {
    Key::from(["document", &subject.tenant, &subject.id])
}

impl Payload for Versions {
    fn name(&self) -> &'static str {
        "version"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(format!("{}/{}", change.subject, change.revision))
    }

    fn subjects(&self) -> Option<&dyn SubjectPayload> {
        Some(self)
    }
}

#[async_trait]
impl SubjectPayload for Versions {
    fn subject_change(&self, change: &Change) -> Result<SubjectChange, String> {
        let payload: serde_json::Value =
            serde_json::from_str(change.payload.get()).map_err(|error| error.to_string())?;
        let tenant = payload["tenant"].as_str().ok_or("there is no tenant")?.to_owned();
        let subject = Subject { tenant, id: change.subject.clone() };
        Ok(SubjectChange { subject, revision: revision(change.revision), is_end: false })
    }

    fn shard(&self, subject: &Subject, shards: u16) -> Shard {
        Shard(subject.id.len() as u16 % shards)
    }

    async fn states(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[CoveredChanges],
        _most_bytes: usize,
    ) -> Result<Vec<Option<SubjectState>>, QueryError> {
        let cell = Cell::new(Kind::Bytes, state_key(&asked[0].subject));
        let read = store.get(shard, &[cell]).await?;
        let Some(Value::Bytes(version)) = &read[0] else { return Ok(vec![None]) };
        let version = std::str::from_utf8(version).unwrap().parse().unwrap();
        let change = change(&asked[0].subject, version, "state");
        Ok(vec![Some(SubjectState { change, revision: revision(version) })])
    }
}

struct Bed {
    store: Arc<dyn Store>,
    running: Running,
}

/// A node with a feed of documents, which the sink `s` takes, and with tokens of the operator and of a tenant.
async fn bed() -> Bed {
    let store: Arc<dyn Store> = Arc::new(memory::open(2, Arc::new(SystemClock::default())).1);
    let mut metrics = Metrics::new("0");
    let feed = |path: &str, payload: Arc<dyn Payload>| {
        Arc::new(FeedSpec {
            path: path.into(),
            feed: path.replace('/', ".").parse().unwrap(),
            payload,
            retention: Retention::default(),
            sinks: vec!["s".into()],
        })
    };
    let feeds = Feeds::new(feeds::Options {
        catalog: Catalog::new([
            feed("archive/papers", Arc::new(Versions)),
            feed("views/v", Arc::new(Plain)),
        ]),
        sinks: vec!["s".parse().unwrap()],
        figures: Figures::default(),
        store: Arc::clone(&store),
        runtime: TokioRuntime::current(),
        metrics: &mut metrics,
    });
    let own = |token: &str| Tokens::new(vec![token.into()]).unwrap();
    let tokens = own(OPERATOR).with_tenant("mine".parse().unwrap(), &own(MINE)).unwrap();
    let (routes, tenant_routes) = (feeds.routes(), feeds.tenant_routes());
    let options = consort_server::Options { routes, tenant_routes, tokens, metrics, ..options() };
    Bed { store, running: start(options).await }
}

/// A payload without subjects.
#[derive(Debug)]
struct Plain;

impl Payload for Plain {
    fn name(&self) -> &'static str {
        "row"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

impl Bed {
    async fn store(&self, tenant: &str, id: &str, versions: std::ops::RangeInclusive<u64>) {
        let subject = Subject { tenant: tenant.into(), id: id.into() };
        let shard = Versions.shard(&subject, 2);
        let value = versions.end().to_string().into();
        let put = Operation::Put { key: state_key(&subject), value };
        let note = |version| {
            let entry = change(&subject, version, "piece").encode();
            Operation::Append(Note { feed: "archive.papers".parse().unwrap(), entry })
        };
        self.store.commit(shard, Commit::of(versions.map(note).chain([put]))).await.unwrap();
    }

    async fn get(&self, path: &str, token: &str, headers: &str) -> Answer {
        let access = format!("authorization: Bearer {token}\r\n{headers}");
        self.running.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{access}\r\n")).await
    }

    /// The rows of a page, as tenant, id and version.
    async fn rows(&self, query: &str, token: &str, headers: &str) -> Vec<String> {
        let page = self.get(&format!("/feeds/archive/papers{query}"), token, headers).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let row = |line: &str| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            format!("{}/{} {} {}", text("tenant"), text("id"), text("form"), row["version"])
        };
        page.body.lines().map(row).collect()
    }

    async fn refused(&self, path: &str, token: &str, headers: &str) -> (u16, String) {
        let answer = self.get(path, token, headers).await;
        (answer.status, answer.problem().1)
    }

    async fn release(&self, sink: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "POST /sinks/{sink}/parked/release HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Bearer {OPERATOR}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        let answer = self.running.ask(&request).await;
        (answer.status, answer.problem().1)
    }
}

#[tokio::test]
async fn a_tenant_reads_its_own_rows_and_the_operator_chooses() {
    let bed = bed().await;
    bed.store("mine", "a", 1..=2).await;
    bed.store("theirs", "a", 1..=1).await;
    bed.store("default", "a", 1..=1).await;
    let mine = ["mine/a piece 1", "mine/a piece 2"];
    assert_eq!(bed.rows("", MINE, "").await, mine);
    assert_eq!(bed.rows("", MINE, "consort-tenant: mine\r\n").await, mine);
    assert_eq!(bed.rows("", OPERATOR, "").await, ["default/a piece 1"]);
    assert_eq!(bed.rows("", OPERATOR, "consort-tenant: mine\r\n").await, mine);
    assert_eq!(bed.rows("", OPERATOR, "consort-tenant: *\r\n").await.len(), 4);
    // A filtered page may be empty; its cursor says how far it has read.
    let empty = bed.get("/feeds/archive/papers", OPERATOR, "consort-tenant: none\r\n").await;
    assert_eq!((empty.status, empty.body.as_str()), (200, ""));
    let start = bed.get("/feeds/views/v", OPERATOR, "").await;
    assert_ne!(empty.header("consort-cursor"), start.header("consort-cursor"));
}

#[tokio::test]
async fn what_is_not_a_tenants_is_refused_or_not_there() {
    let bed = bed().await;
    let other = bed.refused("/feeds/archive/papers", MINE, "consort-tenant: theirs\r\n").await;
    assert_eq!(other.0, 403, "{}", other.1);
    let (status, detail) = bed.refused("/feeds/views/v", MINE, "").await;
    assert_eq!(status, 404);
    assert!(detail.ends_with("there are /feeds/archive/papers"), "{detail}");
    for path in ["/feeds", "/sinks", "/sinks/s/parked"] {
        assert_eq!(bed.refused(path, MINE, "").await.0, 403, "{path}");
    }
    assert_eq!(bed.refused("/feeds/archive/papers", "another-token-of-16", "").await.0, 401);
}

#[tokio::test]
async fn one_document_is_asked_for_by_its_id() {
    let bed = bed().await;
    bed.store("mine", "a/ä", 1..=2).await;
    bed.store("mine", "b", 1..=2).await;
    bed.store("theirs", "a/ä", 1..=2).await;
    let rows = bed.rows("?id=a%2F%C3%A4", MINE, "").await;
    assert_eq!(rows, ["mine/a/ä piece 1", "mine/a/ä piece 2"]);
    for (path, headers, words) in [
        ("/feeds/archive/papers?id=b", "consort-tenant: *\r\n", "name it"),
        ("/feeds/views/v?id=b", "", "of no documents"),
        ("/feeds/views/v?send=states", "", "of no documents"),
        ("/feeds/archive/papers?send=all", "", "'send' must be pieces or states"),
    ] {
        let (status, detail) = bed.refused(path, OPERATOR, headers).await;
        assert_eq!(status, 400, "{path}");
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test]
async fn states_come_once_a_page_and_events_set_their_id_behind_the_last() {
    let bed = bed().await;
    for version in 1..=3 {
        bed.store("mine", "a", version..=version).await;
        bed.store("mine", "b", version..=version).await;
    }
    assert_eq!(bed.rows("?send=states", MINE, "").await, ["mine/a state 3", "mine/b state 3"]);
    let mut client = bed.running.connect().await;
    let head = format!("authorization: Bearer {MINE}\r\naccept: text/event-stream\r\n");
    client.send(&format!("GET /feeds/archive/papers?send=states HTTP/1.0\r\n{head}\r\n")).await;
    let mut read = String::new();
    while read.matches("\ndata: ").count() < 2 || !read.ends_with("\n\n") {
        let mut piece = [0; 4096];
        let got = tokio::io::AsyncReadExt::read(&mut client.0, &mut piece).await.unwrap();
        assert!(got > 0, "{read}");
        read.push_str(std::str::from_utf8(&piece[..got]).unwrap());
    }
    let events = read.split_once("retry: ").unwrap().1;
    let events: Vec<&str> = events.split("\n\n").filter(|event| !event.is_empty()).collect();
    let has_id: Vec<bool> = events.iter().map(|event| event.contains("id: ")).collect();
    // One event that sets the id at the start, a state in the middle of the page, and the last one.
    assert_eq!(has_id, [true, false, true], "{events:?}");
}

#[tokio::test]
async fn a_release_names_a_parked_document() {
    let bed = bed().await;
    let json = "content-type: application/json\r\n";
    let body = r#"{"collection":"papers","tenant":"mine","id":"a"}"#;
    for (sink, headers, body, status, words) in [
        ("s", json, body, 404, "'a' of tenant 'mine' is not parked"),
        ("s", json, r#"{"collection":"v","id":"a"}"#, 404, "takes no collection 'v'; there are"),
        ("x", json, body, 404, "there is no sink 'x'"),
        ("s", "", body, 415, "content-type"),
        ("s", json, "{}", 400, "the body must be"),
    ] {
        let (told, detail) = bed.release(sink, headers, body).await;
        assert_eq!(told, status, "{detail}");
        assert!(detail.to_lowercase().contains(words), "{detail}");
    }
    let parked = bed.get("/sinks/s/parked", OPERATOR, "").await;
    assert_eq!(parked.body, r#"{"documents":[],"parked":[],"sink":"s"}"#);
}
