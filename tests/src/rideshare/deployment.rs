//! All processes of RideShare and their Consort, each to be killed or paused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use consort_client::{DbClient, SqlStatement, WorkerList};
use consort_testbed::{Port, Process, eventually};
use tempfile::TempDir;

use super::calls::Caller;

/// How long a trial waits for what must happen. It bounds a hang, and measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The tables, as `rideshare up` writes them.
const SCHEMA: &str = include_str!("../../../apps/rideshare/schema/01-tables.sql");

/// The programs under test.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// `consort`.
    pub consort: &'static str,
    /// `rideshare`.
    pub rideshare: &'static str,
}

/// One process.
#[derive(Debug)]
pub struct Part {
    command: Command,
    /// The process itself.
    pub process: Process,
    port: Port,
    log: PathBuf,
    health: &'static str,
}

/// The processes. All of them end with this.
#[derive(Debug)]
pub struct Deployment {
    /// The node.
    pub consort: Part,
    /// The instances of users.
    pub users: Vec<Part>,
    /// The instances of rides.
    pub rides: Vec<Part>,
    /// The gateway.
    pub gateway: Part,
    /// The orchestrator.
    pub orchestrator: Part,
    _folder: TempDir,
}

impl Deployment {
    /// One Consort with the embedded engine, and so many instances of each service.
    pub async fn start(programs: Programs, replicas: usize, window: &str) -> Deployment {
        let folder = tempfile::Builder::new().prefix("rideshare-").tempdir().expect("a folder");
        let consort = Part::start(consort(programs.consort, folder.path(), window), "/readyz");
        let node = consort.url();
        let claims = |count| (0..count).map(|_| Port::claim()).collect::<Vec<Port>>();
        let (users, rides) = (claims(replicas), claims(replicas));
        let (user_urls, ride_urls) = (urls(&users), urls(&rides));
        let gateway = Port::claim();
        let gateway_url = url(&gateway);
        let start = |port: Port, name: &str, settings: &[(&str, &str)]| {
            let at = port.number();
            let mut command = Command::new(programs.rideshare);
            command.args([name, "--listen", &format!("127.0.0.1:{at}")]);
            command.args(settings.iter().flat_map(|(name, value)| [name, value]));
            let log = folder.path().join(format!("{name}-{at}.log"));
            Part::start((command, port, log), "/healthz")
        };
        let users = users
            .into_iter()
            .map(|port| start(port, "users", &[("--consort", &node), ("--instances", &user_urls)]));
        let rides = rides.into_iter().map(|port| {
            let gateway = ("--gateway", gateway_url.as_str());
            start(port, "rides", &[("--consort", &node), ("--instances", &ride_urls), gateway])
        });
        let (users, rides) = (users.collect(), rides.collect());
        let orchestrator = start(Port::claim(), "orchestrator", &[("--consort", &node)]);
        let gateway =
            start(gateway, "gateway", &[("--users", &user_urls), ("--rides", &ride_urls)]);
        let mut deployment =
            Deployment { consort, users, rides, gateway, orchestrator, _folder: folder };
        deployment.is_well().await;
        deployment
    }

    /// Waits until every process is healthy, and the database has a leader and one reader.
    pub async fn is_well(&mut self) {
        self.consort.is_healthy().await;
        for part in self.users.iter_mut().chain(&mut self.rides) {
            part.is_healthy().await;
        }
        self.gateway.is_healthy().await;
        self.orchestrator.is_healthy().await;
        eventually("there are a leader and a reader", PATIENCE, || async {
            let workers = self.workers().await;
            workers.is_ok_and(|list| {
                list.workers.len() == 2 && list.workers.iter().any(|worker| worker.is_leader())
            })
        })
        .await;
        self.has_tables().await;
    }

    /// Waits until the schema is applied. A write that changes nothing is no read, and needs a leader.
    async fn has_tables(&self) {
        let client = self.database().expect("an address");
        eventually("the tables are there", PATIENCE, || async {
            let nothing = SqlStatement::new("DELETE FROM riders WHERE rideId IS NULL");
            client.write(&[nothing], None).await
        })
        .await;
    }

    fn database(&self) -> Result<DbClient, String> {
        let urls = [self.consort.url()];
        let client = DbClient::new(&urls, "rideshare", None, PATIENCE);
        client.map_err(|error| error.to_string())
    }

    /// The workers, as Consort lists them.
    pub async fn workers(&self) -> Result<WorkerList, String> {
        self.database()?.workers().await.map_err(|error| error.to_string())
    }

    /// The ids of the workers, as the orchestrator lists them.
    pub async fn worker_ids(&self) -> Vec<u64> {
        let list = self.orchestrator.caller().get("/api/v1/worker/list").await;
        serde_json::from_value(list).expect("a list of ids")
    }
}

impl Part {
    fn start((command, port, log): (Command, Port, PathBuf), health: &'static str) -> Part {
        let mut command = command;
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CONSORT_") || text.starts_with("RIDESHARE_") {
                command.env_remove(name);
            }
        }
        let process = Process::start(&command, &log);
        Part { command, process, port, log, health }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        url(&self.port)
    }

    /// Calls it.
    pub fn caller(&self) -> Caller {
        Caller::new(self.url())
    }

    /// SIGKILL.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// Starts it again after it was killed.
    pub async fn restart(&mut self) {
        self.process = Process::start(&self.command, &self.log);
        self.is_healthy().await;
    }

    async fn is_healthy(&mut self) {
        let caller = self.caller();
        let (health, process) = (self.health, &mut self.process);
        eventually("the process is healthy", PATIENCE, || {
            assert!(process.is_running(), "it ended:\n{}", process.output());
            let caller = caller.clone();
            async move {
                caller.try_call("GET", health, "").await.is_ok_and(|answer| answer.status == 200)
            }
        })
        .await;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.process.output();
            let lines: Vec<&str> = output.lines().rev().take(20).collect();
            eprintln!("{} said last, newest first:\n{}", self.process.name(), lines.join("\n"));
        }
    }
}

/// A node with the database, on a free port.
fn consort(program: &str, folder: &Path, window: &str) -> (Command, Port, PathBuf) {
    let port = Port::claim();
    fs::create_dir(folder.join("schema")).expect("a folder can be made");
    fs::write(folder.join("schema/01-tables.sql"), SCHEMA).expect("the schema can be written");
    let config = format!(
        "[node]\nid = 'node'\n[http]\nlisten = '127.0.0.1:{}'\n[engine]\nurl = 'embedded:consort-data'\n\
         [db.rideshare]\nschema = 'schema'\nmax_rows = 1000000\nmax_answer = '64MiB'\n\
         readers = {{ min = 1, max = 8, per_reads = 20, window = '{window}' }}\n",
        port.number(),
    );
    fs::write(folder.join("consort.toml"), config).expect("the config can be written");
    let mut command = Command::new(program);
    command.args(["serve", "-c", "consort.toml"]).current_dir(folder);
    (command, port, folder.join("consort.log"))
}

fn url(port: &Port) -> String {
    format!("http://127.0.0.1:{}", port.number())
}

fn urls(ports: &[Port]) -> String {
    ports.iter().map(url).collect::<Vec<_>>().join(",")
}
