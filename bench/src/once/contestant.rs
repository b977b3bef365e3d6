//! The contestants, each a process of its own on a port of its own, with all its files in a folder of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use consort_testbed::{Port, Process};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::ask;
use super::bare::WAITS;
use super::origin::ITEMS;

/// A contestant opens its stores before it answers, on a machine that may be busy.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// As nginx is commonly set up to cache, with the lock, and with its hits as fast as they get.
const NGINX: &str = include_str!("nginx.conf");

/// Answers are fresh for longer than a run takes.
const CONSORT: &str = r#"
[log]
level = "warn"
[http]
listen = "LISTEN"
max_connections = 4096
[engine]
url = "ENGINE"
namespace = "NAMESPACE"
[once.items]
upstream = "http://ORIGIN/items/{path}"
fresh_for = "1h"
"#;

/// Where a node of Consort keeps its state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ground<'a> {
    /// In its own folder.
    Embedded,
    Redis {
        url: &'a str,
        namespace: &'a str,
    },
}

/// A contestant, or the origin: up as long as this value.
#[derive(Debug)]
pub(super) struct Served {
    name: &'static str,
    pub(super) address: SocketAddr,
    /// What its keys stand behind.
    pub(super) prefix: &'static str,
    pub(super) process: Process,
    _port: Port,
    /// After the process, which writes there until it ends.
    _folder: TempDir,
}

impl Served {
    pub(super) async fn origin() -> Result<Self> {
        Served::start("the origin", ITEMS, |listen, _| own("serve-origin", listen)).await
    }

    pub(super) async fn bare() -> Result<Self> {
        Served::start("the bare handler", ITEMS, |listen, _| own("serve-bare", listen)).await
    }

    /// The same, where all who ask for a key wait.
    pub(super) async fn bare_wait() -> Result<Self> {
        Served::start("the bare handler", WAITS, |listen, _| own("serve-bare", listen)).await
    }

    /// A node; ready when this returns.
    pub(super) async fn consort(ground: Ground<'_>, origin: &Served) -> Result<Self> {
        let command = |listen: SocketAddr, folder: &Path| {
            let (engine, namespace) = match ground {
                Ground::Embedded => (format!("embedded:{}", folder.join("data").display()), "once"),
                Ground::Redis { url, namespace } => (url.to_string(), namespace),
            };
            let text = CONSORT
                .replace("LISTEN", &listen.to_string())
                .replace("ENGINE", &engine)
                .replace("NAMESPACE", namespace)
                .replace("ORIGIN", &origin.address.to_string());
            let file = folder.join("consort.toml");
            fs::write(&file, text)?;
            let mut command = Command::new(program()?);
            command.arg("serve").arg("-c").arg(file);
            Ok(command)
        };
        let mut served = Served::start("Consort", "/once/items/", command).await?;
        let started = Instant::now();
        while ask::get(served.address, "/readyz").await.is_err() {
            served.still_starts(started)?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(served)
    }

    pub(super) async fn nginx(origin: &Served) -> Result<Self> {
        let command = |listen: SocketAddr, folder: &Path| {
            let text = NGINX
                .replace("LISTEN", &listen.to_string())
                .replace("FOLDER", &folder.display().to_string())
                .replace("ORIGIN", &origin.address.to_string());
            let file = folder.join("nginx.conf");
            fs::write(&file, text)?;
            let mut command = Command::new("/usr/sbin/nginx");
            command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log"));
            command.arg("-c").arg(file);
            Ok(command)
        };
        Served::start("nginx", ITEMS, command).await
    }

    pub(super) async fn varnish(origin: &Served) -> Result<Self> {
        let command = |listen: SocketAddr, folder: &Path| {
            let mut command = Command::new("/usr/sbin/varnishd");
            // In the foreground, without a port for orders, and as the user who measures.
            command.args(["-F", "-T", "none", "-j", "none"]);
            command.arg("-n").arg(folder.join("varnish"));
            command.args(["-a", &listen.to_string(), "-b", &origin.address.to_string()]);
            command.args(["-s", "malloc,64m", "-t", "3600"]);
            Ok(command)
        };
        Served::start("Varnish", ITEMS, command).await
    }

    /// Starts whatever `command` says, given an address and a folder, and waits until it listens.
    async fn start(
        name: &'static str,
        prefix: &'static str,
        command: impl FnOnce(SocketAddr, &Path) -> Result<Command>,
    ) -> Result<Self> {
        let port = Port::claim();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let folder = tempfile::Builder::new().prefix("consort-once-").tempdir()?;
        let process = Process::start(&command(address, folder.path())?, &folder.path().join("log"));
        let mut served = Served { name, address, prefix, process, _port: port, _folder: folder };
        let started = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            served.still_starts(started)?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(served)
    }

    /// An error with its last words if it has ended, or takes too long.
    fn still_starts(&mut self, since: Instant) -> Result<()> {
        let (name, output) = (self.name, self.process.output());
        if !self.process.is_running() {
            bail!("{name} ended with code {:?}:\n{output}", self.process.exit_code());
        }
        ensure!(since.elapsed() < UP_WITHIN, "{name} does not start:\n{output}");
        Ok(())
    }

    /// The path of a key.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// A server of this very program.
fn own(command: &str, listen: SocketAddr) -> Result<Command> {
    let mut own = Command::new(std::env::current_exe()?);
    own.args([command, "--listen", &listen.to_string()]);
    Ok(own)
}

fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("consort");
    ensure!(
        program.is_file(),
        "there is no program 'consort' beside this one; run: cargo build --release --package consort"
    );
    Ok(program)
}

/// `nginx/1.22.1`
pub(super) fn nginx_version() -> String {
    version(Command::new("/usr/sbin/nginx").arg("-v"), "nginx/")
}

/// `varnish-7.1.1`
pub(super) fn varnish_version() -> String {
    version(Command::new("/usr/sbin/varnishd").arg("-V"), "varnish-")
}

/// The word of what a program says of itself that begins so. Both say it on standard error.
fn version(command: &mut Command, beginning: &str) -> String {
    let said = command.output().map(|output| output.stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let mut words = said.split(|c: char| c.is_whitespace() || "()".contains(c));
    words.find(|word| word.starts_with(beginning)).unwrap_or(beginning).to_string()
}
