//! The nodes of a trial: processes of the program, each with a folder and a line to the store of its own, looked after
//! as an init system would.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use consort_testbed::{Direction, Port, Process, Proxy};
use tempfile::TempDir;
use tokio::time::Instant;

use super::client::NodeList;
use super::stores::DbStore;
use crate::lifts::nodes::tail;

/// How long a lease lasts, and how often it is renewed: short, so that much happens within a trial.
pub const LEASE: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_millis(200);

/// A line of the log of a node that has joined.
const JOINED: &str = "listens on http://";

/// How long a node that is told to stop may take: its own bounds are some thirty seconds.
const STOPPED_WITHIN: Duration = Duration::from_secs(40);

/// The present state of a node.
#[derive(Debug)]
enum NodeState {
    /// It should run.
    Runs,
    /// It has ended, and is to be started again.
    Down { until: Instant },
    /// It was paused.
    Paused { until: Instant },
    /// Its line to the store is silent.
    Silent { until: Instant },
    /// It was asked to retire.
    Drains,
}

#[derive(Debug)]
struct DbNode {
    process: Process,
    command: Command,
    port: Port,
    line: Option<Proxy>,
    state: NodeState,
    joined: bool,
}

/// All nodes.
#[derive(Debug)]
pub struct DbNodes {
    program: String,
    databases: String,
    list: NodeList,
    nodes: BTreeMap<String, DbNode>,
    named: u32,
    folder: Option<TempDir>,
}

impl DbNodes {
    /// None yet; they will be processes of `program` with these databases: name, schema folder within this package,
    /// and further settings.
    pub fn new(program: &str, databases: &[(&str, &str, &str)]) -> DbNodes {
        let folder = tempfile::Builder::new().prefix("consort-db-trial-").tempdir();
        let folder = Some(folder.expect("a folder for the nodes can be made"));
        let declared = databases.iter().map(|(name, schema, settings)| {
            let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join(schema);
            format!("[db.{name}]\nschema = '{}'\n{settings}\n", schema.display())
        });
        let (program, databases) = (program.into(), declared.collect());
        let (list, nodes) = (NodeList::default(), BTreeMap::new());
        DbNodes { program, databases, list, nodes, named: 0, folder }
    }

    /// The addresses that clients may ask.
    pub fn list(&self) -> NodeList {
        self.list.clone()
    }

    /// Starts a node with an id of its own.
    pub async fn add(&mut self, store: &DbStore) -> String {
        self.named += 1;
        let id = format!("node-{}", self.named);
        let (port, line) = (Port::claim(), store.line().await);
        let config = format!(
            "[node]\nid = '{id}'\ndata = '{}'\n[http]\nlisten = '127.0.0.1:{}'\n[engine]\nurl = '{}'\n\
             [cluster]\nlease = '{}ms'\nheartbeat = '{}ms'\n{}",
            self.path(&id, "data").display(),
            port.number(),
            store.url(line.as_ref()),
            LEASE.as_millis(),
            HEARTBEAT.as_millis(),
            self.databases,
        );
        let file = self.path(&id, "toml");
        fs::write(&file, config).expect("the config can be written");
        let mut command = Command::new(&self.program);
        command.args(["serve", "-c"]).arg(&file);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONSORT_") {
                command.env_remove(name);
            }
        }
        let process = Process::start(&command, &self.path(&id, "log"));
        let node = DbNode { process, command, port, line, state: NodeState::Runs, joined: false };
        self.nodes.insert(id.clone(), node);
        self.list.set(self.addresses());
        id
    }

    /// Those that have joined and are left alone at present.
    pub fn well(&self) -> Vec<String> {
        let well = |node: &DbNode| node.joined && matches!(node.state, NodeState::Runs);
        self.nodes.iter().filter(|(_, node)| well(node)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether all of them have joined and are left alone.
    pub fn all_well(&self) -> bool {
        self.well().len() == self.nodes.len()
    }

    /// Whether it is there, well or not.
    pub fn has(&self, id: &str) -> bool {
        self.nodes.contains_key(id)
    }

    /// Where a node listens.
    pub fn address(&self, id: &str) -> String {
        format!("http://127.0.0.1:{}", self.nodes[id].port.number())
    }

    /// SIGKILL; it is started again at `until`, with its folder or without.
    pub async fn kill(&mut self, id: &str, until: Instant, keeps_folder: bool) {
        let folder = self.path(id, "data");
        let node = self.node(id);
        node.process.kill().await;
        node.state = NodeState::Down { until };
        if !keeps_folder && folder.exists() {
            fs::remove_dir_all(folder).expect("the folder of a dead node can be removed");
        }
    }

    /// SIGTERM; it is started again at `until`.
    ///
    /// # Panics
    ///
    /// If it does not end in order.
    pub async fn stop_one(&mut self, id: &str, until: Instant) {
        let node = self.node(id);
        node.process.terminate(STOPPED_WITHIN).await;
        assert_eq!(node.process.exit_code(), Some(0), "{id}: {}", tail(&node.process.output()));
        node.state = NodeState::Down { until };
    }

    /// SIGSTOP, and SIGCONT at `until`.
    pub fn pause(&mut self, id: &str, until: Instant) {
        let node = self.node(id);
        node.process.pause();
        node.state = NodeState::Paused { until };
    }

    /// Cuts the connections of a node to the store after so many more bytes of answers, so that the node does not learn
    /// the outcome of its commits. It may connect again at once. `false` if it has no line.
    pub fn cut(&mut self, id: &str, bytes: u64) -> bool {
        let Some(line) = &self.node(id).line else { return false };
        line.cut_after(Direction::ToClient, bytes);
        true
    }

    /// Until `until`, no answer of the store reaches a node, and nothing that it sends reaches the store unless only
    /// answers are held back. `false` if it has no line.
    pub fn silence(&mut self, id: &str, only_answers: bool, until: Instant) -> bool {
        let node = self.node(id);
        let Some(line) = &node.line else { return false };
        line.swallow(Direction::ToClient);
        if !only_answers {
            line.swallow(Direction::ToServer);
        }
        node.state = NodeState::Silent { until };
        true
    }

    /// It was asked to retire, and is expected to end.
    pub fn retires(&mut self, id: &str) {
        self.node(id).state = NodeState::Drains;
    }

    /// Does all that is due, and looks whether every node runs that should.
    ///
    /// # Panics
    ///
    /// If a node ended that should not have, or ended otherwise than it should have.
    pub fn tend(&mut self) {
        let now = Instant::now();
        for id in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let log = self.path(&id, "log");
            let node = self.node(&id);
            match node.state {
                NodeState::Down { until } if until <= now => {
                    node.process = Process::start(&node.command, &log);
                    (node.state, node.joined) = (NodeState::Runs, false);
                }
                NodeState::Paused { until } if until <= now => {
                    node.process.resume();
                    node.state = NodeState::Runs;
                }
                NodeState::Silent { until } if until <= now => {
                    node.line.iter().for_each(Proxy::heal);
                    node.state = NodeState::Runs;
                }
                _ => {}
            }
            node.joined = node.joined || node.process.output().contains(JOINED);
            if matches!(node.state, NodeState::Down { .. }) || node.process.is_running() {
                continue;
            }
            let (code, output) = (node.process.exit_code(), tail(&node.process.output()));
            let retired = matches!(node.state, NodeState::Drains) && code == Some(0);
            assert!(retired, "{id} ended with {code:?} while {:?}:\n{output}", node.state);
            self.nodes.remove(&id);
            self.list.set(self.addresses());
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

    fn addresses(&self) -> Vec<String> {
        self.nodes.keys().map(|id| self.address(id)).collect()
    }

    fn path(&self, id: &str, extension: &str) -> PathBuf {
        let folder = self.folder.as_ref().expect("the folder is there until the end");
        folder.path().join(format!("{id}.{extension}"))
    }

    fn node(&mut self, id: &str) -> &mut DbNode {
        self.nodes.get_mut(id).unwrap_or_else(|| panic!("there is no {id}"))
    }
}

impl Drop for DbNodes {
    fn drop(&mut self) {
        // Their logs and files are of use when the trial failed.
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("logs, configs and folders of the nodes are in {}", folder.keep().display());
        }
    }
}
