//! The nodes as processes: started, killed, paused, replaced, retired, and looked after as an init system
//! would. One that has joined may end only as it was told to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use consort_engines::Options;
use consort_testbed::Process;
use tempfile::TempDir;
use tokio::time::Instant;

use super::servers::Servers;

/// What a node prints when it has joined, before its address.
pub const JOINED: &str = "tally-node: joined at ";

/// The exit code of a node whose id another process took.
pub const REPLACED: u8 = 3;

/// How long a lease lasts, and how often it is renewed.
pub const LEASE: Duration = Duration::from_millis(1500);
const HEARTBEAT: Duration = Duration::from_millis(250);

/// How soon a node that could not start, since a server was down, is started again.
const START_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How long a node that is told to stop may take: its own bounds are some ten seconds.
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
    /// Its predecessor with the same id was paused, and is resumed when this one has joined.
    Replaces { zombie: Process, until: Instant, resumed: bool },
    /// It was asked to retire.
    Drains,
}

#[derive(Debug)]
struct Node {
    process: Process,
    doing: Doing,
    started: Instant,
    /// Where it listens, once it has joined.
    address: Option<String>,
    start_at: Option<Instant>,
}

/// All nodes.
#[derive(Debug)]
pub struct Nodes {
    program: String,
    engine: Options,
    nodes: BTreeMap<String, Node>,
    named: u32,
    folder: Option<TempDir>,
}

impl Nodes {
    /// None yet; they will be processes of `program` on `engine`.
    pub fn new(program: &str, engine: Options) -> Self {
        let folder = tempfile::Builder::new().prefix("consort-nodes-").tempdir();
        let folder = Some(folder.expect("a folder for logs can be made"));
        Nodes { program: program.into(), engine, nodes: BTreeMap::new(), named: 0, folder }
    }

    /// Starts a node with an id of its own.
    pub fn add(&mut self) -> String {
        self.named += 1;
        let id = format!("node-{}", self.named);
        let node = self.start(&id);
        self.nodes.insert(id.clone(), node);
        id
    }

    /// Those that have joined, and that nothing is being done to.
    pub fn well(&self) -> Vec<String> {
        let well = |node: &Node| node.address.is_some() && matches!(node.doing, Doing::Runs);
        self.nodes.iter().filter(|(_, node)| well(node)).map(|(id, _)| id.clone()).collect()
    }

    /// Where a node listens that has joined.
    pub fn address(&self, id: &str) -> Option<&str> {
        self.nodes.get(id)?.address.as_deref()
    }

    /// How many there are, without those that retire.
    pub fn staying(&self) -> usize {
        self.nodes.values().filter(|node| !matches!(node.doing, Doing::Drains)).count()
    }

    /// Whether nothing is being done to any of them.
    pub fn all_well(&self) -> bool {
        self.well().len() == self.nodes.len()
    }

    /// SIGKILL; it is started again, with the same id, at `until`.
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

    /// SIGSTOP; another process gets its id; when that has joined, and not before `until`, SIGCONT: it must
    /// then leave by itself.
    pub fn replace(&mut self, id: &str, until: Instant) {
        self.node(id).process.pause();
        let fresh = self.start(id);
        let node = self.node(id);
        let zombie = std::mem::replace(node, fresh).process;
        node.doing = Doing::Replaces { zombie, until, resumed: false };
    }

    /// It was asked to retire, and is expected to end.
    pub fn retires(&mut self, id: &str) {
        self.node(id).doing = Doing::Drains;
    }

    /// Whether there is such a node, of which it is not known that it retired.
    pub fn has(&self, id: &str) -> bool {
        self.nodes.contains_key(id)
    }

    /// It was not asked to retire after all.
    pub fn stays(&mut self, id: &str) {
        self.node(id).doing = Doing::Runs;
    }

    /// Does what is due, and looks whether all is as it should be.
    ///
    /// # Panics
    ///
    /// If a node ended that should not have, or ended otherwise than it should have.
    pub fn tend(&mut self, servers: &Servers) {
        let now = Instant::now();
        for id in self.nodes.keys().cloned().collect::<Vec<_>>() {
            if self.is_due(&id, now) {
                let fresh = self.start(&id);
                let node = self.node(&id);
                let before = std::mem::replace(node, fresh);
                if let zombie @ Doing::Replaces { .. } = before.doing {
                    node.doing = zombie;
                }
            }
            let node = self.node(&id);
            if node.address.is_none() {
                node.address = joined_at(&node.process.output());
            }
            node.resume_if_due(now);
            if !matches!(node.doing, Doing::Down { .. }) && !node.process.is_running() {
                self.ended(&id, servers, now);
            }
        }
    }

    fn is_due(&mut self, id: &str, now: Instant) -> bool {
        let node = self.node(id);
        let killed = matches!(node.doing, Doing::Down { until } if until <= now);
        killed || node.start_at.is_some_and(|at| at <= now)
    }

    /// Judges the end of a node.
    fn ended(&mut self, id: &str, servers: &Servers, now: Instant) {
        let node = self.node(id);
        let code = node.process.exit_code();
        match node.doing {
            Doing::Drains if code == Some(0) => {
                self.nodes.remove(id);
            }
            // It found no engine, and says so.
            Doing::Runs | Doing::Replaces { .. }
                if node.address.is_none() && servers.were_hurt_since(node.started) =>
            {
                node.start_at.get_or_insert(now + START_AGAIN_AFTER);
            }
            _ => panic!(
                "{id} ended with {code:?} while {:?}:\n{}\nthe servers say:\n{}",
                node.doing,
                tail(&node.process.output()),
                tail(&servers.output()),
            ),
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

    fn start(&self, id: &str) -> Node {
        let mut command = Command::new(&self.program);
        command.args(["--engine", &self.engine.url, "--namespace", &self.engine.namespace]);
        if let Some(broker) = &self.engine.broker {
            command.args(["--broker", broker]);
        }
        command.args(["--node", id, "--listen", "127.0.0.1:0"]);
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        command.args(["--lease", &millis(LEASE), "--heartbeat", &millis(HEARTBEAT)]);
        let process = Process::start(&command, &self.log(id));
        let (doing, started) = (Doing::Runs, Instant::now());
        Node { process, doing, started, address: None, start_at: None }
    }

    fn log(&self, id: &str) -> PathBuf {
        let folder = self.folder.as_ref().expect("the folder is there until the end");
        folder.path().join(format!("{id}.log"))
    }

    fn node(&mut self, id: &str) -> &mut Node {
        self.nodes.get_mut(id).unwrap_or_else(|| panic!("there is no {id}"))
    }
}

impl Node {
    fn resume_if_due(&mut self, now: Instant) {
        match &mut self.doing {
            Doing::Paused { until } if *until <= now => {
                self.process.resume();
                self.doing = Doing::Runs;
            }
            Doing::Replaces { zombie, until, resumed } => {
                if self.address.is_some() && *until <= now && !*resumed {
                    zombie.resume();
                    *resumed = true;
                }
                if !zombie.is_running() {
                    let (code, output) = (zombie.exit_code(), zombie.output());
                    let expected = Some(i32::from(REPLACED));
                    assert_eq!(code, expected, "a replaced node ends:\n{}", tail(&output));
                    self.doing = Doing::Runs;
                }
            }
            _ => {}
        }
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

fn joined_at(output: &str) -> Option<String> {
    let (_, after) = output.split_once(JOINED)?;
    // A line that is only half written has no address yet.
    after.split_once('\n').map(|(address, _)| address.to_string())
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
