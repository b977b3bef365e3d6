//! Nodes with declarations of the test's own: in this process, or as processes that can be killed.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use consort::Config;
use consort::config::{ConfigFile, Sources};
use consort_testbed::{Port, Process, eventually};
use tempfile::TempDir;

use crate::caller::Caller;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The example, without its own [engine].
pub(crate) fn lifts() -> String {
    let example = include_str!("../../../../examples/lifts.toml");
    let engine = "[engine]\nurl = \"embedded:./lifts-data\"\n";
    assert!(example.contains(engine), "the example has another engine than it had");
    example.replace(engine, "")
}

/// A node in this process, which keeps everything in memory.
pub(crate) struct Here(consort::Node);

impl Here {
    pub(crate) async fn start(declarations: &str) -> Here {
        Here::start_on("memory:", "here", declarations).await
    }

    /// The same on another engine, as the node of this name.
    pub(crate) async fn start_on(engine: &str, id: &str, declarations: &str) -> Here {
        let settings = format!(
            "[node]\nid = \"{id}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"{engine}\"\n"
        );
        let file = ConfigFile { name: "test".into(), text: format!("{settings}{declarations}") };
        let sources = Sources { file: Some(file), ..Sources::default() };
        let config = Config::resolve(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        Here(consort::Node::start(config).await.expect("a node"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Where a stream takes datagrams.
    pub(crate) fn udp(&self, stream: &str) -> SocketAddr {
        let begins = format!("stream '{stream}' takes datagrams on udp://");
        let address = self.0.report().iter().find_map(|line| line.strip_prefix(&begins));
        address.expect("a stream that takes datagrams").parse().expect("an address")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::of(&self.url())
    }
}

/// A node as a process, on the embedded engine in a folder of its own.
pub(crate) struct Apart {
    pub(crate) process: Process,
    command: Command,
    port: Port,
    folder: TempDir,
}

impl Apart {
    /// Starts a node and waits until it listens.
    pub(crate) async fn start(declarations: &str) -> Apart {
        let node = Apart::begin(declarations);
        node.listens().await;
        node
    }

    /// Starts a node that may not come to listen.
    pub(crate) fn begin(declarations: &str) -> Apart {
        Apart::begin_with(declarations, &[])
    }

    /// The same, with these environment variables.
    pub(crate) fn begin_with(declarations: &str, variables: &[(&str, &Path)]) -> Apart {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::claim();
        let path = folder.path().join("consort.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(["serve", "-c"]).arg(&path).current_dir(folder.path());
        for name in own_variables() {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        write(&path, port.number(), declarations);
        let process = Process::start(&command, &folder.path().join("log"));
        Apart { process, command, port, folder }
    }

    /// Where a stream takes datagrams, as the node said.
    pub(crate) fn udp(&self, stream: &str) -> SocketAddr {
        let (said, words) =
            (self.process.output(), format!("'{stream}' takes datagrams on udp://"));
        let address = said.split(&words).nth(1).and_then(|rest| rest.lines().next());
        address.unwrap_or_else(|| panic!("{said}")).trim().parse().expect("an address")
    }

    /// Starts it again with other declarations, and what it left in its folder.
    pub(crate) fn restart_with(&mut self, declarations: &str) {
        write(&self.folder.path().join("consort.toml"), self.port.number(), declarations);
        self.process = Process::start(&self.command, &self.folder.path().join("log"));
    }

    /// Kills it as `kill -9` does, starts it as it was, and waits until it listens.
    pub(crate) async fn crash(&mut self) {
        self.process.kill().await;
        self.process = Process::start(&self.command, &self.folder.path().join("log"));
        self.listens().await;
    }

    pub(crate) async fn listens(&self) {
        let said = || self.process.output();
        let what = "the node listens";
        eventually(what, PATIENCE, || async { said().contains("listens on http://") }).await;
    }

    /// Waits for its end, and gives the exit code and what it said.
    pub(crate) async fn end(&mut self) -> (Option<i32>, String) {
        self.process.end(PATIENCE).await;
        (self.process.exit_code(), self.process.output())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::of(&self.url())
    }

    /// Kilobytes of memory, as Linux counts them under this name: `VmRSS` now, `VmHWM` at most so far.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(path).expect("the process lives");
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("its memory").parse().expect("a number")
    }
}

fn write(path: &Path, port: u16, declarations: &str) {
    let engine = "[engine]\nurl = \"embedded:./data\"\n";
    let text = format!("[http]\nlisten = \"127.0.0.1:{port}\"\n{engine}{declarations}");
    fs::write(path, text).expect("a file");
}

fn own_variables() -> impl Iterator<Item = std::ffi::OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("CONSORT_"))
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) words: String,
}

/// Runs the binary with these arguments.
pub(crate) async fn consort<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Said {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for name in own_variables() {
        command.env_remove(name);
    }
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.expect("it ends").expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Said { code: output.status.code(), out: text(output.stdout), words: text(output.stderr) }
}
