//! `consort glue verify` names each document that is not as the log makes it; and the decisions of operators, from the
//! command line.

use std::collections::BTreeMap;
use std::process::Output;
use std::sync::Arc;

use bytes::Bytes;
use consort_engines::{Engine, Options};
use consort_glue::CollectionCells;
use consort_glue::stored::{DocumentBody, DocumentHead};
use consort_kernel::{Cell, Commit, Key, Kind, Operation, Partition, Shard, Store, Value};
use serde_json::{Value as Json, json};

use crate::bed::PATIENCE;
use crate::example::{Bed, consort, out, words};

/// One partition, so that all documents share a log.
pub(crate) const CONFIG: &str = "
[engine]
url = 'embedded:./data'
shards = 1
[glue.content]
format = 'json'
partitions = 1
on_reject = 'halt'
[glue.guides]
format = 'xml'
";

fn verify(bed: &Bed) -> Output {
    let mut command = consort(&["glue", "verify", "content", "-c", "content.toml"]);
    command.current_dir(bed.path()).output().expect("it runs")
}

/// The findings by the ids of their documents, and the exit code.
fn findings(output: &Output) -> (BTreeMap<String, Json>, Option<i32>) {
    let text = out(output);
    let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let named = lines.map(|line| (line["id"].as_str().expect("an id").to_owned(), line));
    (named.collect(), output.status.code())
}

/// The engine of a node that has ended.
async fn engine(bed: &Bed) -> Engine {
    let options = Options {
        url: format!("embedded:{}", bed.path().join("data").display()),
        broker: None,
        namespace: "default".into(),
        shards: 1,
        durability: consort_engines::Durability::Process,
        allow_volatile: false,
        tls_ca: None,
    };
    consort_engines::open(&options).await.expect("the engine")
}

/// Lets go of the log before an offset, as retention does.
pub(crate) async fn forget(bed: &Bed, log: &Partition, before: u64) {
    // The engine lets go of entries with its next writes, and keeps that only then.
    consort_testbed::eventually("the log begins later", PATIENCE, || async {
        let engine = engine(bed).await;
        let first = engine.log.first(log).await.expect("the first offset");
        if first < before {
            engine.log.trim(log, before).await.expect("it is trimmed");
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        first >= before
    })
    .await;
}

/// The documents of the default tenant, beside the node's back.
struct Tampered {
    store: Arc<dyn Store>,
    cells: CollectionCells,
}

impl Tampered {
    async fn get(&self, key: Key) -> Bytes {
        let cells = [Cell::new(Kind::Bytes, key)];
        let found = self.store.get(Shard(0), &cells).await.expect("it is read").remove(0);
        let Some(Value::Bytes(bytes)) = found else { panic!("there is no such cell") };
        bytes
    }

    async fn commit(&self, operations: Vec<Operation>) {
        self.store.commit(Shard(0), Commit::of(operations)).await.expect("it is committed");
    }

    async fn lose(&self, id: &str) {
        let keys = [self.cells.head("default", id), self.cells.body("default", id)];
        let lose = |key| Operation::Delete(Cell::new(Kind::Bytes, key));
        self.commit(keys.map(lose).to_vec()).await;
    }

    async fn copy(&self, id: &str, to: &str) {
        let head = self.get(self.cells.head("default", id)).await;
        let body = self.get(self.cells.body("default", id)).await;
        let (head_key, body_key) = (self.cells.head("default", to), self.cells.body("default", to));
        self.commit(vec![
            Operation::Put { key: head_key, value: head },
            Operation::Put { key: body_key, value: body },
        ])
        .await;
    }

    async fn damage(&self, id: &str) {
        let key = self.cells.body("default", id);
        let body = DocumentBody::decode(&self.get(key.clone()).await).expect("a body");
        let body = DocumentBody { document: Bytes::from_static(b"{\"n\":9}"), ..body };
        self.commit(vec![Operation::Put { key, value: body.encode() }]).await;
    }
}

#[tokio::test]
async fn documents_that_are_not_as_the_log_makes_them_are_named() {
    let mut bed = Bed::start_with(CONFIG).await;
    for id in ["old", "good", "lost", "damaged", "both"] {
        let put = bed.glue(&["put", "content", id], "{\"n\": 1}");
        assert!(put.status.success(), "{}", words(&put));
    }
    assert!(bed.glue(&["patch", "content", "both"], "{\"m\": 2}").status.success());
    bed.node.terminate(PATIENCE).await;
    let output = verify(&bed);
    assert_eq!(findings(&output), (BTreeMap::new(), Some(0)), "{}", words(&output));

    let engine = engine(&bed).await;
    let cells = CollectionCells::new("content").expect("a name");
    let log = Partition::new(cells.stream().clone(), 0);
    let tampered = Tampered { store: Arc::clone(&engine.store), cells };
    tampered.lose("lost").await;
    tampered.copy("good", "ghost").await;
    tampered.damage("damaged").await;
    let head = tampered.get(tampered.cells.head("default", "old")).await;
    let life = DocumentHead::decode(&head).expect("a head").life.expect("it was created");
    drop((tampered, engine));
    forget(&bed, &log, life.offset + 1).await;

    let output = verify(&bed);
    let (found, code) = findings(&output);
    let kinds: BTreeMap<&str, &str> =
        found.iter().map(|(id, one)| (&**id, one["finding"].as_str().expect("a text"))).collect();
    let expected = [
        ("damaged", "differs"),
        ("ghost", "unexpected"),
        ("lost", "missing"),
        ("old", "older-than-log"),
    ];
    assert_eq!(kinds, BTreeMap::from(expected), "{}", words(&output));
    assert_eq!(code, Some(3));
    let lost = json!({"finding": "missing", "tenant": "default", "id": "lost", "stored_version": 0, "replayed_version": 1});
    assert_eq!(found["lost"], lost);
    let told = "2 documents are as the log makes them, 1 are older than the log, 3 differ";
    assert!(words(&output).contains(told), "{}", words(&output));
    let unknown = consort(&["glue", "verify", "none", "-c", "content.toml"])
        .current_dir(bed.path())
        .output()
        .expect("it runs");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(words(&unknown).contains("there are content, guides"), "{}", words(&unknown));
}

/// Halts a document, and gives the place of the piece that did.
fn halt(bed: &Bed, id: &str) -> String {
    let put = bed.glue(&["put", "content", id], "{\"n\": 1}");
    assert!(put.status.success(), "{}", words(&put));
    let patch = ["patch", "content", id, "--form", "json-patch"];
    let failed = bed.glue(&patch, "[{\"op\":\"remove\",\"path\":\"/x\"}]");
    assert_eq!(failed.status.code(), Some(1), "{}", words(&failed));
    let behind = bed.glue(&["patch", "content", id], "{\"behind\": true}");
    assert!(words(&behind).contains("queued"), "{}", words(&behind));
    let rejects = bed.glue(&["rejects", "content", "--id", id], "");
    let queued = out(&bed.glue(&["get", "content", id], ""));
    assert_eq!(queued, "{\"n\":1}\n");
    match out(&rejects).lines().next() {
        Some(line) => {
            let reject: Json = serde_json::from_str(line).expect("JSON");
            reject["place"].as_str().expect("a place").to_owned()
        }
        // The piece that halts a document is no reject yet: the answer to it names its place.
        None => {
            let said = words(&failed);
            let is_place = |word: &&str| {
                word.split('-').count() == 4 && word.ends_with(|c: char| c.is_ascii_digit())
            };
            let mut names = said.split(|c: char| !c.is_ascii_digit() && c != '-');
            names.find(is_place).unwrap_or_else(|| panic!("no place in {said}")).to_owned()
        }
    }
}

/// Waits until the pieces behind a decision are applied.
async fn settles(bed: &Bed, id: &str, expected: &str) {
    consort_testbed::eventually("the document goes on", PATIENCE, || async {
        let get = bed.glue(&["get", "content", id], "");
        out(&get) == format!("{expected}\n") && words(&get).contains(" live")
    })
    .await;
}

#[tokio::test]
async fn a_halted_document_goes_on_by_a_command() {
    let bed = Bed::start_with(CONFIG).await;
    let place = halt(&bed, "discarded");
    let discard = bed.glue(&["discard", "content", "discarded", &place], "");
    assert!(discard.status.success(), "{}", words(&discard));
    settles(&bed, "discarded", "{\"behind\":true,\"n\":1}").await;

    let place = halt(&bed, "replaced");
    let again = bed.glue(&["retry", "content", "replaced", &place], "");
    assert_eq!(again.status.code(), Some(1), "the same piece fails again: {}", words(&again));
    std::fs::write(bed.path().join("fixed.json"), "{\"fixed\": 1}").expect("a file");
    let retry = ["retry", "content", "replaced", &place, "--form", "merge-patch", "fixed.json"];
    let retried = bed.glue(&retry, "");
    assert!(retried.status.success(), "{}", words(&retried));
    settles(&bed, "replaced", "{\"behind\":true,\"fixed\":1,\"n\":1}").await;
}

#[tokio::test]
async fn xml_documents_are_put_from_the_command_line() {
    let bed = Bed::start_with(CONFIG).await;
    let put = bed.glue(&["put", "guides", "g", "--xml"], "<g><t>a</t></g>");
    assert!(put.status.success(), "{}", words(&put));
    assert_eq!(out(&bed.glue(&["get", "guides", "g"], "")), "<g><t>a</t></g>\n");
    let refused = bed.glue(&["put", "guides", "g"], "{}");
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("content-type"), "{}", words(&refused));
}
