//! The node that takes the pieces: the real program, as a process of its own.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process};
use serde_json::Value;
use tempfile::TempDir;

/// A node opens its store and takes its roles before it is ready, on a machine that may be busy.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// An answer that takes longer is a failure of the run.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Short, so that a node that joins gets its share soon.
const CLUSTER: &str = "[cluster]\nlease = \"2s\"\nheartbeat = \"200ms\"\n";

/// The largest quota: one tenant is all there is.
const QUOTA: &str = "tenant_pieces = 1000000\ntenant_bytes = \"16MiB\"\ngate = \"off\"";

const CONFIG: &str = r#"
[log]
level = "warn"
[http]
listen = "LISTEN"
max_connections = 4096
[engine]
ENGINE
[glue.xml]
format = "xml"
QUOTA
[glue.bench]
format = "json"
"#;

/// Where a node keeps its state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ground<'a> {
    /// In its own folder.
    Embedded,
    /// The log on RabbitMQ and the store on Redis.
    Brokers { redis: &'a str, broker: &'a str },
    /// Both on Redis, where several nodes share them.
    Redis(&'a str),
}

/// A node, up as long as this value.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) address: SocketAddr,
    /// Pieces that were sent and are to be applied.
    sent: AtomicU64,
    process: Process,
    _port: Port,
    /// After the process, which writes there until it ends.
    _folder: TempDir,
}

impl Node {
    /// Starts a node without quotas; it is ready when this returns, and owns all roles.
    pub(super) async fn start(ground: Ground<'_>) -> Result<Node> {
        Node::start_with(ground, "").await
    }

    /// The same, with more settings of the collection.
    pub(super) async fn start_with(ground: Ground<'_>, more: &str) -> Result<Node> {
        Node::start_as(ground, &format!("{QUOTA}\n{more}")).await
    }

    /// Starts a node with these settings of the collection.
    pub(super) async fn start_as(ground: Ground<'_>, settings: &str) -> Result<Node> {
        let program = std::env::current_exe()?.with_file_name("consort");
        ensure!(program.is_file(), "there is no program 'consort' beside this one; build both");
        let port = Port::claim();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let folder = tempfile::Builder::new().prefix("consort-glue-").tempdir()?;
        let engine = match ground {
            Ground::Embedded => {
                format!("url = \"embedded:{}\"", folder.path().join("data").display())
            }
            Ground::Brokers { redis, broker } => {
                format!("url = \"{redis}\"\nbroker = \"{broker}\"\nnamespace = \"glue\"")
            }
            Ground::Redis(redis) => {
                format!("url = \"{redis}\"\nnamespace = \"glue\"\npartitions = 12\n{CLUSTER}")
            }
        };
        let text = CONFIG.replace("LISTEN", &address.to_string()).replace("ENGINE", &engine);
        let text = format!("{}{settings}\n", text.replace("QUOTA", QUOTA));
        let file = folder.path().join("consort.toml");
        fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("-c").arg(file);
        let process = Process::start(&command, &folder.path().join("log"));
        let client = Client::new(&format!("http://{address}"), None)?;
        let sent = AtomicU64::new(0);
        let node = Node { client, address, sent, process, _port: port, _folder: folder };
        let started = Instant::now();
        while !node.is_ready().await {
            let output = node.process.output();
            ensure!(started.elapsed() < READY_WITHIN, "the node is not ready:\n{output}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(node)
    }

    pub(super) fn connection(&self) -> Connection {
        Connection::new(self.client.clone(), ANSWER_WITHIN)
    }

    async fn is_ready(&self) -> bool {
        let ready = self.connection().send(Method::GET, "/readyz", &[], "").await;
        let Ok(cluster) = self.client.cluster().await else { return false };
        ready.is_ok_and(|reply| reply.status.is_success())
            && cluster.status.roles.iter().all(|role| role.ready)
    }

    /// Counts pieces that were stored.
    pub(super) fn note_sent(&self, pieces: u64) {
        self.sent.fetch_add(pieces, Ordering::Relaxed);
    }

    /// Waits until `pieces` more, and all that were sent before, are applied. None may have been rejected.
    pub(super) async fn until_applied(&self, pieces: u64) -> Result<()> {
        self.note_sent(pieces);
        self.until_idle().await
    }

    /// Waits until all pieces that were sent are applied.
    pub(super) async fn until_idle(&self) -> Result<()> {
        let (started, mut connection) = (Instant::now(), self.connection());
        let sent = self.sent.load(Ordering::Relaxed);
        loop {
            let reply =
                connection.send(Method::GET, "/glue", &[], "").await.context("GET /glue")?;
            let shown: Value = serde_json::from_slice(&reply.body)?;
            let collections = shown["collections"].as_array().context("collections")?;
            let count = |name: &str| -> u64 {
                let counters = collections.iter().map(|one| &one["counters"][name]);
                counters.filter_map(Value::as_u64).sum()
            };
            ensure!(count("rejected") == 0, "pieces were rejected: {shown}");
            if count("applied") >= sent {
                return Ok(());
            }
            ensure!(started.elapsed() < ANSWER_WITHIN, "{sent} were sent, and of them {shown}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Hands its roles over, and ends.
    pub(super) async fn leave(mut self) {
        self.process.terminate(READY_WITHIN).await;
    }

    /// Bytes that the process has had written to the disk.
    pub(super) fn written(&self) -> Result<u64> {
        let told = fs::read_to_string(format!("/proc/{}/io", self.process.pid()))?;
        let line = told.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(line.context("/proc/PID/io has no write_bytes")?.trim().parse()?)
    }
}
