//! A contestant: a process of its own that serves lift rides on a port of its own.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use consort_testbed::{Port, Process};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::ask;
use super::consort;
use super::counters::{Counts, Names, USUAL};

/// A contestant opens its stores before it answers, on a machine that may be busy.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at something that is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A contestant, up as long as this value.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    process: Process,
    names: Option<Names>,
    /// A query whose answer tells how far behind it may be.
    pub(super) probe: Option<&'static str>,
    folder: TempDir,
    _port: Port,
}

impl Served {
    /// (a): has no views, so nothing is ever behind.
    pub(super) async fn limit() -> Result<Self> {
        let command = |listen: SocketAddr, _: &TempDir| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["serve-limit", "--listen", &listen.to_string()]);
            Ok(command)
        };
        Served::start("bare axum", command, None).await
    }

    /// (c).
    pub(super) async fn usual(redis: &str, amqp: &str) -> Result<Self> {
        let command = |listen: SocketAddr, _: &TempDir| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["serve-usual", "--listen", &listen.to_string()]);
            command.args(["--redis", redis, "--amqp", amqp]);
            Ok(command)
        };
        Served::start("two queues", command, Some(USUAL)).await
    }

    /// Starts whatever `command` says, given an address and a folder, and waits until it listens.
    pub(super) async fn start(
        name: &'static str,
        command: impl FnOnce(SocketAddr, &TempDir) -> Result<Command>,
        names: Option<Names>,
    ) -> Result<Self> {
        let port = Port::claim();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let folder = tempfile::Builder::new().prefix("consort-lifts-").tempdir()?;
        let command = command(address, &folder)?;
        let process = Process::start(&command, &folder.path().join("log"));
        let mut served = Served { name, address, process, names, probe: None, folder, _port: port };
        served.until_up().await?;
        Ok(served)
    }

    async fn until_up(&mut self) -> Result<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            self.still_runs()?;
            ensure!(
                started.elapsed() < UP_WITHIN,
                "{} does not listen:\n{}",
                self.name,
                self.output()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until a question is answered with success.
    pub(super) async fn until_ready(&mut self, path: &str) -> Result<()> {
        let started = Instant::now();
        while !ask::get(self.address, path).await.is_ok_and(|answer| answer.status.is_success()) {
            self.still_runs()?;
            ensure!(
                started.elapsed() < UP_WITHIN,
                "{} is not ready:\n{}",
                self.name,
                self.output()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// An error with its last words if it has ended.
    pub(super) fn still_runs(&mut self) -> Result<()> {
        if self.process.is_running() {
            return Ok(());
        }
        let code = self.process.exit_code();
        bail!("{} ended with code {code:?}:\n{}", self.name, self.output())
    }

    fn output(&self) -> String {
        self.process.output()
    }

    /// What it has counted, if it counts.
    pub(super) async fn counts(&self) -> Result<Option<Counts>> {
        let Some(names) = self.names else { return Ok(None) };
        let text = ask::get(self.address, "/metrics").await?.text()?;
        names.read(&text).map(Some)
    }

    /// How far behind it says that its answers may be, in seconds.
    pub(super) async fn lag(&self) -> Result<Option<f64>> {
        let Some(probe) = self.probe else { return Ok(None) };
        Ok(ask::get(self.address, probe).await?.number(consort::LAG))
    }

    /// Waits until nothing waits any more; answers how long that took.
    pub(super) async fn caught_up(&mut self, within: Duration) -> Result<Duration> {
        let started = Instant::now();
        while let Some(counts) = self.counts().await? {
            if counts.waiting() == 0 {
                break;
            }
            self.still_runs()?;
            let (name, waiting) = (self.name, counts.waiting());
            ensure!(started.elapsed() < within, "{name}: {waiting} records wait after {within:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(started.elapsed())
    }

    /// The memory of its process, in bytes.
    pub(super) fn rss(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        resident(&status).with_context(|| format!("{path} tells no VmRSS"))
    }

    /// What its folder takes on disk, in bytes.
    pub(super) fn on_disk(&self) -> u64 {
        bytes_below(self.folder.path())
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// A file that vanishes meanwhile counts nothing.
fn bytes_below(folder: &std::path::Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(entry_is) if entry_is.is_dir() => bytes_below(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_is_read() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    1234 kB\nThreads:\t3\n"), Some(1234 * 1024));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
