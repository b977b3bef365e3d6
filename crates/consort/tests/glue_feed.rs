//! The feed of a collection that a node fills with pieces: listing and cursor, states, tenants and sinks, from the config to HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort::config::{ConfigFile, Sources};
use consort::{Config, Node};
use consort_client::{Client, Connection, Method, Reply};
use consort_testbed::eventually;
use serde_json::{Map, Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

const COLLECTION: &str = "[glue.content]\nformat = 'json'\n";

fn resolve(settings: &str) -> Result<Config, String> {
    let text = format!("[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = 'memory:'\n{settings}");
    let file = Some(ConfigFile { name: "test".into(), text });
    let config = Config::resolve(&Sources { file, ..Sources::default() });
    config.map_err(|problems| problems.to_string())
}

async fn start(settings: &str) -> Node {
    Node::start(resolve(settings).unwrap()).await.unwrap()
}

/// A client of a node.
struct Caller(Connection);

impl Caller {
    fn new(node: &Node) -> Caller {
        let client = Client::new(&format!("http://{}", node.address()), None).unwrap();
        Caller(Connection::new(client, PATIENCE))
    }

    async fn send(&mut self, method: Method, path: &str, kind: &str, body: String) -> Reply {
        self.0.send(method, path, &[("content-type", kind)], body).await.unwrap()
    }

    async fn get(&mut self, path: &str) -> Reply {
        let reply = self.send(Method::GET, path, "application/json", String::new()).await;
        assert_eq!(reply.status.as_u16(), 200, "{path}: {:?}", reply.body);
        reply
    }

    /// Applies a merge patch, a whole document or, without a piece, a delete.
    async fn apply(&mut self, id: &str, form: &str, piece: Option<&Value>) {
        let (method, kind) = match form {
            "whole" => (Method::PUT, "application/json"),
            "delete" => (Method::DELETE, "application/json"),
            _ => (Method::PATCH, "application/merge-patch+json"),
        };
        let body = piece.map(Value::to_string).unwrap_or_default();
        let path = format!("/glue/content/{id}?wait=applied");
        let reply = self.send(method, &path, kind, body).await;
        assert_eq!(reply.status.as_u16(), 200, "{:?}", reply.body);
    }

    /// The rows of a page of the feed, and the cursor behind it.
    async fn rows(&mut self, query: &str) -> (Vec<Value>, String) {
        let reply = self.get(&format!("/feeds/glue/content{query}")).await;
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (rows, reply.header("consort-cursor").unwrap().to_owned())
    }
}

/// A document of a replica: none after a delete.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    life: String,
    version: u64,
    document: Option<Value>,
}

/// The place of a life in the log, without its partition: lives of a document are in the order of these.
fn order(life: &str) -> Vec<u64> {
    life.split('-').skip(1).map(|part| part.parse().unwrap()).collect()
}

/// Documents put together from a listing and the rows behind its cursor, by the rule of the interface.
#[derive(Debug, Default)]
struct Replica(BTreeMap<String, Held>);

impl Replica {
    fn list(&mut self, listed: &Value) {
        let held = Held {
            life: listed["life"].as_str().unwrap().to_owned(),
            version: listed["version"].as_u64().unwrap(),
            document: listed.get("document").cloned(),
        };
        assert_eq!(held.document.is_none(), listed["state"] == "deleted", "{listed}");
        self.0.insert(listed["id"].as_str().unwrap().to_owned(), held);
    }

    fn apply(&mut self, row: &Value) {
        let (id, life) = (row["id"].as_str().unwrap(), row["life"].as_str().unwrap());
        let (version, was) = (row["version"].as_u64().unwrap(), row["was"].as_u64().unwrap());
        let before = self.0.get(id).cloned();
        if let Some(held) = &before {
            let is_covered = match order(life).cmp(&order(&held.life)) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => version <= held.version,
                std::cmp::Ordering::Greater => false,
            };
            if is_covered {
                return;
            }
            assert_eq!(was, held.version, "a version of '{id}' is missing: {row}");
        }
        // A new life starts from no document.
        let old = before.filter(|held| held.life == life).and_then(|held| held.document);
        let document = match row["form"].as_str().unwrap() {
            "whole" => Some(row["piece"].clone()),
            "delete" => None,
            _ => {
                let mut document = old.unwrap_or_else(|| Value::Object(Map::new()));
                let members = document.as_object_mut().unwrap();
                members.extend(row["piece"].as_object().unwrap().clone());
                Some(document)
            }
        };
        self.0.insert(id.to_owned(), Held { life: life.to_owned(), version, document });
    }
}

/// Changes its own documents until it is told to stop: patches, and now and then a delete with a new document after it.
async fn write(mut caller: Caller, ids: Vec<String>, stop: Arc<AtomicBool>) {
    for round in 0_u64.. {
        for id in &ids {
            if round % 7 == 6 {
                caller.apply(id, "delete", None).await;
                caller.apply(id, "whole", Some(&json!({ "born": round }))).await;
            } else {
                let member = format!("m{}", round % 5);
                caller.apply(id, "merge-patch", Some(&json!({ member: round }))).await;
            }
        }
        if stop.load(Ordering::Relaxed) && round >= 30 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_under_load_and_the_feed_behind_its_cursor_equal_the_documents() {
    let node = start(COLLECTION).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let ids = (0..5).map(|n| format!("doc-{writer}-{n}")).collect();
            tokio::spawn(write(Caller::new(&node), ids, Arc::clone(&stop)))
        })
        .collect();
    let mut caller = Caller::new(&node);
    let caller_rows = async |caller: &mut Caller| caller.rows("?after=now").await.1;
    let newest = caller_rows(&mut caller).await;
    eventually("every document has some versions", PATIENCE, || async {
        let mut caller = Caller::new(&node);
        caller.rows("?limit=1000").await.0.len() > 200
    })
    .await;

    let (mut replica, mut cursor, mut after) = (Replica::default(), None, None::<String>);
    loop {
        let from = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/glue/content?documents=true&deleted=true&limit=3{from}");
        let page = caller.get(&path).await;
        assert_eq!(
            page.header("consort-cursor").is_some(),
            after.is_none(),
            "the first page has it"
        );
        cursor = cursor.or(page.header("consort-cursor").map(str::to_owned));
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        page["documents"].as_array().unwrap().iter().for_each(|listed| replica.list(listed));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(replica.0.len(), 20);
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let mut cursor = cursor.unwrap();
    assert_ne!(cursor, newest);
    loop {
        let (rows, next) = caller.rows(&format!("?limit=50&after={cursor}")).await;
        rows.iter().for_each(|row| replica.apply(row));
        if rows.is_empty() {
            break;
        }
        cursor = next;
    }
    for (id, held) in &replica.0 {
        let stored = caller.get(&format!("/glue/content/{id}")).await;
        let etag = format!("\"{}.{}\"", held.life, held.version);
        assert_eq!(stored.header("etag"), Some(&*etag), "{id}");
        let stored: Value = serde_json::from_slice(&stored.body).unwrap();
        assert_eq!(Some(stored), held.document, "{id}");
    }
    node.stop().await;
}

#[tokio::test]
async fn every_version_is_a_row_and_a_state_is_the_document() {
    let node = start(COLLECTION).await;
    let mut caller = Caller::new(&node);
    caller.apply("a", "whole", Some(&json!({"n": 1}))).await;
    caller.apply("a", "merge-patch", Some(&json!({"m": 2}))).await;
    caller.apply("b", "whole", Some(&json!([1]))).await;
    caller.apply("b", "delete", None).await;
    let (rows, _) = caller.rows("?id=a").await;
    let shown = |row: &Value| {
        format!(
            "{} {}-{} {}",
            row["form"].as_str().unwrap(),
            row["was"],
            row["version"],
            row["piece"]
        )
    };
    let versions: Vec<String> = rows.iter().map(shown).collect();
    assert_eq!(versions, ["whole 0-1 {\"n\":1}", "merge-patch 1-2 {\"m\":2}"]);
    assert!(rows.iter().all(|row| row.get("epoch").is_none()), "{rows:?}");
    let (mut states, _) = caller.rows("?send=states").await;
    states.sort_by_key(|row| row["id"].to_string());
    let shown = |row: &Value| {
        format!(
            "{} {}-{} {}",
            row["form"].as_str().unwrap(),
            row["was"],
            row["version"],
            row["document"]
        )
    };
    let shown: Vec<String> = states.iter().map(shown).collect();
    assert_eq!(shown, ["state 0-2 {\"m\":2,\"n\":1}", "delete 0-2 null"]);
    node.stop().await;
}

#[tokio::test]
async fn a_file_gets_the_states_of_a_collection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("states");
    let sink = format!(
        "[sink.f]\nkind = 'file'\npath = '{}'\nsend = 'states'\n{COLLECTION}sink = ['f']\n",
        file.display()
    );
    let node = start(&sink).await;
    let mut caller = Caller::new(&node);
    for n in 1..=5 {
        caller.apply("a", "merge-patch", Some(&json!({ "n": n }))).await;
    }
    let last = || async {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let last = text.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
        last.is_some_and(|row| row["form"] == "state" && row["document"] == json!({"n": 5}))
    };
    eventually("the latest state is in the file", PATIENCE, last).await;
    node.stop().await;
}

#[test]
fn an_influx_sink_of_a_collection_is_refused_when_the_config_is_read() {
    let influx = "[sink.i]\nkind = 'influx'\nurl = 'http://h'\ndatabase = 'd'\n";
    let told = resolve(&format!("{influx}{COLLECTION}sink = ['i']\n")).unwrap_err();
    let why = "the sink 'i' writes line protocol: it cannot carry changes of the kind 'glue'";
    assert!(told.contains(why), "{told}");
}
