//! A child process that cannot outlive the process that started it.
//!
//! Between the two stands a guard, a small shell script. It starts the child as the leader of a
//! session of its own and waits for whichever comes first:
//!
//! - the child ends: the guard ends too, with the child's exit code;
//! - the guard's standard input ends, because its holder dropped it or died, however suddenly: the
//!   guard kills the child's group.
//!
//! In either case nothing of the child's process group is left. The guard is in a process group of
//! its own, so that neither Ctrl-C, nor a test runner that kills the test's group, nor a pause of
//! the child reaches it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::eventually::eventually;

/// `$0` is the log file, `$@` the child's command line. In the order of its lines:
///
/// - The child gets neither the holder's pipe (fd 3) nor the guard's input.
/// - Its pid is told before anything is waited for. It may be told before `setsid` has made the
///   group, so a signal to a group that is not there yet goes to the pid itself.
/// - `read` returns only at the end of input, for the holder never writes.
/// - The watcher is killed before the guard ends: it must not shoot at a pid that somebody else may
///   have by then.
const GUARD: &str = r#"
exec 3<&0
setsid "$@" </dev/null >>"$0" 2>&1 3<&- &
child=$!
echo "$child"
exec >/dev/null
{ read -r _ <&3; kill -KILL "-$child"; kill -KILL "$child"; } &
watcher=$!
wait "$child"
status=$?
kill -KILL "$watcher"
kill -KILL "-$child"
exit "$status"
"#;

/// SIGKILL cannot be refused; this bounds how long the kernel may take to clear a large process
/// away on a busy machine.
const DEAD_WITHIN: Duration = Duration::from_secs(30);

/// SIGSTOP cannot be refused either; a thread deep in a write to a busy disk stops after it.
const STILL_WITHIN: Duration = Duration::from_secs(30);

/// A running child with its guard. Dropping it kills the child and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    guard: Child,
    log: PathBuf,
    /// Where in the log this child's output begins.
    log_start: usize,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` and adds what it prints to the file `log`. Program, arguments, folder and
    /// single environment variables are taken from the command; its redirections are not.
    ///
    /// # Panics
    ///
    /// If no process can be started. A program that does not exist is a child that ends at once
    /// with code 127.
    pub fn start(command: &Command, log: &Path) -> Process {
        let name = Path::new(command.get_program())
            .file_name()
            .unwrap_or(OsStr::new("?"))
            .to_string_lossy()
            .into_owned();
        let log_start = std::fs::metadata(log).map_or(0, |log| log.len() as usize);
        let mut guard = Command::new("sh");
        guard.arg("-c").arg(GUARD).arg(log).arg(command.get_program()).args(command.get_args());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => guard.env(variable, value),
                None => guard.env_remove(variable),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            guard.current_dir(folder);
        }
        let mut guard = guard
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start the guard of {name}: {error}"));
        let mut line = String::new();
        let told = BufReader::new(guard.stdout.take().expect("the guard's output is piped"))
            .read_line(&mut line);
        let pid = told
            .ok()
            .and_then(|_| line.trim().parse().ok())
            .and_then(Pid::from_raw)
            .unwrap_or_else(|| panic!("the guard of {name} told no pid but {line:?}"));
        Process { name, pid, guard, log: log.to_owned(), log_start, ended: None }
    }

    /// The name of the child's program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The child's process id, which is also the id of its process group and session.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether the child has not ended yet. A paused child is running.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.guard.try_wait().expect("a child of this process can be waited for");
        }
        self.ended.is_none()
    }

    /// The exit code once it has ended; a shell's 128 + n stands for signal n.
    pub fn exit_code(&mut self) -> Option<i32> {
        if self.is_running() {
            return None;
        }
        self.ended.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)))
    }

    /// SIGKILL to the child's whole group, paused or not; returns once it is gone. Repeats do
    /// nothing.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end(DEAD_WITHIN).await;
    }

    /// SIGTERM to the child alone, as an init system sends it; returns once it has ended by itself.
    ///
    /// # Panics
    ///
    /// If it has not ended `within` that time.
    pub async fn terminate(&mut self, within: Duration) {
        if self.is_running() {
            let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        }
        self.end(within).await;
    }

    /// Waits until the child has ended.
    ///
    /// # Panics
    ///
    /// If it has not ended `within` that time.
    pub async fn end(&mut self, within: Duration) {
        let what = format!("{} (pid {}) ends", self.name, self.pid());
        eventually(&what, within, || {
            let ended = !self.is_running();
            async move { ended }
        })
        .await;
    }

    /// SIGSTOP to the whole group: it keeps its connections and answers nothing, as a machine that
    /// hangs. Returns once every thread stands still: the kernel stops them one by one, and one that
    /// runs on another core can answer for a moment after the signal.
    /// [`resume`](Self::resume) undoes it.
    ///
    /// # Panics
    ///
    /// If a thread is still running after 30 seconds.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        let begun = Instant::now();
        // Blocking, so that nobody else's turn lies between the pause and what it is made for.
        while self.is_running() && !stands_still(self.pid()) {
            assert!(begun.elapsed() < STILL_WITHIN, "{} does not stand still", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGCONT to the whole group.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// What this child has printed so far.
    pub fn output(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    fn signal(&mut self, signal: Signal) {
        if self.is_running() && rustix::process::kill_process_group(self.pid, signal).is_err() {
            // Either the group is not there yet (see GUARD), or the child has ended just now and
            // the next look will show it.
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // Blocking, because a drop cannot await: the end of a killed process is a matter of
        // milliseconds.
        let _ = self.guard.wait();
    }
}

/// Whether every thread of every process of the group has stopped or is dead.
fn stands_still(group: u32) -> bool {
    processes().filter(|process| process.group == group || process.pid == group).all(|process| {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.pid));
        threads.into_iter().flatten().flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // A thread that vanished meanwhile has no state, and does nothing.
            after_name(&stat).next().is_none_or(|state| "TtZX".contains(state))
        })
    })
}

struct Listed {
    pid: u32,
    group: u32,
}

fn processes() -> impl Iterator<Item = Listed> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let group = after_name(&stat).nth(2)?.parse().ok()?;
        Some(Listed { pid, group })
    })
}

/// The fields of /proc/PID/stat after the command's name, which may itself hold blanks and
/// brackets: state, parent, group, and more.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn start(script: &str, folder: &tempfile::TempDir) -> Process {
        Process::start(Command::new("sh").arg("-c").arg(script), &folder.path().join("log"))
    }

    /// The state letter of /proc/PID/stat; a zombie that nobody reaps is as gone as one that
    /// vanished.
    fn is_alive(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| after_name(&stat).next().is_some_and(|state| !"ZX".contains(state)))
    }

    #[tokio::test]
    async fn the_exit_code_and_output_of_a_child_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("echo said; exit 7", &folder);
        process.end(SOON).await;
        assert_eq!(process.exit_code(), Some(7));
        assert_eq!(process.output(), "said\n");
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_ends_with_127() {
        let folder = tempfile::tempdir().unwrap();
        let mut process =
            Process::start(&Command::new("/no/such/program"), &folder.path().join("log"));
        process.end(SOON).await;
        assert_eq!(process.exit_code(), Some(127));
    }

    #[tokio::test]
    async fn a_paused_child_can_be_killed_with_its_own_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("sleep 1000 & echo $!; wait", &folder);
        let grandchild: u32 = eventually("the grandchild's pid is told", SOON, || async {
            process.output().trim().parse().ok()
        })
        .await;
        process.pause();
        process.kill().await;
        assert_eq!(process.exit_code(), Some(137));
        eventually("the grandchild is gone", SOON, || async { !is_alive(grandchild) }).await;
    }

    #[tokio::test]
    async fn a_paused_group_does_nothing_from_then_on_until_it_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut process =
            start("for i in 1 2 3 4; do (while :; do echo; done) & done; wait", &folder);
        for _ in 0..20 {
            let before = process.output().len();
            eventually("it goes on", SOON, || async { process.output().len() > before }).await;
            process.pause();
            let paused = process.output().len();
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(process.output().len(), paused);
            process.resume();
        }
    }

    #[tokio::test]
    async fn a_child_that_ends_leaves_no_grandchild_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("sleep 1000 & echo $!", &folder);
        process.end(SOON).await;
        let grandchild: u32 = process.output().trim().parse().unwrap();
        eventually("the grandchild is gone", SOON, || async { !is_alive(grandchild) }).await;
    }

    #[tokio::test]
    async fn a_dropped_child_is_gone_when_the_drop_returns() {
        let folder = tempfile::tempdir().unwrap();
        let process = start("exec sleep 1000", &folder);
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(process);
        assert!(!is_alive(pid));
    }

    #[tokio::test]
    async fn terminate_lets_the_child_end_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut process =
            start("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done", &folder);
        eventually("the trap is set", SOON, || async { process.output() == "ready\n" }).await;
        process.terminate(SOON).await;
        assert_eq!(process.exit_code(), Some(3));
    }
}
