//! Calls about the documents of a collection.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::client::Client;
use crate::connection::{Connection, Reply};
use crate::error::ClientError;

/// How long an answer may take: longer than a node waits for the outcome of a piece.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The header that names the tenant.
const TENANT: &str = "consort-tenant";

/// A client of one collection, with one connection.
#[derive(Debug)]
pub struct GlueClient {
    connection: Connection,
    collection: String,
    tenant: Option<String>,
}

/// A document as it was read.
#[derive(Clone, Debug)]
pub struct ReadDocument {
    /// The document.
    pub text: Bytes,
    /// Life and version, in quotes.
    pub etag: String,
    /// `live`, `halted` or `releasing`; empty for an old version.
    pub state: String,
}

/// A piece to send.
#[derive(Clone, Debug)]
pub struct SentPiece {
    /// `PUT`, `PATCH` or `DELETE`.
    pub method: Method,
    /// The type of the content; empty for a delete.
    pub content_type: String,
    /// The document or patch.
    pub content: Bytes,
    /// The sender's name and its number for the piece.
    pub source: Option<(String, u64)>,
    /// The idempotency key.
    pub key: Option<String>,
    /// The ETag that the document must have, or `*`.
    pub if_match: Option<String>,
    /// Whether the node only says what the piece would do.
    pub dry_run: bool,
}

/// What a node said of a piece or a decision. Rejections are errors.
#[derive(Clone, Debug, PartialEq)]
pub struct PieceAnswer {
    /// `applied`, `accepted`, `held`, `repeat`, `discarded`, or `unchanged` for a delete without a document.
    pub state: String,
    /// The whole answer.
    pub answer: Value,
    /// Whether the piece came before, and this is its first outcome.
    pub is_repeat: bool,
}

#[derive(Deserialize)]
struct Problem {
    r#type: String,
    detail: String,
}

impl Client {
    /// A client of a collection, for one tenant if one is named.
    pub fn glue(&self, collection: &str, tenant: Option<&str>) -> GlueClient {
        GlueClient {
            connection: Connection::new(self.clone(), ANSWER_WITHIN),
            collection: collection.to_owned(),
            tenant: tenant.map(str::to_owned),
        }
    }
}

impl GlueClient {
    /// Reads a document, as it is now or at a version.
    pub async fn document(
        &mut self,
        id: &str,
        version: Option<u64>,
    ) -> Result<ReadDocument, ClientError> {
        let query = version.map(|version| ("version", version.to_string()));
        let path = self.path(&[id], query);
        let reply = self.send(Method::GET, &path, &[], Bytes::new()).await?;
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        Ok(ReadDocument { etag: header("etag"), state: header("consort-state"), text: reply.body })
    }

    /// Sends a piece, and waits until it is applied or rejected.
    pub async fn piece(&mut self, id: &str, piece: SentPiece) -> Result<PieceAnswer, ClientError> {
        let SentPiece { method, content_type, content, source, key, if_match, dry_run } = piece;
        let wait = match dry_run {
            true => ("dry_run", "true".to_owned()),
            false => ("wait", "applied".to_owned()),
        };
        let numbers = source
            .into_iter()
            .flat_map(|(source, seq)| [("source", source), ("seq", seq.to_string())]);
        let path = self.path(&[id], [wait].into_iter().chain(numbers));
        let mut headers = Vec::new();
        if !content_type.is_empty() {
            headers.push(("content-type", &*content_type));
        }
        headers.extend(key.as_deref().map(|key| ("idempotency-key", key)));
        headers.extend(if_match.as_deref().map(|tag| ("if-match", tag)));
        let reply = self.send(method, &path, &headers, content).await?;
        self.outcome(&reply)
    }

    /// Decides on the piece that halted a document: it is applied again, or its replacement (`form` and `piece`).
    pub async fn retry(
        &mut self,
        id: &str,
        place: &str,
        replacement: Option<(&str, Value)>,
    ) -> Result<PieceAnswer, ClientError> {
        let mut decision = json!({ "place": place });
        if let Some((form, piece)) = replacement {
            decision["form"] = form.into();
            decision["piece"] = piece;
        }
        self.decide(id, "retry", &decision).await
    }

    /// Decides on the piece that halted a document: it is rejected for good.
    pub async fn discard(&mut self, id: &str, place: &str) -> Result<PieceAnswer, ClientError> {
        self.decide(id, "discard", &json!({ "place": place })).await
    }

    /// A page of a document's versions, newest first.
    pub async fn versions(
        &mut self,
        id: &str,
        limit: usize,
        after: Option<u64>,
    ) -> Result<Value, ClientError> {
        let after = after.map(|after| ("after", after.to_string()));
        let query = [("limit", limit.to_string())].into_iter().chain(after);
        let path = self.path(&[id, "versions"], query);
        self.json(&path).await
    }

    /// A page of the reject list, of one document if an id is given.
    pub async fn rejects(
        &mut self,
        id: Option<&str>,
        limit: usize,
        after: Option<&str>,
    ) -> Result<Value, ClientError> {
        let id = id.map(|id| ("id", id.to_owned()));
        let after = after.map(|after| ("after", after.to_owned()));
        let query = [("limit", limit.to_string())].into_iter().chain(id).chain(after);
        let path = self.path(&["rejects"], query);
        self.json(&path).await
    }

    async fn decide(
        &mut self,
        id: &str,
        decision: &str,
        body: &Value,
    ) -> Result<PieceAnswer, ClientError> {
        let path = self.path(&[id, decision], [("wait", "applied".to_owned())]);
        let body = Bytes::from(body.to_string());
        let reply = self.send(Method::POST, &path, &[], body).await?;
        self.outcome(&reply)
    }

    async fn json(&mut self, path: &str) -> Result<Value, ClientError> {
        let reply = self.send(Method::GET, path, &[], Bytes::new()).await?;
        self.parsed(&reply)
    }

    fn outcome(&self, reply: &Reply) -> Result<PieceAnswer, ClientError> {
        let is_repeat = reply.header("consort-repeat").is_some();
        if reply.body.is_empty() {
            return Ok(PieceAnswer {
                state: "unchanged".to_owned(),
                answer: Value::Null,
                is_repeat,
            });
        }
        let answer = self.parsed(reply)?;
        let state = answer["state"].as_str().unwrap_or_default().to_owned();
        Ok(PieceAnswer { state, answer, is_repeat })
    }

    fn parsed(&self, reply: &Reply) -> Result<Value, ClientError> {
        serde_json::from_slice(&reply.body).map_err(|error| self.unreadable(error))
    }

    /// Sends a request; anything but a success is an error in the node's words.
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Reply, ClientError> {
        let tenant = self.tenant.clone();
        let mut headers = headers.to_vec();
        headers.extend(tenant.as_deref().map(|tenant| (TENANT, tenant)));
        let reply = self.connection.send(method, path, &headers, body).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        match serde_json::from_slice(&reply.body) {
            Ok(Problem { r#type, detail }) => {
                let kind = r#type.rsplit(':').next().unwrap_or_default().to_owned();
                Err(ClientError::Refused { status: reply.status.as_u16(), kind, detail })
            }
            Err(_) => Err(self.unreadable(format!("status {}", reply.status))),
        }
    }

    fn unreadable(&self, reason: impl fmt::Display) -> ClientError {
        let url = self.connection.url().to_owned();
        ClientError::Unreadable { url, reason: reason.to_string() }
    }

    /// The path below the collection, each segment in percent code.
    fn path(
        &self,
        below: &[&str],
        query: impl IntoIterator<Item = (&'static str, String)>,
    ) -> String {
        let Ok(mut url) = Url::parse("http://node") else { return String::new() };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(["glue", self.collection.as_str()]).extend(below);
        }
        for (name, value) in query {
            url.query_pairs_mut().append_pair(name, &value);
        }
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_the_path() {
        let client = Client::new("http://h", None).unwrap().glue("content", None);
        let query = [("source", "a b".to_owned()), ("seq", "7".to_owned())];
        let path = client.path(&["crid://a/ä?1", "versions"], query);
        assert_eq!(path, "/glue/content/crid:%2F%2Fa%2F%C3%A4%3F1/versions?source=a+b&seq=7");
        assert_eq!(client.path(&["d"], []), "/glue/content/d");
    }
}
