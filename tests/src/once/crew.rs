//! Three nodes with the space `items` on one Redis, each of them to be killed, paused or cut off.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use consort_client::{Client, Connection, Method};
use consort_testbed::{
    Direction, Fsync, Port, Process, Proxy, RedisOptions, RedisServer, eventually,
};
use futures::future::join_all;
use tempfile::TempDir;

use super::herd::{Herd, Said};
use super::upstream::Upstream;

/// How long a trial waits for what must happen. It bounds a hang, and measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long each answer of the upstream takes.
pub const UPSTREAM_DELAY: Duration = Duration::from_millis(200);

/// The nodes.
pub const NODES: usize = 3;

/// Values that outlast any trial, so that calls can be counted.
pub const LASTING: &str = "fresh_for = '1h'\nerrors_for = '1h'\nrefresh_early = false\n";

/// A node.
#[derive(Debug)]
struct Node {
    command: Command,
    process: Process,
    http: Port,
    line: Option<Proxy>,
    log: PathBuf,
}

/// The nodes, and what they stand on.
#[derive(Debug)]
pub struct Crew {
    nodes: Vec<Node>,
    /// Their store. It writes through, so that a kill loses nothing.
    pub redis: RedisServer,
    /// Whom they ask.
    pub upstream: Upstream,
    _folder: TempDir,
}

impl Crew {
    /// Three nodes of `program`, with these settings of `[once.items]`; further spaces may follow them.
    pub async fn start(program: &str, items: &str) -> Crew {
        Crew::start_with(program, items, false).await
    }

    /// The same, each with a line to Redis that can be silenced.
    pub async fn start_on_lines(program: &str, items: &str) -> Crew {
        Crew::start_with(program, items, true).await
    }

    async fn start_with(program: &str, items: &str, lines: bool) -> Crew {
        let folder = tempfile::Builder::new().prefix("consort-once-").tempdir();
        let folder = folder.expect("a folder can be made");
        let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Always)).await;
        let upstream = Upstream::start(program, UPSTREAM_DELAY, folder.path()).await;
        let mut nodes = Vec::new();
        for at in 0..NODES {
            let store = SocketAddr::from(([127, 0, 0, 1], redis.port()));
            let line = if lines { Some(Proxy::start(store).await) } else { None };
            let store = line.as_ref().map_or(store, Proxy::address);
            let http = Port::claim();
            let config = format!(
                "[node]\nid = 'node-{at}'\n[http]\nlisten = '127.0.0.1:{}'\n\
                 [engine]\nurl = 'redis://{store}/0'\n\
                 [once.items]\nupstream = 'http://{}/items/{{path}}?{{query}}'\n{items}",
                http.number(),
                upstream.address(),
            );
            let file = folder.path().join(format!("{at}.toml"));
            fs::write(&file, config).expect("the config can be written");
            let mut command = Command::new(program);
            command.args(["serve", "-c"]).arg(&file).current_dir(folder.path());
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("CONSORT_") {
                    command.env_remove(name);
                }
            }
            let log = folder.path().join(format!("{at}.log"));
            let process = Process::start(&command, &log);
            nodes.push(Node { command, process, http, line, log });
        }
        let mut crew = Crew { nodes, redis, upstream, _folder: folder };
        crew.is_well().await;
        crew
    }

    /// Where a node is.
    pub fn address(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.nodes[at].http.number())
    }

    /// So many clients, spread over all nodes.
    pub async fn herd(&self, size: usize) -> Herd {
        let nodes: Vec<(usize, String)> = (0..NODES).map(|at| (at, self.address(at))).collect();
        Herd::gather(&nodes, size).await
    }

    /// A herd for each node, of so many clients.
    pub async fn herds(&self, size: usize) -> Vec<Herd> {
        let nodes = (0..NODES).map(|at| (at, self.address(at)));
        join_all(nodes.map(|node| async move { Herd::gather(&[node], size).await })).await
    }

    /// SIGKILL.
    pub async fn kill(&mut self, at: usize) {
        self.nodes[at].process.kill().await;
    }

    /// SIGSTOP.
    pub fn pause(&mut self, at: usize) {
        self.nodes[at].process.pause();
    }

    /// SIGCONT.
    pub fn resume(&mut self, at: usize) {
        self.nodes[at].process.resume();
    }

    /// From here on nothing comes or goes between a node and Redis, and neither is told.
    ///
    /// # Panics
    ///
    /// If it was not started on a line of its own.
    pub fn silence(&self, at: usize) {
        let line = self.nodes[at].line.as_ref().expect("the node has a line of its own");
        line.swallow(Direction::ToServer);
        line.swallow(Direction::ToClient);
    }

    /// Ends that.
    pub fn heal(&self, at: usize) {
        self.nodes[at].line.iter().for_each(Proxy::heal);
    }

    /// Starts a killed node again, and waits until it is ready.
    pub async fn restart(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.process = Process::start(&node.command, &node.log);
        self.is_ready(at).await;
    }

    /// Waits until every node is ready.
    pub async fn is_well(&mut self) {
        for at in 0..NODES {
            self.is_ready(at).await;
        }
    }

    async fn is_ready(&mut self, at: usize) {
        let address = self.address(at);
        let process = &mut self.nodes[at].process;
        eventually("the node is ready", PATIENCE, || {
            assert!(process.is_running(), "it ended:\n{}", process.output());
            let address = address.clone();
            async move { send(at, &address, Method::GET, "/readyz", "").await.status() == 200 }
        })
        .await;
    }

    /// Asks one node.
    pub async fn get(&self, at: usize, path: &str) -> Said {
        send(at, &self.address(at), Method::GET, path, "").await
    }

    /// Posts to one node.
    pub async fn post(&self, at: usize, path: &str, body: &str) -> Said {
        send(at, &self.address(at), Method::POST, path, body).await
    }

    /// A figure of a node, as its metrics name it after `consort_once_`; 0 if it is not there.
    pub async fn figure(&self, at: usize, name: &str) -> u64 {
        let said = self.get(at, "/metrics").await;
        assert_eq!(said.status(), 200, "{said:?}");
        let body = said.body();
        let begin = format!("consort_once_{name} ");
        let line = String::from_utf8_lossy(&body).lines().find_map(|line| {
            let value = line.strip_prefix(&begin)?;
            Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value}")))
        });
        line.unwrap_or_default()
    }

    /// The same of all nodes.
    pub async fn figures(&self, name: &str) -> [u64; NODES] {
        let mut figures = [0; NODES];
        for (at, figure) in figures.iter_mut().enumerate() {
            *figure = self.figure(at, name).await;
        }
        figures
    }

    /// Which node alone has begun a computation, since they had begun `before`.
    pub async fn holder(&self, before: [u64; NODES]) -> usize {
        let now = self.figures("computations_total").await;
        let begun: Vec<usize> = (0..NODES).filter(|at| now[*at] > before[*at]).collect();
        assert_eq!(begun.len(), 1, "one node computes: {before:?}, {now:?}");
        begun[0]
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // What the nodes said is worth most when the trial failed.
        if std::thread::panicking() {
            for node in &self.nodes {
                let said = node.process.output();
                let lines: Vec<&str> = said.lines().rev().take(20).collect();
                eprintln!("a node said last, newest first:\n{}", lines.join("\n"));
            }
        }
    }
}

async fn send(node: usize, address: &str, method: Method, path: &str, body: &str) -> Said {
    let client = Client::new(address, None).expect("an address");
    let sent = Connection::new(client, PATIENCE).send(method, path, &[], body.to_owned()).await;
    Said { node, reply: sent.map_err(|error| error.to_string()) }
}
