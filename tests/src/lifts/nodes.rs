//! The nodes: processes of the program behind a balancer, looked after as an init system would.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use consort_testbed::{Balancer, Port, Process};
use tempfile::TempDir;
use tokio::time::Instant;

use super::servers::Engine;

/// How long a lease lasts, and how often it is renewed: short, so that much happens within a trial.
pub const LEASE: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_millis(200);

/// What a node prints when it has joined.
const JOINED: &str = "listens on http://";

/// The config of the lift rides, relative to this package.
pub const LIFTS: &str = "../examples/lifts.toml";

/// How long a node that is told to stop may take: its own bounds are some thirty seconds.
const STOPPED_WITHIN: Duration = Duration::from_secs(40);

/// The lines of a node's log that a failure shows.
const LINES_SHOWN: usize = 60;

/// What is going on with a node.
#[derive(Debug)]
enum Doing {
    /// It should run.
    Runs,
    /// It was killed, and is to be started again.
    Down { until: Instant },
    /// It was paused.
    Paused { until: Instant },
    /// It was asked to retire.
    Drains,
}

#[derive(Debug)]
struct Node {
    process: Process,
    command: Command,
    port: Port,
    doing: Doing,
    joined: bool,
}

/// All nodes, and what stands before them.
#[derive(Debug)]
pub struct Nodes {
    program: String,
    config: String,
    engine: Engine,
    balancer: Balancer,
    nodes: BTreeMap<String, Node>,
    named: u32,
    folder: Option<TempDir>,
}

impl Nodes {
    /// None yet; they will be processes of `program` on `engine`, with the config at this path, of the package unless it
    /// is absolute.
    pub fn new(
        program: &str,
        config: impl Into<String>,
        engine: Engine,
        balancer: Balancer,
    ) -> Nodes {
        let folder = tempfile::Builder::new().prefix("consort-trial-").tempdir();
        let folder = Some(folder.expect("a folder for logs can be made"));
        let (program, nodes) = (program.into(), BTreeMap::new());
        let config = config.into();
        Nodes { program, config, engine, balancer, nodes, named: 0, folder }
    }

    /// Where clients connect to.
    pub fn balancer(&self) -> SocketAddr {
        self.balancer.address()
    }

    /// Starts a node with an id of its own; it gets its share of connections from now on.
    pub fn add(&mut self) -> String {
        self.named += 1;
        let id = format!("node-{}", self.named);
        let port = Port::claim();
        let mut command = serve(&self.program, &self.config, &id, &port, &self.engine);
        for (setting, time) in [("lease", LEASE), ("heartbeat", HEARTBEAT)] {
            command.args(["--set", &format!("cluster.{setting}={}ms", time.as_millis())]);
        }
        let process = Process::start(&command, &self.log(&id));
        self.balancer.add(socket(&port));
        let node = Node { process, command, port, doing: Doing::Runs, joined: false };
        self.nodes.insert(id.clone(), node);
        id
    }

    /// Those that have joined, and that nothing is being done to.
    pub fn well(&self) -> Vec<String> {
        let well = |node: &Node| node.joined && matches!(node.doing, Doing::Runs);
        self.nodes.iter().filter(|(_, node)| well(node)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether nothing is being done to any of them.
    pub fn all_well(&self) -> bool {
        self.well().len() == self.nodes.len()
    }

    /// Whether it is there, well or not.
    pub fn has(&self, id: &str) -> bool {
        self.nodes.contains_key(id)
    }

    /// Where a node listens.
    pub fn address(&self, id: &str) -> String {
        format!("http://{}", socket(&self.nodes[id].port))
    }

    /// Where all of them listen.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.keys().map(|id| self.address(id)).collect()
    }

    /// SIGKILL; it is started again, with the same id and at the same address, at `until`.
    pub async fn kill(&mut self, id: &str, until: Instant) {
        let node = self.node(id);
        node.process.kill().await;
        node.doing = Doing::Down { until };
    }

    /// SIGSTOP, and SIGCONT at `until`.
    pub fn pause(&mut self, id: &str, until: Instant) {
        let node = self.node(id);
        node.process.pause();
        node.doing = Doing::Paused { until };
    }

    /// It was asked to retire, and is expected to end.
    pub fn retires(&mut self, id: &str) {
        self.node(id).doing = Doing::Drains;
    }

    /// Does what is due, and looks whether all is as it should be.
    ///
    /// # Panics
    ///
    /// If a node ended that should not have, or ended otherwise than it should have.
    pub fn tend(&mut self) {
        let now = Instant::now();
        for id in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let log = self.log(&id);
            let node = self.node(&id);
            match node.doing {
                Doing::Down { until } if until <= now => {
                    node.process = Process::start(&node.command, &log);
                    (node.doing, node.joined) = (Doing::Runs, false);
                }
                Doing::Paused { until } if until <= now => {
                    node.process.resume();
                    node.doing = Doing::Runs;
                }
                _ => {}
            }
            node.joined = node.joined || node.process.output().contains(JOINED);
            if matches!(node.doing, Doing::Down { .. }) || node.process.is_running() {
                continue;
            }
            let (code, output) = (node.process.exit_code(), tail(&node.process.output()));
            let retired = matches!(node.doing, Doing::Drains) && code == Some(0);
            assert!(retired, "{id} ended with {code:?} while {:?}:\n{output}", node.doing);
            let gone = socket(&node.port);
            self.balancer.remove(gone);
            self.nodes.remove(&id);
        }
    }

    /// SIGTERM to all; each must leave in order.
    ///
    /// # Panics
    ///
    /// If one does not.
    pub async fn stop(&mut self) {
        for (id, mut node) in std::mem::take(&mut self.nodes) {
            node.process.terminate(STOPPED_WITHIN).await;
            let code = node.process.exit_code();
            assert_eq!(code, Some(0), "{id} stops:\n{}", tail(&node.process.output()));
        }
    }

    fn log(&self, id: &str) -> std::path::PathBuf {
        let folder = self.folder.as_ref().expect("the folder is there until the end");
        folder.path().join(format!("{id}.log"))
    }

    fn node(&mut self, id: &str) -> &mut Node {
        self.nodes.get_mut(id).unwrap_or_else(|| panic!("there is no {id}"))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // What the nodes said is worth most when the trial failed.
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("the nodes' logs are in {}", folder.keep().display());
        }
    }
}

/// `consort serve` with the config at this path of the package.
pub fn serve(program: &str, config: &str, id: &str, port: &Port, engine: &Engine) -> Command {
    let mut command = Command::new(program);
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join(config);
    command.args(["serve", "--node", id, "--engine", &engine.url, "-c"]).arg(config);
    command.args(["--listen", &socket(port).to_string()]);
    if let Some(broker) = &engine.broker {
        command.args(["--broker", broker]);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSORT_") {
            command.env_remove(name);
        }
    }
    command
}

fn socket(port: &Port) -> SocketAddr {
    ([127, 0, 0, 1], port.number()).into()
}

/// The end of a log.
pub(crate) fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
