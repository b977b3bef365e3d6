//! A node with a database, and a client of it.

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use consort::Config;
use consort::config::{ConfigFile, Sources};
use consort_client::{Client, Connection, Method, Reply};
use serde_json::{Value, json};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const SCHEMA: &str = "
    CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, stars INTEGER);
    CREATE TABLE tags (note INTEGER NOT NULL REFERENCES notes (id), tag TEXT NOT NULL, PRIMARY KEY (note, tag));";

/// A node in this process, which keeps its truth in memory and its files in a folder.
pub(crate) struct DbNode {
    node: consort::Node,
    _folder: tempfile::TempDir,
}

/// A client with one connection.
pub(crate) struct Caller(Connection);

impl DbNode {
    /// A node whose database `notes` has tables and a leader. `settings` stand in its table.
    pub(crate) async fn start(settings: &str) -> DbNode {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = folder.path().join("schema");
        fs::create_dir(&schema).expect("a folder");
        fs::write(schema.join("001.sql"), SCHEMA).expect("a file");
        let text = format!(
            "[node]\ndata = '{}'\n[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = 'memory:'\nshards = 4\n\
             [db.notes]\nschema = '{}'\n{settings}\n",
            folder.path().join("data").display(),
            schema.display()
        );
        let file = ConfigFile { name: "test".into(), text };
        let sources = Sources { file: Some(file), ..Sources::default() };
        let config = Config::resolve(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        let node = consort::Node::start(config).await.expect("a node");
        let ready = tokio::time::timeout(PATIENCE, node.ready()).await;
        ready.expect("the database has a leader and its tables");
        DbNode { node, _folder: folder }
    }

    pub(crate) fn caller(&self) -> Caller {
        let client = Client::new(&format!("http://{}", self.node.address()), None);
        Caller(Connection::new(client.expect("an address"), PATIENCE))
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.node.address()
    }
}

impl Caller {
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let sent = self.0.send(method, path, headers, body).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Value {
        let reply = self.send(Method::GET, path, &[], "").await;
        assert!(reply.status.is_success(), "{path}: {reply:?}");
        body(&reply)
    }

    /// Runs statements that must succeed.
    pub(crate) async fn write(&mut self, statements: Value) -> Value {
        let sent = json!({ "statements": statements }).to_string();
        let reply = self.send(Method::POST, "/db/notes/write", &[], sent).await;
        assert!(reply.status.is_success(), "{reply:?}");
        body(&reply)
    }

    /// The rows of a strong read.
    pub(crate) async fn rows(&mut self, sql: &str) -> Value {
        let sent = json!({ "query": [sql], "consistency": "strong" }).to_string();
        let reply = self.send(Method::POST, "/db/notes/read", &[], sent).await;
        assert!(reply.status.is_success(), "{sql}: {reply:?}");
        body(&reply)["rows"].take()
    }
}

/// The JSON of an answer.
pub(crate) fn body(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error} in {reply:?}"))
}
