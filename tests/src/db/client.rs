//! A client of one database over HTTP: its requests, and the meaning of every answer (DB.md, section 3).

use std::sync::Arc;
use std::time::Duration;

use consort_client::{Client, ClientError, Connection, Method, Reply};
use parking_lot::RwLock;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::lin::history::{ReadLevel, Row, RowCell};

/// Requests on one connection, at most: then it is another node's turn.
const REQUESTS_MOST: u32 = 12;

/// The era of every position: no trial restores a database.
pub const ERA: u64 = 1;

/// The header of a position.
const POSITION: &str = "consort-position";

/// The addresses of the nodes that clients may ask. Clones are of the same list.
#[derive(Clone, Debug, Default)]
pub struct NodeList(Arc<RwLock<Vec<String>>>);

impl NodeList {
    /// From now on these are all.
    pub fn set(&self, addresses: Vec<String>) {
        *self.0.write() = addresses;
    }

    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.0.read().clone()
    }

    /// One of them.
    pub fn any(&self, random: &mut StdRng) -> Option<String> {
        self.0.read().choose(random).cloned()
    }
}

/// The answer to a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteAnswer {
    /// It is stored.
    Stored {
        /// At this index; an error that says `stored` names none.
        index: Option<u64>,
        /// The result of each statement; `null` for a repeat whose answer was too long to keep.
        results: Value,
    },
    /// A statement did not change as many rows as it had to: nothing is stored.
    Unmet,
    /// This request is not stored and never will be, for this reason. The same may work later.
    NotStored(String),
    /// It may be stored now or later, or never.
    Unknown(String),
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadAnswer {
    /// The rows of each query, all of one snapshot.
    Rows {
        /// The index of the snapshot.
        index: u64,
        /// The rows by query.
        results: Vec<Vec<Row>>,
    },
    /// No worker could answer, for this reason.
    Failed(String),
}

/// A client that asks one node after another.
#[derive(Debug)]
pub struct DbClient {
    nodes: NodeList,
    database: &'static str,
    within: Duration,
    connection: Option<(Connection, u32)>,
    random: StdRng,
}

impl DbClient {
    /// A client that waits so long for an answer.
    pub fn new(
        nodes: NodeList,
        database: &'static str,
        within: Duration,
        random: &mut StdRng,
    ) -> DbClient {
        let random = StdRng::seed_from_u64(random.random());
        DbClient { nodes, database, within, connection: None, random }
    }

    /// Sends one write.
    pub async fn write(&mut self, statements: &Value, key: Option<&str>) -> WriteAnswer {
        let body = json!({"statements": statements}).to_string();
        let path = format!("/db/{}/write", self.database);
        let headers: Vec<_> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
        match self.send(&path, &headers, body).await {
            Ok(reply) => write_answer(&path, &reply),
            Err(ClientError::Unreachable { reason, .. }) => WriteAnswer::NotStored(reason),
            Err(error) => WriteAnswer::Unknown(error.to_string()),
        }
    }

    /// Sends one read of several queries on one snapshot.
    pub async fn read(&mut self, queries: &Value, level: ReadLevel) -> ReadAnswer {
        let mut body = json!({"queries": queries});
        if level == ReadLevel::Strong {
            body["consistency"] = json!("strong");
        }
        let after = match level {
            ReadLevel::After(index) => Some(format!("{ERA}-{index}")),
            ReadLevel::Strong | ReadLevel::Any => None,
        };
        let headers: Vec<_> = after.iter().map(|after| ("consort-after", &**after)).collect();
        let path = format!("/db/{}/read", self.database);
        match self.send(&path, &headers, body.to_string()).await {
            Ok(reply) => read_answer(&path, &reply),
            Err(error) => ReadAnswer::Failed(error.to_string()),
        }
    }

    async fn send(
        &mut self,
        path: &str,
        headers: &[(&'static str, &str)],
        body: String,
    ) -> Result<Reply, ClientError> {
        let (mut connection, left) = match self.connection.take().filter(|(_, left)| *left > 0) {
            Some(kept) => kept,
            None => {
                let address = self.nodes.any(&mut self.random).unwrap_or_default();
                let client = Client::new(&address, None).expect("an address");
                let left = self.random.random_range(1..=REQUESTS_MOST);
                (Connection::new(client, self.within), left)
            }
        };
        let reply = connection.send(Method::POST, path, headers, body).await?;
        self.connection = Some((connection, left - 1));
        Ok(reply)
    }
}

/// The meaning of an answer to a write.
///
/// # Panics
///
/// If it is none that the API has, or one that these workloads never cause.
fn write_answer(path: &str, reply: &Reply) -> WriteAnswer {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let status = reply.status.as_u16();
    if status == 200 {
        let index = Some(index(path, reply, &body));
        return WriteAnswer::Stored { index, results: body["results"].clone() };
    }
    let (kind, outcome) = (kind(&body), body["outcome"].as_str().unwrap_or_default());
    let said = format!("{path}: {status} {body}");
    match (outcome, status, kind) {
        ("not stored", 409, "db-expectation") => WriteAnswer::Unmet,
        ("not stored", 503, _) => {
            assert!(reply.header("retry-after").is_some(), "no Retry-After: {said}");
            assert_ne!(kind, "db-stopped", "nothing was lost: {said}");
            WriteAnswer::NotStored(said)
        }
        ("unknown", 503, "db-unknown-outcome") => WriteAnswer::Unknown(said),
        ("stored", 503, _) => WriteAnswer::Stored { index: None, results: Value::Null },
        _ => panic!("no answer that this write may get: {said}"),
    }
}

/// The meaning of an answer to a read.
///
/// # Panics
///
/// If it is none that the API has, or one that these workloads never cause.
fn read_answer(path: &str, reply: &Reply) -> ReadAnswer {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let status = reply.status.as_u16();
    match status {
        200 => {
            let results = body["results"].as_array();
            let results = results.unwrap_or_else(|| panic!("{path}: no results in {body}"));
            let results = results.iter().map(|result| rows(path, &result["rows"])).collect();
            ReadAnswer::Rows { index: index(path, reply, &body), results }
        }
        503 => ReadAnswer::Failed(format!("{path}: {body}")),
        _ => panic!("{path}: no answer that this read may get: {status} {body}"),
    }
}

/// The index of an answer, which its header and its body name alike.
fn index(path: &str, reply: &Reply, body: &Value) -> u64 {
    let position = reply.header(POSITION).unwrap_or_default();
    assert_eq!(body["position"].as_str(), Some(position), "{path}: header and body, {body}");
    let index = body["index"].as_u64().unwrap_or_else(|| panic!("{path}: no index in {body}"));
    assert_eq!(position, format!("{ERA}-{index}"), "{path}: {body}");
    index
}

/// The last word of a problem's type.
fn kind(body: &Value) -> &str {
    body["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

fn rows(path: &str, rows: &Value) -> Vec<Row> {
    let rows = rows.as_array().unwrap_or_else(|| panic!("{path}: no rows in {rows}"));
    rows.iter().map(|row| row.as_array().into_iter().flatten().map(cell).collect()).collect()
}

fn cell(value: &Value) -> RowCell {
    match (value, value.as_i64()) {
        (Value::Null, _) => RowCell::Null,
        (Value::String(text), _) => RowCell::Text(text.clone()),
        (_, Some(integer)) => RowCell::Integer(integer),
        _ => panic!("the workloads have no value such as {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn reply(status: u16, headers: &[(&'static str, &'static str)], body: Value) -> Reply {
        let mut reply = Reply {
            status: status.try_into().unwrap(),
            headers: Default::default(),
            body: Bytes::from(body.to_string()),
        };
        for (name, value) in headers {
            reply.headers.insert(*name, value.parse().unwrap());
        }
        reply
    }

    fn problem(kind: &str, outcome: &str) -> Value {
        json!({"type": format!("urn:consort:problem:{kind}"), "outcome": outcome})
    }

    #[test]
    fn each_answer_to_a_write_has_its_meaning() {
        let results = json!([{"changes": 1, "last_id": null}]);
        let body = json!({"position": "1-17", "index": 17, "results": results});
        let stored = reply(200, &[("consort-position", "1-17")], body);
        let expected = WriteAnswer::Stored { index: Some(17), results };
        assert_eq!(write_answer("w", &stored), expected);
        let unmet = reply(409, &[], problem("db-expectation", "not stored"));
        assert_eq!(write_answer("w", &unmet), WriteAnswer::Unmet);
        let retry = [("retry-after", "1")];
        let busy = reply(503, &retry, problem("db-no-worker", "not stored"));
        assert!(matches!(write_answer("w", &busy), WriteAnswer::NotStored(_)));
        let unknown = reply(503, &[], problem("db-unknown-outcome", "unknown"));
        assert!(matches!(write_answer("w", &unknown), WriteAnswer::Unknown(_)));
    }

    #[test]
    #[should_panic(expected = "no answer that this write may get")]
    fn an_error_without_an_outcome_is_not_accepted() {
        write_answer("w", &reply(503, &[("retry-after", "1")], json!({"type": "x"})));
    }

    #[test]
    fn the_rows_of_a_read_come_with_their_index() {
        let results = json!([{"columns": ["id", "name"], "rows": [[1, "ann"], [2, null]]}]);
        let body = json!({"results": results, "position": "1-4", "index": 4, "worker": 3});
        let row = |id, name| vec![RowCell::Integer(id), name];
        let rows = vec![row(1, RowCell::Text("ann".into())), row(2, RowCell::Null)];
        let expected = ReadAnswer::Rows { index: 4, results: vec![rows] };
        assert_eq!(read_answer("r", &reply(200, &[("consort-position", "1-4")], body)), expected);
    }
}
