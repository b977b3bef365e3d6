//! Consort: a node in its own folder, with the two views of the example.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process};
use futures::future::try_join_all;
use tempfile::TempDir;
use tokio::time::sleep;

use super::datagrams::Receiver;
use super::lines::Lines;

/// Posts under way at once.
const POSTS: usize = 4;

/// How often it is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Many times what anything should take.
const WITHIN: Duration = Duration::from_secs(300);

/// A start takes less than a second.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Without a gate: all lines are there at once, and what is measured is how soon they are in the views.
const CONFIG: &str = r#"
[log]
level = "warn"
[stream.events]
udp = "127.0.0.1:UDP"
udp_buffer = "32MiB"
form = "line"
gate = "off"
key = ["event_type", "product"]
[view.unique_user_event]
from = "events"
by = ["event_type", "product"]
window = "1m"
distinct = "value"
[view.cumulative_user_event]
from = "events"
by = ["event_type", "product"]
window = "1m"
distinct = ["value", "_time"]
"#;

/// A node of its own.
pub(super) struct Node {
    _process: Process,
    address: String,
    udp: Port,
    folder: TempDir,
}

fn program() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("consort");
    ensure!(path.exists(), "{} is not built: cargo build --release", path.display());
    Ok(path)
}

impl Node {
    /// Starts it with the two views of the example, on this engine or one of its own.
    pub(super) async fn start(engine: Option<&str>) -> Result<Node> {
        Node::with(CONFIG, engine).await
    }

    /// Starts it with these settings, and waits until it is ready.
    pub(super) async fn with(config: &str, engine: Option<&str>) -> Result<Node> {
        let folder = tempfile::Builder::new().prefix("consort-events-").tempdir()?;
        let (http, udp) = (Port::claim(), Port::claim());
        let file = folder.path().join("consort.toml");
        fs::write(&file, config.replace("UDP", &udp.number().to_string()))?;
        let mut command = Command::new(program()?);
        command.arg("serve").arg("-c").arg(file);
        command.args(["--listen", &format!("127.0.0.1:{}", http.number())]);
        let own = format!("embedded:{}", folder.path().join("data").display());
        command.args(["--engine", engine.unwrap_or(&own)]);
        let process = Process::start(&command, &folder.path().join("log"));
        let address = format!("http://127.0.0.1:{}", http.number());
        let node = Node { _process: process, address, udp, folder };
        let began = Instant::now();
        while node.get("/readyz").await.is_err() {
            let said = || fs::read_to_string(node.folder.path().join("log")).unwrap_or_default();
            ensure!(began.elapsed() < READY_WITHIN, "the node does not become ready:\n{}", said());
            sleep(Duration::from_millis(50)).await;
        }
        Ok(node)
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut connection = Connection::new(Client::new(&self.address, None)?, WITHIN);
        let reply = connection.send(Method::GET, path, &[], "").await?;
        ensure!(reply.status == 200, "{path}: {}", reply.status);
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// A figure of `/metrics`.
    async fn figure(&self, name: &str) -> Result<u64> {
        let text = self.get("/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default() as u64)
    }

    /// Seconds until both views have these lines, and say so group by group.
    pub(super) async fn write(&self, lines: &Lines) -> Result<f64> {
        let bodies = lines.parts(POSTS);
        let began = Instant::now();
        let posts = bodies.into_iter().map(|body| async move {
            let mut connection = Connection::new(Client::new(&self.address, None)?, WITHIN);
            let reply = connection.send(Method::POST, "/write?db=events", &[], body).await?;
            ensure!(reply.status == 204, "{}", String::from_utf8_lossy(&reply.body));
            Ok(())
        });
        try_join_all(posts).await?;
        self.applied(lines.count as u64, began).await?;
        let seconds = began.elapsed().as_secs_f64();
        for view in ["unique_user_event", "cumulative_user_event"] {
            let answer: serde_json::Value =
                serde_json::from_str(&self.get(&format!("/views/{view}?limit=100")).await?)?;
            let groups = answer["groups"].as_array().context("groups")?;
            let sum: u64 = groups.iter().filter_map(|group| group["value"].as_u64()).sum();
            ensure!(sum == lines.count as u64, "{view}: {sum} of {}", lines.count);
        }
        Ok(seconds)
    }

    /// Writes some lines.
    pub(super) async fn post(&self, lines: String) -> Result<()> {
        let mut connection = Connection::new(Client::new(&self.address, None)?, WITHIN);
        let reply = connection.send(Method::POST, "/write?db=events", &[], lines).await?;
        ensure!(reply.status == 204, "{}", String::from_utf8_lossy(&reply.body));
        Ok(())
    }

    async fn applied(&self, wanted: u64, began: Instant) -> Result<()> {
        while !self.has_applied(wanted).await? {
            ensure!(began.elapsed() < WITHIN, "the views do not catch up");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Whether both views have so many lines.
    async fn has_applied(&self, wanted: u64) -> Result<bool> {
        for view in ["unique_user_event", "cumulative_user_event"] {
            let name = format!("consort_view_events{{view=\"{view}\",outcome=\"applied\"}}");
            if self.figure(&name).await? < wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn dropped(&self) -> Result<u64> {
        let text = self.get("/metrics").await?;
        let drops = text.lines().filter(|line| line.starts_with("consort_udp_dropped_total"));
        Ok(drops.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }
}

impl Receiver for Node {
    fn port(&self) -> u16 {
        self.udp.number()
    }

    /// The kernel tells of what it dropped with a later datagram.
    async fn came_through(&self, events: usize) -> Result<bool> {
        let began = Instant::now();
        while !self.has_applied(events as u64).await? {
            if self.dropped().await? > 0 {
                return Ok(false);
            }
            ensure!(began.elapsed() < WITHIN, "the views do not catch up, and nothing was dropped");
            sleep(LOOK_EVERY).await;
        }
        Ok(true)
    }
}
