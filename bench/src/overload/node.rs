//! The node that is attacked: the real program, with a stream of lines and one of JSON events.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process};
use tempfile::TempDir;

/// A node opens its store and takes its roles before it is ready, on a machine that may be busy.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// An answer that takes longer is a failure of the run.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A node is quiet again when it answers this often in a row within [`QUICK`].
const QUICK_ANSWERS: usize = 50;
const QUICK: Duration = Duration::from_millis(5);

const CONFIG: &str = r#"
[log]
level = "warn"
[http]
listen = "LISTEN"
[engine]
url = "ENGINE"

[stream.lines]
form = "line"
key = "host"
fields = { host = "text", load = "int" }

[view.load]
from = "lines"
by = ["host"]
sum = "load"

[stream.rides]
route = "POST /lifts/{lift}/rides"
key = "lift"
fields = { lift = "int 1..60", time = "int 0..1439" }

[view.rides]
from = "rides"
by = ["lift"]
count = true
"#;

/// Where a node keeps its state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ground<'a> {
    /// In its own folder.
    Embedded,
    /// On a server at this address.
    Redis(&'a str),
}

/// A node, up as long as this value.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) client: Client,
    _process: Process,
    _port: Port,
    /// After the process, which writes there until it ends.
    _folder: TempDir,
}

impl Node {
    /// Starts a node; it is ready when this returns, and owns all roles.
    pub(super) async fn start(ground: Ground<'_>) -> Result<Node> {
        let program = std::env::current_exe()?.with_file_name("consort");
        ensure!(program.is_file(), "there is no program 'consort' beside this one; build both");
        let port = Port::claim();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let folder = tempfile::Builder::new().prefix("consort-overload-").tempdir()?;
        let engine = match ground {
            Ground::Embedded => format!("embedded:{}", folder.path().join("data").display()),
            Ground::Redis(url) => url.to_owned(),
        };
        let text = CONFIG.replace("LISTEN", &address.to_string()).replace("ENGINE", &engine);
        let file = folder.path().join("consort.toml");
        fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("-c").arg(file);
        let process = Process::start(&command, &folder.path().join("log"));
        let client = Client::new(&format!("http://{address}"), None)?;
        let node = Node { client, _process: process, _port: port, _folder: folder };
        let started = Instant::now();
        while !node.is_ready().await {
            let output = node._process.output();
            ensure!(started.elapsed() < READY_WITHIN, "the node is not ready:\n{output}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(node)
    }

    pub(super) fn connection(&self) -> Connection {
        Connection::new(self.client.clone(), ANSWER_WITHIN)
    }

    /// How often each role has changed hands.
    pub(super) async fn epochs(&self) -> Result<BTreeMap<String, u64>> {
        let roles = self.client.cluster().await?.status.roles;
        Ok(roles.into_iter().map(|role| (role.role.to_string(), role.epoch)).collect())
    }

    /// Waits until nothing of an attack is left.
    pub(super) async fn until_quiet(&self) -> Result<()> {
        let (started, mut connection, mut quick) = (Instant::now(), self.connection(), 0);
        while quick < QUICK_ANSWERS {
            let asked = Instant::now();
            connection.send(Method::GET, "/healthz", &[], "").await.context("/healthz")?;
            quick = if asked.elapsed() < QUICK { quick + 1 } else { 0 };
            ensure!(started.elapsed() < ANSWER_WITHIN, "the node does not come to rest");
            tokio::time::sleep(LOOK_EVERY / 4).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        let ready = self.connection().send(Method::GET, "/readyz", &[], "").await;
        let Ok(cluster) = self.client.cluster().await else { return false };
        ready.is_ok_and(|reply| reply.status.is_success())
            && cluster.status.roles.iter().all(|role| role.ready)
    }
}
