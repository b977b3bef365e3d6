//! `consort up` under test: its processes, its decisions, and what its nodes say.

use std::process::Command;
use std::time::Duration;

use consort_client::{Client, Cluster};
use consort_testbed::{Port, Process};
use serde_json::Value;
use tempfile::TempDir;

use super::capped::COST_VARIABLE;
use crate::lifts::servers::Engine;

/// The config of the rides.
const CONFIG: &str = include_str!("../../../examples/lifts.toml");

/// How long `up` may take to end: one node after another hands over, and the last finishes its requests.
const ENDS_WITHIN: Duration = Duration::from_secs(90);

/// A running `consort up`.
#[derive(Debug)]
pub struct Up {
    process: Process,
    prefix: String,
    /// Neighbours, as the nodes need them. They are claimed until the end.
    ports: Vec<Port>,
    _folder: TempDir,
}

impl Up {
    /// Starts `program up` with up to `max` nodes, each record of which costs so much. `more` is declared beside the rides.
    pub fn start(
        program: &str,
        prefix: &str,
        engine: &Engine,
        max: usize,
        cost: Duration,
        settings: &[&str],
        more: &str,
    ) -> Up {
        let folder = tempfile::Builder::new().prefix("consort-up-").tempdir().expect("a folder");
        let ports = Port::claim_row(max as u16);
        let mut command = Command::new(program);
        let config = folder.path().join("consort.toml");
        std::fs::write(&config, format!("{CONFIG}\n{more}")).expect("a config can be written");
        command.args(["up", "--json", "--min", "1", "--max", &max.to_string()]);
        command.args(["--node", prefix, "--engine", &engine.url, "-c"]).arg(config);
        command.args(["--listen", &format!("127.0.0.1:{}", ports[0].number())]);
        if let Some(broker) = &engine.broker {
            command.args(["--broker", broker]);
        }
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command.env(COST_VARIABLE, cost.as_micros().to_string()).current_dir(folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONSORT_") {
                command.env_remove(name);
            }
        }
        let process = Process::start(&command, &folder.path().join("log"));
        Up { process, prefix: prefix.to_owned(), ports, _folder: folder }
    }

    /// The ports of its nodes.
    pub fn ports(&self) -> Vec<u16> {
        self.ports.iter().map(Port::number).collect()
    }

    /// Where a node listens, by its number from 1.
    pub fn address(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[number - 1].number())
    }

    /// What the first node that answers says of the cluster.
    pub async fn cluster(&self) -> Option<Cluster> {
        for number in 1..=self.ports.len() {
            let client = Client::new(&self.address(number), None).expect("an address");
            if let Ok(cluster) = client.cluster().await {
                return Some(cluster);
            }
        }
        None
    }

    /// The numbers before and after each decision that it printed.
    pub fn decisions(&self) -> Vec<(u64, u64, String)> {
        let output = self.output();
        let decision = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let why = line["why"].as_str()?.to_owned();
            Some((line["before"].as_u64()?, line["after"].as_u64()?, why))
        };
        output.lines().filter_map(decision).collect()
    }

    /// All that it and its nodes have printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// The pids of its nodes.
    pub fn node_pids(&self) -> Vec<u32> {
        pids_with(&format!("{}-up-", self.prefix))
    }

    /// SIGKILL to the process of one node.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn kill_node(&self, number: usize) {
        let pids = pids_with(&format!("{}-up-{number}", self.prefix));
        assert!(!pids.is_empty(), "node {number} runs:\n{}", self.output());
        for pid in pids {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            let pid = pid.expect("a pid of /proc");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// SIGKILL to `up` itself, and to nothing else.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// SIGTERM to `up`; gives the exit code.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.process.terminate(ENDS_WITHIN).await;
        self.process.exit_code()
    }

    /// The exit code, once it has ended.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.process.exit_code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.output();
            let from = output.len().saturating_sub(12_000);
            let from = (from..output.len()).find(|at| output.is_char_boundary(*at));
            eprintln!("`consort up` said at last:\n{}", &output[from.unwrap_or_default()..]);
        }
    }
}

/// The processes with an argument that begins with `text` and goes on with digits alone.
fn pids_with(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let fits = |argument: &str| {
        argument.strip_prefix(text).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            line.split('\0').any(fits).then_some(pid)
        })
        .collect()
}
