//! A hammer that runs: a process that is read from, and killed.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::record::Record;

/// The process, and what it told so far. Dropping it kills it; should this process die first, it ends
/// with the first line that nobody takes.
#[derive(Debug)]
pub struct Hammer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    errors: ChildStderr,
    record: Record,
}

/// How a hammer ended.
#[derive(Debug)]
pub struct Ended {
    /// By itself with a code, or by a signal.
    pub status: ExitStatus,
    /// What it told.
    pub record: Record,
    /// What it said on standard error.
    pub errors: String,
}

impl Hammer {
    /// Starts `program`, which is `env!("CARGO_BIN_EXE_hammer")`, with these arguments.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the hammer starts");
        let output = child.stdout.take().expect("its output is piped");
        let errors = child.stderr.take().expect("its errors are piped");
        let lines = BufReader::new(output).lines();
        Hammer { child, lines, errors, record: Record::default() }
    }

    /// Its process id.
    ///
    /// # Panics
    ///
    /// If it was waited for already.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it was not waited for")
    }

    /// Takes down what it tells until `enough` says so, or until it ends.
    pub async fn listen(&mut self, enough: impl Fn(&Record) -> bool) -> &Record {
        while !enough(&self.record) && self.next().await {}
        &self.record
    }

    /// SIGKILL, now. What it told before is in the pipe, and is taken down.
    pub async fn kill(mut self) -> Ended {
        self.child.start_kill().expect("a child can be killed");
        self.end().await
    }

    /// Takes down what it tells until it ends by itself.
    ///
    /// # Panics
    ///
    /// If its output cannot be read.
    pub async fn end(mut self) -> Ended {
        while self.next().await {}
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).await.expect("its errors are text");
        let status = self.child.wait().await.expect("a child can be waited for");
        Ended { status, record: self.record, errors }
    }

    /// Takes down one line; false at the end of its output.
    async fn next(&mut self) -> bool {
        match self.lines.next_line().await.expect("its output is text") {
            // A line that a kill cut off tells nothing: it was being told when the process died.
            Some(line) => {
                if let Ok(line) = line.parse() {
                    self.record.take(line);
                }
                true
            }
            None => false,
        }
    }
}
