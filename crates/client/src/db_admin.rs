//! Calls about databases that operators make: status, checks, statements typed at a prompt, and whole files.

mod transfer;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use url::Url;

use crate::client::Client;
use crate::connection::{Connection, Reply};
use crate::error::ClientError;

/// How long a statement or a look may take: longer than a node waits for a worker and runs a change of the schema by
/// default.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// How long a check of all files may take. The node gives up earlier.
const ORDER_WITHIN: Duration = Duration::from_secs(330);

/// A client of the databases of a cluster, for operators.
#[derive(Clone, Debug)]
pub struct DbAdminClient {
    client: Client,
}

/// How much of a file has come or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferProgress {
    /// The bytes so far.
    pub done: u64,
    /// The size of the file, where it is known.
    pub total: Option<u64>,
}

/// Why a file was not transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The node's side.
    #[error(transparent)]
    Node(#[from] ClientError),
    /// The file.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// What happened.
        source: std::io::Error,
    },
}

impl Client {
    /// The same client, for databases.
    pub fn databases(&self) -> DbAdminClient {
        DbAdminClient { client: self.clone() }
    }
}

impl DbAdminClient {
    /// All databases, as `GET /db` tells them.
    pub async fn list(&self) -> Result<Value, ClientError> {
        self.call(Method::GET, "/db".to_owned(), None, ANSWER_WITHIN).await
    }

    /// The status of one database.
    pub async fn status(&self, name: &str) -> Result<Value, ClientError> {
        self.call(Method::GET, path(name, ""), None, ANSWER_WITHIN).await
    }

    /// Runs one query on a snapshot that has all that was written before.
    pub async fn query(&self, name: &str, sql: &str) -> Result<Value, ClientError> {
        let body = json!({ "query": [sql], "consistency": "strong" });
        self.call(Method::POST, path(name, "/read"), Some(body), ANSWER_WITHIN).await
    }

    /// Runs one statement that changes something.
    pub async fn execute(&self, name: &str, sql: &str) -> Result<Value, ClientError> {
        let body = json!({ "statements": [[sql]] });
        self.call(Method::POST, path(name, "/write"), Some(body), ANSWER_WITHIN).await
    }

    /// Has every worker compare its file with the feed.
    pub async fn verify(&self, name: &str) -> Result<Value, ClientError> {
        self.call(Method::POST, path(name, "/verify"), Some(json!({})), ORDER_WITHIN).await
    }

    /// Has every worker run `ANALYZE` on its file.
    pub async fn analyze(&self, name: &str) -> Result<Value, ClientError> {
        self.call(Method::POST, path(name, "/analyze"), Some(json!({})), ORDER_WITHIN).await
    }

    /// Ends a stop after a lost tail: with the store's state, or with the file of a worker.
    pub async fn resolve(&self, name: &str, worker: Option<u64>) -> Result<Value, ClientError> {
        let body = match worker {
            None => json!({ "accept": true }),
            Some(id) => json!({ "from_worker": id }),
        };
        self.call(Method::POST, path(name, "/resolve"), Some(body), ORDER_WITHIN).await
    }

    /// Writes the database into a file that does not exist yet. Returns the position that it is of.
    pub async fn backup(
        &self,
        name: &str,
        to: &Path,
        told: impl FnMut(TransferProgress),
    ) -> Result<String, TransferError> {
        transfer::download(&self.client, &path(name, "/backup"), to, told).await
    }

    /// Begins a new era of the database with this file. Returns its position.
    pub async fn restore(
        &self,
        name: &str,
        from: &Path,
        told: impl Fn(TransferProgress) + Send + Sync + 'static,
    ) -> Result<Value, TransferError> {
        transfer::upload(&self.client, &path(name, "/backup"), from, told).await
    }

    async fn call(
        &self,
        method: Method,
        path: String,
        body: Option<Value>,
        within: Duration,
    ) -> Result<Value, ClientError> {
        let mut connection = Connection::new(self.client.clone(), within);
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let reply = connection.send(method, &path, &[], body).await?;
        read_reply(self.client.url(), &reply)
    }
}

/// The path of a call. A name is one segment of it, whatever its characters.
fn path(name: &str, rest: &str) -> String {
    let Ok(mut url) = Url::parse("http://node") else { return String::new() };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.extend(["db", name]);
    }
    format!("{}{rest}", url.path())
}

/// The JSON of a success, or the node's words.
fn read_reply(url: &str, reply: &Reply) -> Result<Value, ClientError> {
    let told: Result<Value, _> = serde_json::from_slice(&reply.body);
    let unreadable = |reason: String| ClientError::Unreadable { url: url.to_owned(), reason };
    match told {
        Ok(told) if reply.status.is_success() => Ok(told),
        Ok(told) if told["detail"].is_string() => Err(ClientError::Refused {
            status: reply.status.as_u16(),
            kind: last_word(told["type"].as_str().unwrap_or_default()),
            detail: told["detail"].as_str().unwrap_or_default().to_owned(),
        }),
        Ok(_) => Err(unreadable(format!("status {}", reply.status))),
        Err(error) => Err(unreadable(format!("status {}: {error}", reply.status))),
    }
}

/// The last part of `urn:consort:problem:KIND`.
fn last_word(urn: &str) -> String {
    urn.rsplit(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use hyper::header::HeaderMap;

    use super::*;

    fn reply(status: StatusCode, body: &str) -> Reply {
        Reply { status, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
    }

    #[test]
    fn a_name_is_one_segment_of_the_path() {
        assert_eq!(path("notes", "/backup"), "/db/notes/backup");
        assert_eq!(path("a/b", ""), "/db/a%2Fb");
    }

    #[test]
    fn an_answer_is_its_json_or_the_nodes_words() {
        let read = |status, body| read_reply("http://h", &reply(status, body));
        assert_eq!(read(StatusCode::OK, r#"{"a":1}"#), Ok(json!({ "a": 1 })));
        let problem = r#"{"type":"urn:consort:problem:db-request","detail":"no such table: t"}"#;
        let refused = ClientError::Refused {
            status: 400,
            kind: "db-request".into(),
            detail: "no such table: t".into(),
        };
        assert_eq!(read(StatusCode::BAD_REQUEST, problem), Err(refused));
        for (status, body) in [
            (StatusCode::OK, "<html>"),
            (StatusCode::BAD_GATEWAY, "x"),
            (StatusCode::NOT_FOUND, "{}"),
        ] {
            let error = read(status, body).unwrap_err();
            assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
        }
    }
}
