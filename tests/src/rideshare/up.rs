//! `rideshare up` under test.

use std::process::Command;
use std::time::Duration;

use consort_testbed::{Port, Process, eventually};
use tempfile::TempDir;

use super::deployment::{PATIENCE, Programs};

/// How long `up` may take to end all of its processes.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A running `rideshare up` with one instance of each service.
#[derive(Debug)]
pub struct RideshareUp {
    process: Process,
    ports: Vec<Port>,
    folder: TempDir,
}

impl RideshareUp {
    /// Starts it, and waits until it says that it is ready.
    pub async fn start(programs: Programs) -> RideshareUp {
        let folder = tempfile::Builder::new().prefix("rideshare-up-").tempdir().expect("a folder");
        let ports = Port::claim_row(5);
        let mut command = Command::new(programs.rideshare);
        command.args(["up", "--consort-binary", programs.consort, "--folder", "data"]);
        command.args(["--port", &ports[0].number().to_string()]).current_dir(folder.path());
        let process = Process::start(&command, &folder.path().join("log"));
        let mut up = RideshareUp { process, ports, folder };
        eventually("it is ready", PATIENCE, || {
            assert!(up.process.is_running(), "it ended:\n{}", up.process.output());
            let ready = up.process.output().contains("RideShare is ready.");
            async move { ready }
        })
        .await;
        up
    }

    /// The addresses of gateway, users, rides and orchestrator.
    pub fn urls(&self) -> Vec<String> {
        let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
        self.ports.iter().take(4).map(url).collect()
    }

    /// All that it and its processes have printed.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// SIGKILL to `up` itself, and to nothing else.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// SIGTERM to `up`; gives the exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.process.terminate(ENDS_WITHIN).await;
        self.process.exit_code()
    }

    /// Waits until none of its processes is left.
    pub async fn all_gone(&self) {
        eventually("all processes have ended", ENDS_WITHIN, || async { self.left() == 0 }).await;
    }

    /// How many processes run in its folder.
    pub fn left(&self) -> usize {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let here = entries.filter(|entry| {
            let folder = std::fs::read_link(entry.path().join("cwd"));
            folder.is_ok_and(|folder| folder.starts_with(self.folder.path()))
        });
        here.count()
    }
}

impl Drop for RideshareUp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<&str> = output.lines().rev().take(40).collect();
            eprintln!("`rideshare up` said last, newest first:\n{}", lines.join("\n"));
        }
    }
}
