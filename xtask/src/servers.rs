//! Servers that all tests of a run share, since they are slow to start: each test takes names of its own
//! on them. Tests that hurt a server start a private one.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context, Result};

use crate::shell::cargo;

/// A server held by the test bed's own program. It ends with this value, or with this process.
pub(crate) struct SharedServer {
    pub(crate) url: String,
    held: Child,
    /// Kept open: a server whose words nobody hears any more ends.
    _output: BufReader<ChildStdout>,
}

impl SharedServer {
    /// Starts `redis-cluster` or `rabbitmq`.
    pub(crate) fn start(kind: &str) -> Result<Self> {
        let mut command = cargo(&["run", "--quiet", "--package", "consort-testbed", "--", kind]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut held = command.spawn().with_context(|| format!("cannot start {kind}"))?;
        let output = held.stdout.take().context("the server's output is piped")?;
        let mut url = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut url)?;
        let url = url.trim().to_string();
        anyhow::ensure!(!url.is_empty(), "the test bed could not start {kind}");
        Ok(SharedServer { url, held, _output: output })
    }
}

impl Drop for SharedServer {
    fn drop(&mut self) {
        // The end of its input tells the test bed to stop the server.
        drop(self.held.stdin.take());
        let _ = self.held.wait();
    }
}
