//! The peers: Bytewax from PyPI and StatsD from npm, installed into a folder beside the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_testbed::{Port, Process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::lines::Lines;

/// Many times what anything should take.
const WITHIN: Duration = Duration::from_secs(300);

fn folder(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-peers").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// One worker, in memory.
pub(super) struct Bytewax {
    python: PathBuf,
}

impl Bytewax {
    pub(super) fn install() -> Result<Self> {
        let folder = folder("bytewax")?;
        let python = folder.join("bin/python");
        if !python.exists() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "bytewax==0.21.1"];
            done(Command::new(&python).args(pip))?;
        }
        Ok(Bytewax { python })
    }

    /// Seconds for all lines, by the flow's own clock: the start of the interpreter does not count.
    pub(super) fn run(&self, lines: &Lines) -> Result<f64> {
        let folder = TempDir::new()?;
        let (script, input) = (folder.path().join("flow.py"), folder.path().join("lines"));
        fs::write(&script, include_str!("bytewax.py"))?;
        fs::write(&input, &lines.text)?;
        let output = Command::new(&self.python).arg(script).arg(input).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = || String::from_utf8_lossy(&output.stderr).into_owned();
        let mut words = said.split_whitespace();
        let seconds = words.next().and_then(|word| word.parse().ok()).with_context(failed)?;
        let sums: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        ensure!(sums == [lines.count; 2], "Bytewax counted {sums:?} of {}", lines.count);
        Ok(seconds)
    }
}

/// Sets and counters, in memory, over TCP so that nothing is dropped.
pub(super) struct StatsD {
    folder: PathBuf,
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

    /// Seconds until its counters have all lines.
    pub(super) async fn run(&self, lines: &Lines) -> Result<f64> {
        let (port, admin) = (Port::claim(), Port::claim());
        let at = TempDir::new()?;
        let config = at.path().join("config.js");
        fs::write(
            &config,
            format!(
                "{{ servers: [{{ server: './servers/tcp', address: '127.0.0.1', port: {} }}], \
                 mgmt_address: '127.0.0.1', mgmt_port: {}, backends: [], flushInterval: 600000 }}",
                port.number(),
                admin.number()
            ),
        )?;
        let mut command = Command::new("node");
        command.arg("stats.js").arg(config);
        command.current_dir(self.folder.join("node_modules/statsd"));
        let _process = Process::start(&command, &at.path().join("log"));
        let began = Instant::now();
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port.number())).await {
                Ok(stream) => break stream,
                Err(error) => {
                    ensure!(began.elapsed() < WITHIN, "StatsD does not start: {error}");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let began = Instant::now();
        stream.write_all(&lines.metrics).await?;
        stream.flush().await?;
        while counted(admin.number()).await? < lines.count as u64 {
            ensure!(began.elapsed() < WITHIN, "StatsD does not catch up");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The sum of its counters.
async fn counted(admin: u16) -> Result<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).await?;
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
    let counts = text.lines().filter(|line| line.trim().trim_matches('\'').starts_with("c."));
    let number = |line: &str| line.rsplit(':').next()?.trim().trim_matches(',').parse::<u64>().ok();
    Ok(counts.filter_map(number).sum())
}
