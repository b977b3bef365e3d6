//! Pieces of documents as a kind of posts: each task has a source and documents of its own. Afterwards the documents, and
//! every version in the feed, equal what plain code makes of the acknowledged pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use consort_client::{Client, Connection, Method};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::load::{Post, PostSender};

/// The collection, which is declared beside the config of the rides.
const COLLECTION: &str = "pieces";

/// Documents of each task.
const DOCUMENTS: u32 = 3;

/// Rows of a page of the feed, and documents of a list.
const PAGE: usize = 500;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What a piece does to the list of a document. None of them commutes with the others.
#[derive(Clone, Copy, Debug)]
enum Change {
    Append(u64),
    InsertFirst(u64),
    RemoveFirst,
}

/// The list of a document after each version.
type Versions = Vec<Vec<u64>>;

/// All pieces, by plain code.
#[derive(Debug, Default)]
pub struct Pieces {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By document: the lists after each acknowledged piece.
    documents: BTreeMap<String, Versions>,
    /// By task: the document, and its list once the piece that is under way is applied.
    under_way: BTreeMap<u32, (String, Vec<u64>)>,
    acknowledged: usize,
}

impl Change {
    fn random(list: &[u64], stamp: u64, random: &mut StdRng) -> Change {
        match random.random_range(0..4) {
            0 => Change::InsertFirst(stamp),
            1 if !list.is_empty() => Change::RemoveFirst,
            _ => Change::Append(stamp),
        }
    }

    fn apply(self, list: &mut Vec<u64>) {
        match self {
            Change::Append(stamp) => list.push(stamp),
            Change::InsertFirst(stamp) => list.insert(0, stamp),
            Change::RemoveFirst => drop(list.remove(0)),
        }
    }

    fn piece(self) -> Value {
        match self {
            Change::Append(stamp) => json!([{"op": "add", "path": "/list/-", "value": stamp}]),
            Change::InsertFirst(stamp) => json!([{"op": "add", "path": "/list/0", "value": stamp}]),
            Change::RemoveFirst => json!([{"op": "remove", "path": "/list/0"}]),
        }
    }

    /// The change that a row shows.
    fn shown(row: &Value) -> Option<Change> {
        let operation = &row["piece"][0];
        match (operation["op"].as_str()?, operation["path"].as_str()?) {
            ("add", "/list/-") => Some(Change::Append(operation["value"].as_u64()?)),
            ("add", "/list/0") => Some(Change::InsertFirst(operation["value"].as_u64()?)),
            ("remove", "/list/0") => Some(Change::RemoveFirst),
            _ => None,
        }
    }
}

#[async_trait]
impl PostSender for Pieces {
    fn next(&self, task: u32, random: &mut StdRng) -> Post {
        let id = format!("document-{task}-{}", random.random_range(0..DOCUMENTS));
        let mut state = self.state.lock();
        let versions = state.documents.entry(id.clone()).or_default();
        let seq = versions.len() as u64 + 1;
        let (form, piece, list) = match versions.last() {
            None => ("whole", json!({ "list": [] }), Vec::new()),
            Some(before) => {
                let change = Change::random(before, seq, random);
                let mut list = before.clone();
                change.apply(&mut list);
                ("json-patch", change.piece(), list)
            }
        };
        state.under_way.insert(task, (id.clone(), list));
        let line = json!({"id": id, "form": form, "piece": piece, "source": "load", "seq": seq});
        Post {
            path: format!("/glue/{COLLECTION}"),
            content_type: Some("application/x-ndjson"),
            key: format!("{task}-{seq}"),
            body: format!("{line}\n"),
        }
    }

    fn acknowledged(&self, task: u32) {
        let mut state = self.state.lock();
        let Some((id, list)) = state.under_way.remove(&task) else { return };
        state.documents.entry(id).or_default().push(list);
        state.acknowledged += 1;
    }

    fn count(&self) -> usize {
        self.state.lock().acknowledged
    }

    async fn differences(&self, address: &str) -> Vec<String> {
        let mut differences = Vec::new();
        let (documents, mut rows) = (documents(address).await, rows(address).await);
        let state = self.state.lock();
        for (id, versions) in &state.documents {
            let (stored, last) = (documents.get(id), versions.last());
            if stored != last.map(|list| json!({ "list": list })).as_ref() {
                differences.push(format!("{id} is {stored:?}, and should be {last:?}"));
            }
            let rows = rows.remove(id).unwrap_or_default();
            if let Some(difference) = differs(&rows, versions) {
                differences.push(format!("the rows of {id}: {difference}"));
            }
        }
        differences.extend(rows.into_keys().map(|id| format!("nobody sent a piece for {id}")));
        differences
    }
}

/// How the rows of a document differ from its versions.
fn differs(rows: &[Value], versions: &Versions) -> Option<String> {
    let mut list = Vec::new();
    for (version, expected) in (1..).zip(versions) {
        let Some(row) = rows.get(version - 1) else {
            return Some(format!("version {version} of {} is missing", versions.len()));
        };
        if row["version"] != version || row["seq"] != version {
            return Some(format!("version {version} is {row}"));
        }
        match Change::shown(row) {
            Some(Change::RemoveFirst) if list.is_empty() => {
                return Some(format!("too early: {row}"));
            }
            Some(change) => change.apply(&mut list),
            None => list.clear(),
        }
        if list != *expected {
            return Some(format!("version {version} makes {list:?}, and should make {expected:?}"));
        }
    }
    (rows.len() > versions.len())
        .then(|| format!("{} versions too many", rows.len() - versions.len()))
}

async fn documents(address: &str) -> BTreeMap<String, Value> {
    let (mut documents, mut after) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/glue/{COLLECTION}?documents=true&limit={PAGE}{after}");
        let page: Value = serde_json::from_slice(&get(address, &path).await.0).expect("JSON");
        for one in page["documents"].as_array().expect("a list") {
            let id = one["id"].as_str().expect("an id").to_owned();
            documents.insert(id, one["document"].clone());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return documents,
        }
    }
}

async fn rows(address: &str) -> BTreeMap<String, Vec<Value>> {
    let (mut rows, mut after) = (BTreeMap::<String, Vec<Value>>::new(), String::new());
    loop {
        let path = format!("/feeds/glue/{COLLECTION}?limit={PAGE}{after}");
        let (body, cursor) = get(address, &path).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        for row in text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a row")) {
            let id = row["id"].as_str().expect("an id").to_owned();
            rows.entry(id).or_default().push(row);
        }
        let next = format!("&after={}", cursor.expect("a page has a cursor"));
        if text.is_empty() && next == after {
            return rows;
        }
        after = next;
    }
}

async fn get(address: &str, path: &str) -> (bytes::Bytes, Option<String>) {
    let client = Client::new(address, None).expect("an address");
    let reply = Connection::new(client, ANSWER_WITHIN).send(Method::GET, path, &[], "").await;
    let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
    let cursor = reply.header("consort-cursor").map(str::to_owned);
    (reply.body, cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u64, piece: &Value) -> Value {
        json!({ "version": version, "seq": version, "piece": piece })
    }

    #[test]
    fn rows_that_are_missing_doubled_or_out_of_order_are_noticed() {
        let (first, second) = (Change::Append(2), Change::InsertFirst(3));
        let versions = vec![vec![], vec![2], vec![3, 2]];
        let whole = row(1, &json!({"list": []}));
        let rows = vec![whole.clone(), row(2, &first.piece()), row(3, &second.piece())];
        assert_eq!(differs(&rows, &versions), None);
        assert!(differs(&rows[..2], &versions).is_some_and(|told| told.contains("missing")));
        let swapped = vec![whole, row(2, &second.piece()), row(3, &first.piece())];
        assert!(differs(&swapped, &versions).is_some_and(|told| told.contains("should make")));
        let more = [&rows[..], &rows[2..]].concat();
        assert!(differs(&more, &versions).is_some_and(|told| told.contains("too many")));
    }
}
