//! StatsD from npm: sets and counters, in memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_testbed::{Port, Process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::datagrams::{BUFFER, Receiver};
use super::lines::METRICS;
use super::peers::{WITHIN, done, folder};

/// The kernel's own setting for sockets whose program does not say how much they hold, as StatsD does not.
const KERNEL_BUFFER: &str = "/proc/sys/net/core/rmem_default";

/// How often it is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The program.
pub(super) struct StatsD {
    folder: PathBuf,
}

/// How it is told.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Tcp,
    Udp,
}

/// One that runs.
pub(super) struct Running {
    port: Port,
    admin: Port,
    _process: Process,
    _folder: TempDir,
}

impl StatsD {
    pub(super) fn install() -> Result<Self> {
        let folder = folder("statsd")?;
        if !folder.join("node_modules/statsd").exists() {
            let install = ["install", "--silent", "--no-audit", "--no-fund", "statsd@0.9.0"];
            done(Command::new("npm").args(install).current_dir(&folder))?;
        }
        Ok(StatsD { folder })
    }

    /// Seconds until it has counted all metrics, of so many lines, over TCP so that nothing is dropped.
    pub(super) async fn run(&self, metrics: &[u8], lines: usize) -> Result<f64> {
        let running = self.start(Transport::Tcp).await?;
        let mut stream = TcpStream::connect(("127.0.0.1", running.port.number())).await?;
        let began = Instant::now();
        stream.write_all(metrics).await?;
        stream.flush().await?;
        while running.counted().await? < (lines * METRICS) as u64 {
            ensure!(began.elapsed() < WITHIN, "StatsD does not catch up");
            sleep(LOOK_EVERY).await;
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// One that takes datagrams, by a socket that holds as much as Consort's.
    pub(super) async fn receiver(&self) -> Result<Running> {
        let before = fs::read_to_string(KERNEL_BUFFER)?;
        let hint = || format!("cannot write {KERNEL_BUFFER}; run it as root");
        fs::write(KERNEL_BUFFER, BUFFER.to_string()).with_context(hint)?;
        let running = self.start(Transport::Udp).await;
        fs::write(KERNEL_BUFFER, before)?;
        running
    }

    async fn start(&self, transport: Transport) -> Result<Running> {
        let (port, admin, at) = (Port::claim(), Port::claim(), TempDir::new()?);
        let config = at.path().join("config.js");
        let server = match transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        fs::write(
            &config,
            format!(
                "{{ servers: [{{ server: './servers/{server}', address: '127.0.0.1', port: {} }}], \
                 mgmt_address: '127.0.0.1', mgmt_port: {}, backends: [], flushInterval: 600000 }}",
                port.number(),
                admin.number()
            ),
        )?;
        let mut command = Command::new("node");
        command.arg("stats.js").arg(config);
        command.current_dir(self.folder.join("node_modules/statsd"));
        let _process = Process::start(&command, &at.path().join("log"));
        let running = Running { port, admin, _process, _folder: at };
        let began = Instant::now();
        // Its servers are up before the one that answers.
        while let Err(error) = running.counted().await {
            ensure!(began.elapsed() < WITHIN, "StatsD does not start: {error}");
            sleep(LOOK_EVERY).await;
        }
        Ok(running)
    }
}

impl Running {
    /// How many metrics it has taken in.
    async fn counted(&self) -> Result<u64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin.number())).await?;
        stream.write_all(b"counters\n").await?;
        let mut said = Vec::new();
        while !said.ends_with(b"END\n\n") {
            let mut part = [0; 4096];
            match stream.read(&mut part).await? {
                0 => break,
                read => said.extend_from_slice(&part[..read]),
            }
        }
        let text = String::from_utf8_lossy(&said).into_owned();
        let line = text.lines().find(|line| line.contains("metrics_received"));
        let number =
            line.and_then(|line| line.rsplit(':').next()?.trim().trim_matches(',').parse().ok());
        number.with_context(|| format!("StatsD does not tell what it received: {text}"))
    }

    /// How many datagrams the kernel dropped at its socket, which StatsD does not tell.
    fn dropped(&self) -> Result<u64> {
        let text = fs::read_to_string("/proc/net/udp")?;
        let address = format!(":{:04X}", self.port.number());
        let mut sockets = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let socket = sockets.find(|words| words.get(1).is_some_and(|at| at.ends_with(&address)));
        let drops = socket.and_then(|words| words.last()?.parse().ok());
        drops.context("StatsD's socket is not among those of the kernel")
    }
}

impl Receiver for Running {
    fn port(&self) -> u16 {
        self.port.number()
    }

    async fn came_through(&self, events: usize) -> Result<bool> {
        let began = Instant::now();
        while self.counted().await? < (events * METRICS) as u64 {
            if self.dropped()? > 0 {
                return Ok(false);
            }
            ensure!(began.elapsed() < WITHIN, "StatsD does not catch up, and nothing was dropped");
            sleep(LOOK_EVERY).await;
        }
        Ok(true)
    }
}
