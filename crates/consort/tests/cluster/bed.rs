//! Nodes as processes, nodes in this process, and the commands that ask them.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use consort::config::{ConfigFile, Sources};
use consort::parts::RolesPart;
use consort::{Config, Services};
use consort_client::{Client, Cluster};
use consort_cluster::Part;
use consort_testbed::{Port, Process, eventually};
use tempfile::TempDir;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node as a process of its own.
pub(crate) struct Node {
    pub(crate) process: Process,
    id: String,
    command: Command,
    port: Port,
    folder: TempDir,
}

impl Node {
    /// Starts node `id` on the engine at `url`.
    pub(crate) fn start(id: &str, url: &str) -> Node {
        Node::start_set(id, url, &[])
    }

    /// Starts node `id` on the engine at `url`, with more settings, as `--set` takes them.
    pub(crate) fn start_set(id: &str, url: &str, settings: &[&str]) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::claim();
        let path = folder.path().join("consort.toml");
        let listen = format!("[http]\nlisten = \"127.0.0.1:{}\"\n", port.number());
        fs::write(&path, format!("{listen}[engine]\nurl = \"{url}\"\n")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(["serve", "-c"]).arg(&path).args(["--node", id]).current_dir(folder.path());
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        for name in own_variables() {
            command.env_remove(name);
        }
        let process = Process::start(&command, &folder.path().join("log"));
        Node { process, id: id.into(), command, port, folder }
    }

    /// Starts it again as it was, with what it left in its folder.
    pub(crate) fn restart(&mut self) {
        self.process = Process::start(&self.command, &self.folder.path().join("log"));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), None).expect("an address")
    }

    /// Waits until it has joined.
    pub(crate) async fn joined(&self) {
        let what = format!("'{}' has joined; it said:\n{}", self.id, self.process.output());
        eventually(&what, PATIENCE, || async {
            self.process.output().contains("listens on http://")
        })
        .await;
    }

    /// Waits until it has said these words.
    pub(crate) async fn says(&self, words: &str) {
        let what = format!("'{}' says '{words}'; it said:\n{}", self.id, self.process.output());
        eventually(&what, PATIENCE, || async { self.process.output().contains(words) }).await;
    }

    /// Waits until the cluster, as it sees it, is as wanted.
    pub(crate) async fn sees(&self, what: &str, fits: impl Fn(&Cluster) -> bool) -> Cluster {
        sees(&self.client(), what, fits).await
    }

    /// Waits for its end, and gives the exit code and all it said.
    pub(crate) async fn end(&mut self) -> (Option<i32>, String) {
        self.process.end(PATIENCE).await;
        (self.process.exit_code(), self.process.output())
    }

    /// Stops it as a service manager does.
    pub(crate) async fn stop(mut self) {
        self.process.terminate(PATIENCE).await;
        assert_eq!(self.process.exit_code(), Some(0), "{}", self.process.output());
    }
}

fn own_variables() -> impl Iterator<Item = std::ffi::OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("CONSORT_"))
}

/// Waits until the cluster is as wanted.
pub(crate) async fn sees(client: &Client, what: &str, fits: impl Fn(&Cluster) -> bool) -> Cluster {
    let fits = &fits;
    eventually(what, PATIENCE, || async move { client.cluster().await.ok().filter(fits) }).await
}

/// The ids of the nodes that are alive.
pub(crate) fn live(cluster: &Cluster) -> Vec<&str> {
    let live = cluster.status.nodes.iter().filter(|node| node.live);
    live.map(|node| node.id.as_str()).collect()
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
    consort_knowing(&[], arguments).await
}

/// Runs the binary with these variables and arguments.
pub(crate) async fn consort_knowing<A: AsRef<OsStr>>(
    variables: &[(&str, &str)],
    arguments: impl IntoIterator<Item = A>,
) -> Said {
    let mut command = binary();
    command.envs(variables.iter().copied()).args(arguments);
    let output = within(command.output()).await.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Said { code: output.status.code(), out: text(output.stdout), words: text(output.stderr) }
}

/// `consort status --watch` as it runs; it ends when dropped.
pub(crate) fn watching(arguments: &[&str]) -> tokio::process::Child {
    let mut command = binary();
    command.args(["status", "--watch"]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

fn binary() -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_consort"));
    for name in own_variables() {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What must come about.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("nothing happened for a long time")
}

/// A node in this process, with parts of the test's own.
pub(crate) async fn node_here(
    id: &str,
    url: &str,
    workloads: impl Fn(&Services) -> Vec<Arc<dyn Part>> + Send + Sync + 'static,
) -> (consort::Node, Client) {
    let parts = vec![Arc::new(RolesPart::new(workloads)) as _];
    let config = config_here(id, url, "");
    let node = consort::Node::start_with(config, parts).await.expect("a node");
    let client = Client::new(&format!("http://{}", node.address()), None).expect("an address");
    (node, client)
}

/// The settings of a node in this process, with these declarations.
pub(crate) fn config_here(id: &str, url: &str, declarations: &str) -> Config {
    let text = format!(
        "[node]\nid = \"{id}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"{url}\"\n{declarations}"
    );
    let file = ConfigFile { name: "test".into(), text };
    let sources = Sources { file: Some(file), ..Sources::default() };
    Config::resolve(&sources).expect("a config")
}
