//! The folder of a page, the scripts that run in it, and the programs that they leave running.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use consort_testbed::Process;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::files;
use crate::namespace::{self, APART};
use crate::script::Service;

/// The longest block posts some thousand events; the rest is for a busy machine.
const BLOCK_WITHIN: Duration = Duration::from_secs(120);

/// A start takes less than a second, or the lease of a killed node.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A node finishes the running requests and hands its roles over.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A page's own folder and all that runs in it.
#[derive(Debug)]
pub(crate) struct Workplace {
    /// Folders beside the page's: logs, scripts and programs are not in the reader's way.
    beside: TempDir,
    page: PathBuf,
    groups: Vec<Pid>,
    programs: Vec<Process>,
}

/// The end of a script.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Copies a folder and the folders in it.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

impl Workplace {
    /// An empty folder with a copy of the examples.
    pub(crate) fn new() -> io::Result<Workplace> {
        let beside = tempfile::Builder::new().prefix("consort-page-").tempdir()?;
        let page = beside.path().join("page");
        for folder in ["page", "bin", "home", "logs"] {
            fs::create_dir(beside.path().join(folder))?;
        }
        copy_folder(&files::root().join("examples"), &page.join("examples"))?;
        let bin = beside.path().join("bin");
        symlink(env!("CARGO_BIN_EXE_consort"), bin.join("consort"))?;
        fs::write(beside.path().join("pids"), "")?;
        if std::env::var_os(APART).is_none() {
            namespace::write_stand_ins(&bin, &beside.path().join("pids"))?;
        }
        Ok(Workplace { beside, page, groups: Vec::new(), programs: Vec::new() })
    }

    /// Writes a file of the page.
    pub(crate) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.page.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    }

    /// Runs a script to its end.
    pub(crate) async fn run(
        &mut self,
        name: &str,
        script: &str,
        merge: bool,
    ) -> Result<Ended, String> {
        let (out, err) =
            (self.beside(&format!("logs/{name}.out")), self.beside(&format!("logs/{name}.err")));
        let spawned = self.script(name, script).and_then(|mut command| {
            let stdout = File::create(&out)?;
            let stderr = if merge { stdout.try_clone()? } else { File::create(&err)? };
            command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).spawn()
        });
        let mut child = spawned.map_err(|error| format!("the block cannot run: {error}"))?;
        self.groups.push(Pid::from_child(&child));
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            if begun.elapsed() > BLOCK_WITHIN {
                return Err(format!("the block has not ended within {BLOCK_WITHIN:?}"));
            }
            sleep(LOOK_EVERY).await;
        };
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let errors = if merge { String::new() } else { read(&err) };
        Ok(Ended { code: status.code(), output: read(&out), errors })
    }

    /// Starts a script whose last command goes on, and waits until it is ready. Returns what it has printed.
    pub(crate) async fn start(
        &mut self,
        name: &str,
        script: &str,
        service: Service,
    ) -> Result<String, String> {
        let command =
            self.script(name, script).map_err(|error| format!("the block cannot run: {error}"))?;
        let mut process = Process::start(&command, &self.beside(&format!("logs/{name}.out")));
        let begun = Instant::now();
        while !process.output().contains(service.announcement()) {
            let output = process.output();
            if let Some(code) = process.exit_code() {
                return Err(format!(
                    "the program ended at its start with exit code {code}:\n{output}"
                ));
            }
            if begun.elapsed() > READY_WITHIN {
                return Err(format!("the program is not ready after {READY_WITHIN:?}:\n{output}"));
            }
            sleep(LOOK_EVERY).await;
        }
        let output = process.output();
        self.programs.push(process);
        self.list_programs();
        Ok(output)
    }

    /// Stops all programs as Ctrl-C does, the last one first: a node needs its server to the end. A program that the page has killed is gone already; one that ended by
    /// itself, or does not end well, is a failure.
    pub(crate) async fn stop(&mut self) -> Result<(), String> {
        for mut program in std::mem::take(&mut self.programs).into_iter().rev() {
            program.terminate(STOPPED_WITHIN).await;
            // A shell reports 128 + n for the end by signal n.
            if let Some(code @ 1..=127) = program.exit_code() {
                return Err(format!(
                    "a program of the page ended with exit code {code}:\n{}",
                    program.output()
                ));
            }
        }
        self.list_programs();
        Ok(())
    }

    /// The last words of all programs that run, for a failure.
    pub(crate) fn last_words(&self) -> String {
        let words = self.programs.iter().map(|program| {
            let output = program.output();
            let lines: Vec<&str> = output.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        });
        words.collect::<Vec<_>>().join("\n---\n")
    }

    fn list_programs(&self) {
        let pids: Vec<String> =
            self.programs.iter().map(|program| program.pid().to_string()).collect();
        // Only the stand-in for `pidof` reads this; without the file it finds nothing.
        let _ = fs::write(self.beside("pids"), pids.join("\n"));
    }

    fn beside(&self, path: &str) -> PathBuf {
        self.beside.path().join(path)
    }

    /// `sh -eu` with a script, in the page's folder, with nothing of the caller's settings.
    fn script(&self, name: &str, script: &str) -> io::Result<Command> {
        let path = self.beside(&format!("logs/{name}.sh"));
        fs::write(&path, script)?;
        let mut command = Command::new("sh");
        command.arg("-eu").arg(path).current_dir(&self.page);
        for (variable, _) in std::env::vars_os() {
            let upper = variable.to_string_lossy().to_ascii_uppercase();
            if upper.starts_with("CONSORT_") || upper.ends_with("_PROXY") {
                command.env_remove(variable);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.beside("bin").display()));
        command.env("HOME", self.beside("home")).env("LC_ALL", "C.UTF-8");
        Ok(command)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        for group in &self.groups {
            // A group without processes is gone, which is what is wanted.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}
