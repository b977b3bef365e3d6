//! The feed of a collection in real nodes: rows are committed as an owner commits them, and read and delivered over HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_client::{Client, Connection, Method, Reply};
use consort_feeds::{FeedSpec, Subscription};
use consort_glue::reading::{CollectionReader, ListRequest, TenantSelection};
use consort_glue::stored::{DocumentBody, DocumentHead, Existence};
use consort_glue::{Collection, DocumentFormat};
use consort_kernel::{Commit, Log, Moment, Note, Operation, Store, SystemClock, Timestamp, memory};
use consort_server::axum::extract::State;
use consort_server::axum::http::StatusCode;
use consort_server::axum::routing::post;
use consort_server::axum::{self, Router};
use consort_testbed::{RedisOptions, RedisServer, eventually};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::config::{ConfigFile, PartConfig, Sources};
use crate::parts::{OpenPart, Opening, Part, PartError};
use crate::{Config, Node};

const PATIENCE: Duration = Duration::from_secs(60);
const COLLECTION: &str = "archive";

fn collection() -> Collection {
    Collection::new(COLLECTION, DocumentFormat::Json, 4)
}

/// A part that only declares the feed of the collection, which goes to the sink `s` if there is one.
#[derive(Debug, Default)]
struct Archive {
    store: Arc<OnceLock<Arc<dyn Store>>>,
}

static NO_CONFIG: PartConfig = PartConfig::new("archive");

#[async_trait]
impl Part for Archive {
    fn config(&self) -> &'static PartConfig {
        &NO_CONFIG
    }

    fn feeds(&self, config: &Config) -> Result<Vec<FeedSpec>, PartError> {
        let sinks: Vec<String> = config.sinks().iter().map(|sink| sink.name.to_string()).collect();
        Ok(vec![feed(&collection(), &sinks).unwrap()])
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let _ = self.store.set(Arc::clone(&opening.services.store));
        Ok(OpenPart::default())
    }
}

/// A node on this engine, and its store.
async fn start(id: &str, engine: &str, settings: &str) -> (Node, Owner) {
    let text = format!(
        "[node]\nid = '{id}'\n[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = '{engine}'\n{settings}"
    );
    let file = Some(ConfigFile { name: "test".into(), text });
    let config = Config::resolve(&Sources { file, ..Sources::default() });
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    let part = Archive::default();
    let store = Arc::clone(&part.store);
    let node = Node::start_with(config, vec![Arc::new(part)]).await.unwrap();
    let store = Arc::clone(store.get().unwrap());
    (node, Owner::new(store, 1))
}

/// Commits versions of documents as the owner of a partition does: head, body and row in one step.
#[derive(Clone, Debug)]
struct Owner {
    store: Arc<dyn Store>,
    states: DocumentStates,
    epoch: u64,
}

impl Owner {
    fn new(store: Arc<dyn Store>, epoch: u64) -> Owner {
        Owner { store, states: DocumentStates::new(&collection()).unwrap(), epoch }
    }

    async fn write(&self, tenant: &str, id: &str, version: u64) {
        let cells = self.states.cells();
        let life: PiecePlace = "3-0-9-5".parse().unwrap();
        let text = format!("{{\"version\":{version}}}");
        let head = DocumentHead {
            life: Some(life),
            version,
            existence: Existence::Live,
            time: Timestamp(1_480_876_740_000),
            size: text.len() as u64,
            ..DocumentHead::default()
        };
        let body = DocumentBody { tag: DocumentTag { life, version }, document: Bytes::from(text) };
        let piece = json!({ "version": version });
        let row = GlueRow {
            collection: COLLECTION.into(),
            tenant: tenant.into(),
            id: id.into(),
            life,
            version,
            was: version - 1,
            form: RowForm::Piece(PieceForm::MergePatch),
            piece: Some(serde_json::value::to_raw_value(&piece).unwrap()),
            source: None,
            seq: None,
            time: Moment(1_480_876_740_000_000_000),
            document: None,
            epoch: Some(self.epoch),
        };
        let note = Note { feed: cells.feed().clone(), entry: row.to_change().encode() };
        let operations = [
            Operation::Put { key: cells.head(tenant, id), value: head.encode() },
            Operation::Put { key: cells.body(tenant, id), value: body.encode() },
            Operation::Append(note),
        ];
        let shard = self.states.shard(tenant, id, self.store.shards());
        self.store.commit(shard, Commit::of(operations)).await.unwrap();
    }
}

/// One who reads the feed of a node.
struct Subscriber(Connection);

impl Subscriber {
    fn new(node: &Node) -> Subscriber {
        let client = Client::new(&format!("http://{}", node.address()), None).unwrap();
        Subscriber(Connection::new(client, PATIENCE))
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> Reply {
        let headers = [("content-type", "application/json")];
        self.0.send(method, path, &headers, body).await.unwrap()
    }

    /// The rows of a page, and the cursor behind it.
    async fn page(&mut self, query: &str) -> (Vec<Value>, String) {
        let reply = self
            .send(Method::GET, &format!("/feeds/glue/{COLLECTION}{query}"), String::new())
            .await;
        assert_eq!(reply.status.as_u16(), 200, "{:?}", reply.body);
        let cursor = reply.header("consort-cursor").unwrap().to_owned();
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), cursor)
    }

    async fn status(&mut self, query: &str) -> u16 {
        let path = format!("/feeds/glue/{COLLECTION}{query}");
        self.send(Method::GET, &path, String::new()).await.status.as_u16()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_changes_nodes_at_each_page_sees_each_version_once() {
    const LAST: u64 = 60;
    let redis = RedisServer::start(RedisOptions::new()).await;
    let (a, owner) = start("a", &redis.url(), "").await;
    let (b, _) = start("b", &redis.url(), "").await;
    let ids = ["x", "y", "z"];
    let writing = tokio::spawn(async move {
        for version in 1..=LAST {
            for id in ids {
                owner.write("default", id, version).await;
                owner.write("other", id, version).await;
            }
        }
    });
    let mut nodes = [Subscriber::new(&a), Subscriber::new(&b)];
    let (mut seen, mut cursor): (BTreeMap<String, u64>, _) = (BTreeMap::new(), String::new());
    for turn in 0.. {
        let query = format!("?limit=7&wait=1&after={cursor}");
        let (rows, next) = nodes[turn % 2].page(&query).await;
        for row in rows {
            assert_eq!((&row["tenant"], row.get("epoch")), (&json!("default"), None), "{row}");
            let last = seen.entry(row["id"].as_str().unwrap().to_owned()).or_default();
            assert_eq!(
                (row["was"].as_u64(), row["version"].as_u64()),
                (Some(*last), Some(*last + 1))
            );
            *last += 1;
        }
        cursor = next;
        if seen.len() == ids.len() && seen.values().all(|version| *version == LAST) {
            break;
        }
    }
    writing.await.unwrap();
    let (rest, _) = nodes[0].page(&format!("?after={cursor}")).await;
    assert_eq!(rest, [Value::Null; 0], "each version came once");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn states_and_one_document_are_read_over_http() {
    let (node, owner) = start("a", "memory:", "").await;
    for version in 1..=3 {
        owner.write("default", "x", version).await;
        owner.write("default", "y/é", version).await;
    }
    let mut reader = Subscriber::new(&node);
    let (rows, cursor) = reader.page("?send=states").await;
    let mut shown: Vec<String> = rows.iter().map(Value::to_string).collect();
    shown.sort();
    let state = |id: &str, was: u64, version: u64| {
        format!(
            "{{\"collection\":\"archive\",\"document\":{{\"version\":{version}}},\"form\":\"state\",\"id\":\"{id}\",\
             \"life\":\"3-0-9-5\",\"tenant\":\"default\",\"time\":\"2016-12-04T18:39:00Z\",\
             \"version\":{version},\"was\":{was}}}"
        )
    };
    assert_eq!(shown, [state("x", 0, 3), state("y/é", 0, 3)]);
    owner.write("default", "x", 4).await;
    let (rows, _) = reader.page(&format!("?send=states&after={cursor}")).await;
    assert_eq!(rows.iter().map(Value::to_string).collect::<Vec<_>>(), [state("x", 3, 4)]);
    let (rows, _) = reader.page("?id=y%2F%C3%A9").await;
    let versions: Vec<u64> = rows.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, [1, 2, 3]);
    node.stop().await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// The disk of the node is replaced by an older copy. The log is applied again by an owner with a later epoch, and
/// what stands under the old numbers differs by that epoch alone.
#[tokio::test]
async fn a_cursor_answers_410_after_a_rollback_although_the_same_pieces_are_applied_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, older) = (folder.path().join("data"), folder.path().join("older"));
    let engine = format!("embedded:{}", data.display());
    let (node, owner) = start("a", &engine, "").await;
    owner.write("default", "x", 1).await;
    drop(owner);
    node.stop().await;
    copy(&data, &older);

    let (node, owner) = start("a", &engine, "").await;
    owner.write("default", "x", 2).await;
    let (rows, cursor) = Subscriber::new(&node).page("").await;
    assert_eq!(rows.len(), 2);
    let (_, newest) = Subscriber::new(&node).page("?after=now").await;
    drop(owner);
    node.stop().await;

    fs::remove_dir_all(&data).unwrap();
    fs::rename(&older, &data).unwrap();
    let (node, owner) = start("a", &engine, "").await;
    let owner = Owner { epoch: owner.epoch + 1, ..owner };
    owner.write("default", "x", 2).await;
    owner.write("default", "x", 3).await;
    let mut reader = Subscriber::new(&node);
    for gone in [cursor, newest] {
        assert_eq!(reader.status(&format!("?after={gone}")).await, 410);
        assert_eq!(reader.status(&format!("?send=states&after={gone}")).await, 410);
        assert_eq!(reader.status(&format!("?id=x&after={gone}")).await, 410);
    }
    assert_eq!(reader.page("").await.0.len(), 3, "the feed can be read from its beginning");
    drop(owner);
    node.stop().await;
}

#[tokio::test]
async fn a_cursor_answers_410_after_a_trim() {
    let (node, owner) = start("a", "memory:", "").await;
    for version in 1..=9 {
        owner.write("default", "x", version).await;
    }
    let mut reader = Subscriber::new(&node);
    let (_, cursor) = reader.page("?limit=2").await;
    let shard = owner.states.shard("default", "x", owner.store.shards());
    owner.store.trim_feed(shard, owner.states.cells().feed(), 5).await.unwrap();
    assert_eq!(reader.status(&format!("?after={cursor}")).await, 410);
    assert_eq!(reader.page("").await.0.len(), 4);
    node.stop().await;
}

/// Takes posts of events, and refuses those with one of these event ids for good.
#[derive(Clone, Debug, Default)]
struct Hook {
    taken: Arc<Mutex<Vec<Value>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

async fn take(State(hook): State<Hook>, body: Bytes) -> StatusCode {
    let events: Vec<Value> = serde_json::from_slice(&body).unwrap();
    let refused = hook.refused.lock();
    if events.iter().any(|event| refused.iter().any(|id| event["id"] == **id)) {
        return StatusCode::UNPROCESSABLE_ENTITY;
    }
    hook.taken.lock().extend(events);
    StatusCode::NO_CONTENT
}

impl Hook {
    /// Serves posts, and gives the settings of a sink that posts here.
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("[sink.s]\nkind = 'webhook'\nurl = 'http://{address}/'\nallow_private = true\n")
    }

    /// The rows that were taken, as id, form and version.
    fn rows(&self) -> Vec<String> {
        let row = |event: &Value| {
            let data = &event["data"];
            let text = |name: &str| data[name].as_str().unwrap().to_owned();
            format!("{} {} {}", text("id"), text("form"), data["version"])
        };
        self.taken.lock().iter().map(row).collect()
    }
}

/// The deliverer's node stops with the document parked, and a release is asked of another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_document_is_released_by_the_deliverers_successor() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let hook = Hook::default();
    let settings = hook.serve().await;
    let (a, owner) = start("a", &redis.url(), &settings).await;
    hook.refused.lock().push(format!("default/{COLLECTION}/x/3-0-9-5.2"));
    for version in 1..=3 {
        owner.write("default", "x", version).await;
    }
    owner.write("default", "y", 1).await;
    let arrived = || async { hook.rows().len() == 2 };
    eventually("the first versions arrive", PATIENCE, arrived).await;
    let mut rows = hook.rows();
    rows.sort();
    assert_eq!(rows, ["x merge-patch 1", "y merge-patch 1"]);
    let mut asked = Subscriber::new(&a);
    let parked = asked.send(Method::GET, "/sinks/s/parked", String::new()).await;
    let parked: Value = serde_json::from_slice(&parked.body).unwrap();
    assert_eq!(parked["documents"][0]["feed"], "glue/archive", "{parked}");
    assert_eq!(
        (&parked["documents"][0]["id"], &parked["documents"][0]["version"]),
        (&json!("x"), &json!(2))
    );

    let (b, owner) = start("b", &redis.url(), &settings).await;
    a.stop().await;
    owner.write("default", "x", 4).await;
    owner.write("default", "y", 2).await;
    let arrived = || async { hook.rows().last().is_some_and(|row| row == "y merge-patch 2") };
    eventually("the other document goes on", PATIENCE, arrived).await;
    let body = json!({"collection": COLLECTION, "tenant": "default", "id": "x"}).to_string();
    let mut asked = Subscriber::new(&b);
    let released = asked.send(Method::POST, "/sinks/s/parked/release", body.clone()).await;
    assert_eq!(released.status.as_u16(), 202, "{:?}", released.body);
    let arrived = || async { hook.rows().last().is_some_and(|row| row == "x state 4") };
    eventually("the present state arrives", PATIENCE, arrived).await;
    owner.write("default", "x", 5).await;
    let arrived = || async { hook.rows().last().is_some_and(|row| row == "x merge-patch 5") };
    eventually("the pieces go on", PATIENCE, arrived).await;
    let released = asked.send(Method::POST, "/sinks/s/parked/release", body).await;
    assert_eq!(released.status.as_u16(), 404, "it is parked no more");
    let first = hook.taken.lock()[0].clone();
    assert_eq!(
        (&first["type"], &first["source"]),
        (&json!("consort.glue.v1"), &json!("/consort/glue/archive"))
    );
    b.stop().await;
}

/// A snapshot is listed page by page while versions are written; then the feed is read from the snapshot's cursor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_under_load_and_the_feed_behind_its_cursor_equal_a_replay() {
    const LAST: u64 = 80;
    let ids: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let (log, store) = memory::open(4, Arc::new(SystemClock::default()));
    let (log, store): (Arc<dyn Log>, Arc<dyn Store>) = (Arc::new(log), Arc::new(store));
    let owner = Owner::new(Arc::clone(&store), 1);
    let (quarter, reached) = tokio::sync::oneshot::channel();
    let writing = tokio::spawn({
        let (owner, ids) = (owner.clone(), ids.clone());
        async move {
            let mut quarter = Some(quarter);
            for version in 1..=LAST {
                for id in &ids {
                    owner.write("default", id, version).await;
                }
                if version == LAST / 4 {
                    let _ = quarter.take().map(|quarter| quarter.send(()));
                }
            }
        }
    });
    reached.await.unwrap();
    let spec = Arc::new(feed(&collection(), &[]).unwrap());
    let reader = Subscription::new(Arc::clone(&store), spec);
    let mut cursor = reader.newest().await.unwrap();
    let listing = CollectionReader::new(Arc::new(collection()), Arc::clone(&store), log).unwrap();
    let (mut replica, mut after): (BTreeMap<String, u64>, _) = (BTreeMap::new(), None);
    loop {
        let tenants = TenantSelection::One("default".into());
        let request = ListRequest { tenants, after, limit: 7, deleted: true, texts: true };
        let page = listing.list(&request).await.unwrap();
        for listed in page.documents {
            let text = listed.text.unwrap();
            let document: Value = serde_json::from_slice(&text.text).unwrap();
            replica.insert(listed.id, document["version"].as_u64().unwrap());
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(replica.len(), ids.len());
    writing.await.unwrap();
    loop {
        let page = reader.read(&cursor, 100, Duration::ZERO).await.unwrap();
        if page.changes.is_empty() {
            break;
        }
        for row in page.changes {
            let row = GlueRow::from_change(&row.change.unwrap()).unwrap();
            let version = replica.get_mut(&row.id).unwrap();
            if row.version > *version {
                assert_eq!(row.was, *version, "a version of {} is missing", row.id);
                *version = row.version;
            }
        }
        cursor = page.next;
    }
    assert_eq!(replica, ids.into_iter().map(|id| (id, LAST)).collect());
}
