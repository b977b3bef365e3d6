//! Nodes with one database: the real program, each a process of its own.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Fsync, Port, Process, RedisOptions, RedisServer};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A node opens its store and takes its roles before it is ready, on a machine that may be busy.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// An answer that takes longer is a failure of the run.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Rows of one request while the database is filled.
const FILLED_AT_ONCE: u64 = 500;

pub(super) const CREATE: &str = "CREATE TABLE points (id INTEGER PRIMARY KEY, value TEXT NOT NULL)";

const CONFIG: &str = r#"
[node]
id = "NODE"
data = "FOLDER"
[log]
level = "warn"
[http]
listen = "LISTEN"
max_connections = 4096
[engine]
url = "ENGINE"
[db.bench]
readers = { min = 1, max = 1, per_reads = 1000000000, window = "1h" }
"#;

/// Where nodes keep their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// In the folder of the one node.
    Embedded,
    /// On a Redis that flushes every second.
    Redis,
}

/// Nodes of one cluster, up as long as this value.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    _redis: Option<RedisServer>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) process: Process,
    client: Client,
    address: SocketAddr,
    command: Command,
    _port: Port,
    /// After the process, which writes there until it ends.
    folder: TempDir,
}

impl Nodes {
    /// Starts nodes and waits until the database takes writes.
    pub(super) async fn start(ground: Ground, count: usize) -> Result<Nodes> {
        let redis = match ground {
            Ground::Embedded => None,
            Ground::Redis => {
                Some(RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await)
            }
        };
        let url = redis.as_ref().map(RedisServer::url);
        let nodes = (0..count).map(|n| Node::start(&format!("n{n}"), url.as_deref()));
        let nodes = Nodes { nodes: nodes.collect::<Result<_>>()?, _redis: redis };
        nodes.until_written(0, json!([[CREATE]])).await?;
        Ok(nodes)
    }

    pub(super) fn address(&self, n: usize) -> SocketAddr {
        self.nodes[n].address
    }

    pub(super) fn node(&mut self, n: usize) -> &mut Node {
        &mut self.nodes[n]
    }

    pub(super) fn connection(&self, n: usize) -> Connection {
        Connection::new(self.nodes[n].client.clone(), ANSWER_WITHIN)
    }

    /// Fills the table with this many rows.
    pub(super) async fn fill(&self, rows: u64) -> Result<()> {
        let sql = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {FILLED_AT_ONCE}) \
             INSERT INTO points (value) SELECT hex(randomblob(16)) FROM n"
        );
        for _ in 0..rows / FILLED_AT_ONCE {
            self.until_written(0, json!([[sql]])).await?;
        }
        Ok(())
    }

    /// Repeats a write until it is stored.
    pub(super) async fn until_written(&self, n: usize, statements: Value) -> Result<()> {
        let started = Instant::now();
        let body = json!({ "statements": statements }).to_string();
        loop {
            let mut connection = self.connection(n);
            let headers = [("content-type", "application/json")];
            let reply =
                connection.send(Method::POST, "/db/bench/write", &headers, body.clone()).await;
            match reply {
                Ok(reply) if reply.status.as_u16() == 200 => return Ok(()),
                Ok(reply) if reply.status.as_u16() != 503 => {
                    bail!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body))
                }
                _ => {}
            }
            let output = self.nodes[n].process.output();
            ensure!(started.elapsed() < READY_WITHIN, "no write is stored:\n{output}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The workers, as node `n` lists them.
    pub(super) async fn workers(&self, n: usize) -> Result<Vec<Value>> {
        let mut connection = self.connection(n);
        let reply = connection.send(Method::GET, "/db/bench/workers", &[], "").await?;
        let shown: Value = serde_json::from_slice(&reply.body)?;
        Ok(shown["workers"].as_array().context("no list of workers")?.clone())
    }

    /// The node whose worker leads, once one does and so many workers are there.
    pub(super) async fn leader(&self, asked: usize, workers: usize) -> Result<usize> {
        let started = Instant::now();
        loop {
            if let Ok(listed) = self.workers(asked).await
                && listed.len() == workers
                && listed.iter().all(|worker| worker["lag"].as_u64() == Some(0))
                && let Some(leader) = listed.iter().find(|worker| worker["role"] == "leader")
            {
                let place = self.nodes.iter().position(|node| leader["node"] == node.id.as_str());
                return place.context("the leader is on none of these nodes");
            }
            ensure!(started.elapsed() < READY_WITHIN, "the workers are not complete");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Node {
    fn start(id: &str, redis: Option<&str>) -> Result<Node> {
        let program = std::env::current_exe()?.with_file_name("consort");
        ensure!(program.is_file(), "there is no program 'consort' beside this one; build both");
        let port = Port::claim();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let folder = tempfile::Builder::new().prefix("consort-db-").tempdir()?;
        let engine = match redis {
            None => format!("embedded:{}", folder.path().join("data").display()),
            Some(url) => url.to_owned(),
        };
        let text = CONFIG
            .replace("NODE", id)
            .replace("FOLDER", &folder.path().join("node").display().to_string())
            .replace("LISTEN", &address.to_string())
            .replace("ENGINE", &engine);
        let file = folder.path().join("consort.toml");
        fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("-c").arg(file);
        let process = Process::start(&command, &folder.path().join("log"));
        let client = Client::new(&format!("http://{address}"), None)?;
        Ok(Node { id: id.to_owned(), process, client, address, command, _port: port, folder })
    }

    /// Starts the process again after it was killed.
    pub(super) fn restart(&mut self) {
        self.process = Process::start(&self.command, &self.folder.path().join("log"));
    }
}
