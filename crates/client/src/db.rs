//! Calls about one database: SQL statements, its status and its workers.

mod answers;
mod error;
mod nodes;
mod position;
mod statement;

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

pub use answers::{ReadManyOutcome, ReadOutcome, RowSet, StatementOutcome};
pub use answers::{WorkerEntry, WorkerList, WriteOutcome};
pub use error::{DbClientError, DbProblem, DbWriteState};
pub use statement::{ReadConsistency, SqlStatement};

use crate::error::AddressError;
use nodes::{Call, Nodes};
use position::{POSITION_HEADER, SeenPosition};

/// The header that asks for an answer at least as new as a position.
const AFTER_HEADER: &str = "consort-after";

/// The header that makes repeats of a write take effect once.
const KEY_HEADER: &str = "idempotency-key";

/// A client of one database. Any number of tasks may use it at the same time.
///
/// It knows several nodes and asks them in turn: the one that answered last is asked first, and the next one is
/// asked when a node cannot be reached or takes no request. A write without a key is not sent to a second node once
/// it may have reached the first.
///
/// It keeps the highest position that any answer had, and default reads ask for an answer at least as new.
#[derive(Debug)]
pub struct DbClient {
    nodes: Nodes,
    path: String,
    seen: SeenPosition,
}

impl DbClient {
    /// A client of the database `name` on the nodes at `urls`, which are at least one. A call takes at most
    /// `within`, all nodes together. No connection is made yet.
    pub fn new(
        urls: &[String],
        name: &str,
        token: Option<&str>,
        within: Duration,
    ) -> Result<DbClient, AddressError> {
        let nodes = Nodes::new(urls, token, within)?;
        Ok(DbClient { nodes, path: path(name), seen: SeenPosition::default() })
    }

    /// Runs the statements as one transaction. With a `key`, a repeat within an hour gets the first answer, so a
    /// write whose outcome is unknown can be sent again.
    pub async fn write(
        &self,
        statements: &[SqlStatement],
        key: Option<&str>,
    ) -> Result<WriteOutcome, DbClientError> {
        let call = Call {
            method: Method::POST,
            path: format!("{}/write", self.path),
            headers: key.map(|key| (KEY_HEADER, key.to_owned())).into_iter().collect(),
            body: body(&json!({ "statements": statements })),
            changes_state: true,
            repeatable: key.is_some(),
        };
        self.answer(call).await
    }

    /// Runs one query.
    pub async fn read(
        &self,
        query: &SqlStatement,
        consistency: ReadConsistency,
    ) -> Result<ReadOutcome, DbClientError> {
        let body = body(&json!({ "query": query, "consistency": consistency }));
        self.read_call(body, consistency).await
    }

    /// Runs several queries on one snapshot. It counts as one read.
    pub async fn read_many(
        &self,
        queries: &[SqlStatement],
        consistency: ReadConsistency,
    ) -> Result<ReadManyOutcome, DbClientError> {
        let body = body(&json!({ "queries": queries, "consistency": consistency }));
        self.read_call(body, consistency).await
    }

    /// The database's status as the node writes it: era, index, leader, lag of each worker and more. It needs no
    /// worker and counts as no read.
    pub async fn status(&self) -> Result<Value, DbClientError> {
        self.answer(Call::get(self.path.clone())).await
    }

    /// The live workers, sorted by id.
    pub async fn workers(&self) -> Result<WorkerList, DbClientError> {
        self.answer(Call::get(format!("{}/workers", self.path))).await
    }

    /// Ends a worker at once, as a crash would: a drill for operators. After [`DbClientError::Unknown`] the worker
    /// may have ended.
    pub async fn crash(&self, worker: u64) -> Result<(), DbClientError> {
        let call = Call {
            method: Method::POST,
            path: format!("{}/workers/{worker}/crash", self.path),
            headers: Vec::new(),
            body: Bytes::from_static(b"{}"),
            changes_state: true,
            repeatable: false,
        };
        self.answer::<Value>(call).await.map(drop)
    }

    async fn read_call<T: DeserializeOwned>(
        &self,
        body: Bytes,
        consistency: ReadConsistency,
    ) -> Result<T, DbClientError> {
        // A strong read is as new as can be by itself.
        let after = match consistency {
            ReadConsistency::Any => self.seen.highest(),
            ReadConsistency::Strong => None,
        };
        let headers = after.iter().map(|position| (AFTER_HEADER, position.to_string())).collect();
        let path = format!("{}/read", self.path);
        let call = Call { headers, body, method: Method::POST, ..Call::get(path) };
        let answer = self.answer(call).await;
        if let (Err(DbClientError::EraEnded(_)), Some(old)) = (&answer, after) {
            self.seen.forget(old);
        }
        answer
    }

    /// The body of a success, as the nodes write it.
    async fn answer<T: DeserializeOwned>(&self, call: Call) -> Result<T, DbClientError> {
        let (url, reply) = self.nodes.send(&call).await?;
        if let Some(position) = reply.header(POSITION_HEADER) {
            self.seen.note(position);
        }
        serde_json::from_slice(&reply.body)
            .map_err(|error| DbClientError::unreadable(&url, &error, &reply.body))
    }
}

/// The path of a database. A name is one segment of it, whatever its characters.
fn path(name: &str) -> String {
    let Ok(mut url) = Url::parse("http://node") else { return String::new() };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.extend(["db", name]);
    }
    url.path().to_owned()
}

fn body(value: &impl Serialize) -> Bytes {
    // Plain JSON values: writing them into memory cannot fail.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_the_path() {
        for (name, expected) in [
            ("rideshare", "/db/rideshare"),
            ("a/b", "/db/a%2Fb"),
            ("a?b#c d", "/db/a%3Fb%23c%20d"),
            ("ä", "/db/%C3%A4"),
        ] {
            assert_eq!(path(name), expected);
        }
    }

    #[test]
    fn at_least_one_node_is_needed() {
        let within = Duration::from_secs(2);
        let error = DbClient::new(&[], "rideshare", None, within).unwrap_err();
        assert!(error.to_string().contains("no address was given"), "{error}");
        let urls = ["127.0.0.1:7400".to_owned(), "https://h".to_owned()];
        assert!(DbClient::new(&urls[..1], "rideshare", None, within).is_ok());
        assert!(DbClient::new(&urls, "rideshare", None, within).is_err());
    }
}
