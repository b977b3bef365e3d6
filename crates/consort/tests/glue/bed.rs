//! A node with collections, and a client of it.

use std::time::Duration;

use bytes::Bytes;
use consort::Config;
use consort::config::{ConfigFile, Sources};
use consort_client::{Client, Connection, Method, Reply};
use serde_json::{Value, json};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Headers of a request.
pub(crate) type Headers<'a> = &'a [(&'static str, &'a str)];

pub(crate) const MERGE: Headers<'_> = &[("content-type", "application/merge-patch+json")];
pub(crate) const PATCH: Headers<'_> = &[("content-type", "application/json-patch+json")];
pub(crate) const XML: Headers<'_> = &[("content-type", "application/xml")];
pub(crate) const XML_PATCH: Headers<'_> = &[("content-type", "application/xml-patch+xml")];
pub(crate) const LINES: Headers<'_> = &[("content-type", "application/x-ndjson")];

/// A collection of each format, and one of each behaviour.
const COLLECTIONS: &str = "
    [glue.content]
    format = 'json'
    partitions = 2
    history = 20
    gap_for = '60s'
    [glue.guides]
    format = 'xml'
    partitions = 2
    [glue.strict]
    format = 'json'
    partitions = 1
    absent = 'reject'
    on_reject = 'halt'
    [glue.exact]
    format = 'json'
    partitions = 1
    on_gap = 'reject'
    gap_for = '100ms'
    [glue.plain]
    format = 'json'
    partitions = 1
    max_document = '1KiB'
    gap_for = '100ms'
";

/// A node in this process, which keeps everything in memory.
pub(crate) struct GlueNode(consort::Node);

impl GlueNode {
    pub(crate) async fn start() -> GlueNode {
        GlueNode::start_with(COLLECTIONS).await
    }

    pub(crate) async fn start_with(declarations: &str) -> GlueNode {
        let settings = "[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = 'memory:'\nshards = 4\n";
        GlueNode::start_as(&format!("{settings}{declarations}")).await
    }

    pub(crate) async fn start_as(text: &str) -> GlueNode {
        GlueNode::try_start(text).await.unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// A node, or why it does not start.
    pub(crate) async fn try_start(text: &str) -> Result<GlueNode, String> {
        let file = ConfigFile { name: "test".into(), text: text.to_owned() };
        let sources = Sources { file: Some(file), ..Sources::default() };
        let config = Config::resolve(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        let node = consort::Node::start(config).await;
        node.map(GlueNode).map_err(|error| error.to_string())
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.0.address()
    }

    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }

    pub(crate) fn editor(&self) -> Editor {
        self.editor_with(None)
    }

    /// A client with this access token.
    pub(crate) fn editor_with(&self, token: Option<&str>) -> Editor {
        Editor::at(&format!("http://{}", self.0.address()), token)
    }
}

/// A client with one connection.
pub(crate) struct Editor(Connection);

impl Editor {
    pub(crate) fn at(url: &str, token: Option<&str>) -> Editor {
        let client = Client::new(url, token);
        Editor(Connection::new(client.expect("an address"), PATIENCE))
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Reply {
        let sent = self.0.send(method, path, headers, body).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Puts a JSON document and waits until it is applied.
    pub(crate) async fn put(&mut self, path: &str, document: &Value) -> Reply {
        let path = format!("{path}?wait=applied");
        self.send(Method::PUT, &path, &[], document.to_string()).await
    }

    /// Merges a patch and waits until it is applied.
    pub(crate) async fn merge(&mut self, path: &str, patch: &Value) -> Reply {
        let join = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{join}wait=applied");
        self.send(Method::PATCH, &path, MERGE, patch.to_string()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_with(&mut self, path: &str, headers: Headers<'_>) -> Reply {
        self.send(Method::GET, path, headers, "").await
    }

    /// A list or a document that is there.
    pub(crate) async fn json(&mut self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", text(&reply));
        json(&reply)
    }

    /// Checks promise 7 for a collection, of all tenants together, and gives its counters.
    pub(crate) async fn counters(&mut self, collection: &str) -> Value {
        let overview = self.json("/glue").await;
        let all = overview["collections"].as_array().expect("collections");
        let found = all.iter().find(|one| one["collection"] == collection).expect("the collection");
        let counters = &found["counters"];
        let number = |name: &str| counters[name].as_i64().expect("a number");
        let parts = ["applied", "repeats", "rejected", "held", "queued"].map(number);
        assert_eq!(number("received"), parts.iter().sum::<i64>(), "{counters}");
        counters.clone()
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

pub(crate) fn json(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", text(reply)))
}

/// Checks that a piece was applied as this version.
#[track_caller]
pub(crate) fn is_applied(reply: &Reply, version: u64) {
    assert_eq!(reply.status, 200, "{}", text(reply));
    let said = json(reply);
    assert_eq!((&said["state"], &said["version"]), (&json!("applied"), &json!(version)), "{said}");
}

/// Checks that an answer is a problem of this kind which says these words.
#[track_caller]
pub(crate) fn is_problem(reply: &Reply, status: u16, kind: &str, words: &[&str]) {
    let said = text(reply);
    assert_eq!(reply.status.as_u16(), status, "{said}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{said}");
    let problem = json(reply);
    assert_eq!(problem["type"], format!("urn:consort:problem:{kind}"), "{said}");
    assert_eq!(problem["status"], status, "{said}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    for word in words {
        assert!(detail.contains(word), "'{word}' is not said: {said}");
    }
}
