//! Nodes and a relay as processes, with configs made from the example.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process, eventually};
use tempfile::TempDir;

use super::lines::VIEWS;
use crate::lifts::servers::Engine;

/// How long a node or the relay may take to be there: a killed one's lease has to lapse first.
const THERE_WITHIN: Duration = Duration::from_secs(60);

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The config, relative to this package.
const CONFIG: &str = "../examples/events.toml";

/// Numbers of events by view and outcome.
pub type Counts = BTreeMap<(String, String), i64>;

/// A node.
#[derive(Debug)]
pub struct Member {
    command: Command,
    process: Process,
    http: Port,
    udp: Port,
    log: PathBuf,
}

/// All nodes, and the relay before them.
#[derive(Debug)]
pub struct Crew {
    program: String,
    folder: TempDir,
    /// The nodes.
    pub members: Vec<Member>,
    relay: Option<(Process, Port)>,
}

impl Crew {
    /// Nobody yet: they will be processes of `program`.
    pub fn new(program: &str) -> Crew {
        let folder = tempfile::Builder::new().prefix("consort-events-").tempdir();
        let folder = folder.expect("a folder can be made");
        Crew { program: program.into(), folder, members: Vec::new(), relay: None }
    }

    /// The folder, for an embedded engine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a node on `engine`, with rows for these databases, and waits until it is ready.
    pub async fn add(&mut self, engine: &Engine, databases: [String; 2]) {
        let (http, udp) = (Port::claim(), Port::claim());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CONFIG);
        let [first, second] = databases;
        let config = fs::read_to_string(path)
            .expect("the example can be read")
            .replace("127.0.0.1:8089", &format!("127.0.0.1:{}", udp.number()))
            .replace("http://127.0.0.1:8086", &first)
            .replace("http://127.0.0.1:8087", &second);
        let id = format!("node-{}", self.members.len() + 1);
        let file = self.folder.path().join(format!("{id}.toml"));
        fs::write(&file, config).expect("the config can be written");
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("-c").arg(&file).args(["--node", &id]);
        command.args(["--listen", &format!("127.0.0.1:{}", http.number())]);
        command.args(["--engine", &engine.url]);
        command.args(["--set", "cluster.lease=1s", "--set", "cluster.heartbeat=200ms"]);
        if let Some(broker) = &engine.broker {
            command.args(["--broker", broker]);
        }
        let log = self.folder.path().join(format!("{id}.log"));
        let process = Process::start(&command, &log);
        self.members.push(Member { command, process, http, udp, log });
        let last = self.members.len() - 1;
        self.is_ready(last).await;
    }

    /// SIGKILL.
    pub async fn kill(&mut self, at: usize) {
        self.members[at].process.kill().await;
    }

    /// Starts a killed node again, and does not wait.
    pub fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.process = Process::start(&member.command, &member.log);
    }

    /// Waits until a node is ready.
    pub async fn is_ready(&mut self, at: usize) {
        let address = self.address(at);
        let member = &mut self.members[at];
        eventually("the node is ready", THERE_WITHIN, || {
            assert!(member.process.is_running(), "it ended:\n{}", member.process.output());
            let address = address.clone();
            async move {
                let Ok(client) = Client::new(&address, None) else { return false };
                let mut asking = Connection::new(client, ANSWER_WITHIN);
                let said = asking.send(Method::GET, "/readyz", &[], "").await;
                said.is_ok_and(|reply| reply.status == 200)
            }
        })
        .await;
    }

    /// Where a node's HTTP interface is.
    pub fn address(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[at].http.number())
    }

    /// Starts the relay before all nodes; says where it takes datagrams.
    pub async fn relay(&mut self) -> u16 {
        let (udp, http) = (Port::claim(), Port::claim());
        let mut config = format!(
            "[relay]\nudp = \"127.0.0.1:{}\"\nhttp = \"127.0.0.1:{}\"\nform = \"line-loose\"\n\
             [[route]]\ntag = \"event_type\"\nto = [{}]\n",
            udp.number(),
            http.number(),
            (0..self.members.len()).map(|at| format!("\"n{at}\"")).collect::<Vec<_>>().join(", "),
        );
        for (at, member) in self.members.iter().enumerate() {
            config += &format!("[target.n{at}]\nudp = \"127.0.0.1:{}\"\n", member.udp.number());
        }
        let file = self.folder.path().join("relay.toml");
        fs::write(&file, config).expect("the config can be written");
        let mut command = Command::new(&self.program);
        command.arg("relay").arg("-c").arg(&file);
        let mut process = Process::start(&command, &self.folder.path().join("relay.log"));
        let asked = format!("http://127.0.0.1:{}", http.number());
        eventually("the relay is there", THERE_WITHIN, || {
            assert!(process.is_running(), "the relay ended:\n{}", process.output());
            let asked = asked.clone();
            async move { metrics(&asked).await.is_some() }
        })
        .await;
        let at = udp.number();
        self.relay = Some((process, udp));
        at
    }

    /// Where a node takes datagrams.
    pub fn udp(&self, at: usize) -> u16 {
        self.members[at].udp.number()
    }

    /// How many events of each view had which outcome, as a node tells.
    pub async fn counts(&self, at: usize) -> Counts {
        let text = metrics(&self.address(at)).await.expect("the node tells its figures");
        let begin = "consort_view_events{view=\"";
        let mut counts = Counts::new();
        for line in text.lines().filter_map(|line| line.strip_prefix(begin)) {
            let Some((view, rest)) = line.split_once("\",outcome=\"") else { continue };
            let Some((outcome, count)) = rest.split_once("\"} ") else { continue };
            counts.insert((view.to_owned(), outcome.to_owned()), count.parse().expect("a number"));
        }
        counts
    }

    /// Of both views: received = applied + late + duplicate + rejected. While a batch is being committed to its
    /// shards, one of them may be ahead; when nothing comes any more it must be so.
    pub async fn comes_to_balance(&self, at: usize) {
        let balanced = |counts: &Counts| {
            VIEWS.into_iter().all(|view| {
                let of = |outcome: &str| counts[&(view.to_owned(), outcome.to_owned())];
                let outcomes = ["applied", "late", "duplicate", "rejected"];
                of("received") == outcomes.into_iter().map(of).sum::<i64>()
            })
        };
        eventually("every event is accounted for", THERE_WITHIN, || async {
            balanced(&self.counts(at).await)
        })
        .await;
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for member in &self.members {
                let said = member.process.output();
                let lines: Vec<&str> = said.lines().rev().take(40).collect();
                eprintln!("a node said last, newest first:\n{}", lines.join("\n"));
            }
        }
    }
}

async fn metrics(address: &str) -> Option<String> {
    let client = Client::new(address, None).ok()?;
    let mut asking = Connection::new(client, ANSWER_WITHIN);
    let reply = asking.send(Method::GET, "/metrics", &[], "").await.ok()?;
    (reply.status == 200).then(|| String::from_utf8_lossy(&reply.body).into_owned())
}
