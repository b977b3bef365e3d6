//! A private PostgreSQL 15, from the Debian package.

use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::ports::Port;
use crate::process::Process;
use crate::start::{Started, TRIES, await_up};

/// Where the package puts its programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// The user that the server runs as if the caller is root: it refuses root.
const USER: &str = "postgres";

/// A start takes about a second; the rest is for a machine that compiles meanwhile.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// A PostgreSQL of its own, gone when dropped. Every commit is synchronous, as by default.
#[derive(Debug)]
pub struct PostgresServer {
    process: Process,
    port: Port,
    folder: TempDir,
}

impl PostgresServer {
    /// Makes a database and starts a server on it, which has answered when this returns.
    ///
    /// # Panics
    ///
    /// If PostgreSQL 15 is not installed or does not start.
    pub async fn start() -> PostgresServer {
        for _ in 0..TRIES {
            let mut server = PostgresServer::spawn(Port::claim());
            let port = server.port();
            let answers = async || {
                let listens = TcpStream::connect(("127.0.0.1", port)).await.is_ok();
                listens && server_ready(port)
            };
            if await_up(&mut server.process, UP_WITHIN, answers).await == Started::Up {
                return server;
            }
        }
        panic!("postgres found its port taken {TRIES} times in a row");
    }

    fn spawn(port: Port) -> PostgresServer {
        let folder = tempfile::Builder::new()
            .prefix("consort-postgres-")
            .tempdir()
            .expect("a temporary folder can be made");
        if is_root() {
            let (user, group) = ids();
            chown(folder.path(), Some(user), Some(group)).expect("root can give a folder away");
        }
        let data = folder.path().join("data");
        let mut init = own("initdb");
        init.arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "-E", "UTF8"]);
        init.args(["--locale", "C", "--no-instructions"]);
        let made = init.output().expect("initdb can be run");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut command = own("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        command.args(["-h", "127.0.0.1", "-p", &port.number().to_string()]);
        // A quarter of a small machine's memory, and no checkpoint in the middle of a measurement of seconds.
        for setting in ["shared_buffers=512MB", "max_wal_size=4GB", "synchronous_commit=on"] {
            command.args(["-c", setting]);
        }
        // The log stands beside the folder's own files, and is written by the guard.
        let process = Process::start(&command, &folder.path().join("log"));
        PostgresServer { process, port, folder }
    }

    /// The port of its clients.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Runs a statement by `psql`, and gives its answer without decoration.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn query(&self, statement: &str) -> String {
        let mut psql = self.client("psql");
        let answer = psql.args(["-v", "ON_ERROR_STOP=1", "-At", "-c", statement]).output();
        let answer = answer.expect("psql can be run");
        let told = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "psql: {told}{}", self.process.output());
        String::from_utf8_lossy(&answer.stdout).trim().to_owned()
    }

    /// A client program of the package, with the address of this server: `psql` or `pgbench`.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(PathBuf::from(PROGRAMS).join(program));
        command.current_dir(self.folder.path());
        let port = self.port().to_string();
        command.env("PGHOST", "127.0.0.1").env("PGPORT", port).env("PGUSER", USER);
        command.env("PGDATABASE", USER);
        command
    }
}

fn server_ready(port: u16) -> bool {
    let mut ready = Command::new(PathBuf::from(PROGRAMS).join("pg_isready"));
    ready.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
    ready.status().is_ok_and(|status| status.success())
}

/// A program of the server, run by a user that it accepts.
fn own(program: &str) -> Command {
    let path = PathBuf::from(PROGRAMS).join(program);
    assert!(
        path.is_file(),
        "{program} of PostgreSQL 15 is not installed: run `cargo xtask bench glue`, which installs it, or apt-get \
         install postgresql-15"
    );
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).arg(path);
    command
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// User and group that the package made.
fn ids() -> (u32, u32) {
    let id = |flag: &str| {
        let told = Command::new("id").args([flag, USER]).output().expect("id can be run");
        let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        told.parse().expect("the package postgresql-15 makes the user 'postgres'")
    };
    (id("-u"), id("-g"))
}
