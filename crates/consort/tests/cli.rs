//! The real binary: what `check` and `config` print, and a node that starts, answers and stops.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn consort(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(arguments);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CONSORT_"))
    {
        command.env_remove(name);
    }
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn config(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consort.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn the_printed_defaults_pass_their_own_check() {
    let (code, defaults, stderr) = run(&mut consort(&["config", "--defaults"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (_folder, path) = config(&defaults);
    let (code, stdout, stderr) = run(&mut consort(&["check", "-c", &path]));
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.starts_with(&format!("{path} is good. It would run:\n")), "{stderr}");
    assert!(stderr.contains("engine  embedded:./consort-data"), "{stderr}");
}

#[test]
fn check_reports_every_mistake_and_fails() {
    let (_folder, path) = config(
        "[http]\nlisen = \"127.0.0.1:1\"\n[engine]\nurl = \"redis://:s3cret@h\"\nshards = 0\n",
    );
    let mut command = consort(&["check", "-c", &path, "--set", "log.levle=debug"]);
    let (code, stdout, stderr) = run(command.env("CONSORT_HTTP_LISTN", "x"));
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let expected = format!(
        "\
consort: 4 mistakes in the config; mend them and try again
{path}:2:1: unknown setting 'lisen' in [http]; did you mean 'listen'?
  2 | lisen = ***
    | ^^^^^
{path}:5:10: 'shards' in [engine] must be a whole number from 1 to 256, not 0
  5 | shards = 0
    |          ^
CONSORT_HTTP_LISTN: no setting has this environment variable; did you mean CONSORT_HTTP_LISTEN?
--set log.levle: unknown setting 'log.levle'; did you mean 'log.level'?
"
    );
    assert_eq!(stderr, expected);
}

#[test]
fn check_says_what_would_run_without_the_password() {
    let (_folder, path) =
        config("[node]\nid = \"a\"\n[engine]\nurl = \"redis://:s3cret@h:6379/0\"\n");
    let (code, _, stderr) = run(&mut consort(&["check", "-c", &path]));
    assert_eq!(code, Some(0));
    assert!(
        stderr.contains("node    'a'") && stderr.contains("engine  redis://:***@h:6379/0"),
        "{stderr}"
    );
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn a_missing_file_and_a_missing_flag_are_named() {
    let (code, _, stderr) = run(&mut consort(&["check", "-c", "/nowhere/consort.toml"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot read the config file /nowhere/consort.toml"), "{stderr}");
    let (code, _, stderr) = run(&mut consort(&["check"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("consort check -c consort.toml"), "{stderr}");
    let (code, _, _) = run(&mut consort(&["config"]));
    assert_eq!(code, Some(2));
}

#[test]
fn serve_refuses_another_engine_without_a_file() {
    let (code, _, stderr) = run(&mut consort(&["serve", "--engine", "memory:"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--engine: without a config file Consort runs its tour"), "{stderr}");
}

#[test]
fn help_teaches_and_version_is_told() {
    let (code, help, _) = run(&mut consort(&["--help"]));
    assert_eq!(code, Some(0));
    assert!(
        help.contains("consort config --defaults > consort.toml") && help.contains("Exit codes:"),
        "{help}"
    );
    let (_, version, _) = run(&mut consort(&["--version"]));
    assert_eq!(version, format!("consort {}\n", env!("CARGO_PKG_VERSION")));
}

/// A serving process, killed if the test fails before it stops.
struct Serving {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        let mut child = consort(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let line = line_with(&mut stderr, "http://");
        let (_, address) = line.split_once("http://").unwrap();
        let address = address.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
        Serving { child, stderr, address }
    }

    fn wait_for(&mut self, words: &str) {
        line_with(&mut self.stderr, words);
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// A process that is killed when the test is done with it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads on until a line has these words; panics with all that was said when the process ends
/// without them.
fn line_with(stderr: &mut impl BufRead, words: &str) -> String {
    let mut told = String::new();
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended without '{words}':\n{told}");
        if line.contains(words) {
            return line;
        }
        told.push_str(&line);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Only matters when a test failed; after `end` the process is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_serves_and_stops_gracefully_on_either_signal() {
    let (_folder, path) = config("[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n");
    for signal in [Signal::TERM, Signal::INT] {
        let node = Serving::start(&["serve", "-c", &path, "--node", "n1"]);
        assert!(node.get("/healthz").starts_with("HTTP/1.1 200 "));
        assert!(node.get("/readyz").starts_with("HTTP/1.1 200 "));
        let metrics = node.get("/metrics");
        assert!(
            metrics.contains("consort_engine_info{log=\"memory\",store=\"memory\"} 1"),
            "{metrics}"
        );
        node.signal(signal);
        let (code, rest) = node.end();
        assert_eq!(code, Some(0), "{rest}");
        assert!(rest.contains("stopping"), "{rest}");
    }
}

#[test]
fn a_json_log_is_json_from_its_first_line() {
    let (_folder, path) = config(
        "[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n[log]\nformat = \"json\"\n",
    );
    let node = Serving::start(&["serve", "-c", &path]);
    node.signal(Signal::TERM);
    let (code, rest) = node.end();
    assert_eq!(code, Some(0));
    assert!(
        !rest.is_empty() && rest.lines().all(|line| line.starts_with('{') && line.ends_with('}')),
        "{rest}"
    );
}

/// A stream of four partitions, so that the node has roles.
const WITH_ROLES: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n\
    [stream.rides]\npartitions = 4\nfields = { skier = \"int\" }\n";

#[test]
fn serve_greets_when_it_is_at_work_and_nothing_comes_between() {
    let (_folder, path) = config(WITH_ROLES);
    let mut child =
        consort(&["serve", "-c", &path, "--node", "n1"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("lists what it serves") {
        assert!(stderr.read_line(&mut told).unwrap() > 0, "it ended:\n{told}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");

    let lines: Vec<&str> = told.lines().collect();
    let greeting = &lines[lines.len() - 5..];
    assert_eq!(greeting[0], format!("consort {}", env!("CARGO_PKG_VERSION")), "{told}");
    assert!(greeting[1].starts_with("engine: memory; nothing survives"), "{told}");
    // Four workers, and the keeper of the stream.
    assert_eq!(greeting[2], "node 'n1' owns all 5 roles", "{told}");
    let (listens, address) = greeting[3].split_once("http://").unwrap();
    assert_eq!(listens, "node 'n1' listens on ", "{told}");
    assert!(address.starts_with("127.0.0.1:"), "{told}");
    let try_this = format!("to begin with, GET http://{address}/ lists what it serves");
    assert_eq!(greeting[4], try_this, "{told}");
    // What comes next is the stop.
    assert!(rest.starts_with("stopping: "), "{rest}");
    for said in [&told, &rest] {
        assert!(!said.contains("worker:") && !said.contains('\x1b'), "{said:?}");
    }
}

#[test]
fn each_role_is_told_of_at_debug() {
    let (_folder, path) = config(WITH_ROLES);
    let node = Serving::start(&["serve", "-c", &path, "--set", "log.level=debug"]);
    node.signal(Signal::TERM);
    let (code, rest) = node.end();
    assert_eq!(code, Some(0));
    assert!(rest.contains("released a role") && rest.contains("role=worker:rides/3"), "{rest}");
}

#[test]
fn a_terminal_is_coloured_unless_its_user_says_no() {
    let (_folder, path) = config(WITH_ROLES);
    let binary = env!("CARGO_BIN_EXE_consort");
    for (no_color, coloured) in [(None, true), (Some("1"), false)] {
        // `script` gives the node a terminal, and copies what the node says to its own output.
        let serve = format!("exec {binary} serve -c {path}");
        let mut command = Command::new("script");
        command.args(["-qefc", &serve, "/dev/null"]).stdout(Stdio::piped()).stdin(Stdio::null());
        command.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        let mut terminal = Killed(command.spawn().unwrap());
        let mut output = BufReader::new(terminal.0.stdout.take().unwrap());
        let mut told = String::new();
        while !told.contains("listens on http://") {
            assert!(output.read_line(&mut told).unwrap() > 0, "it ended:\n{told}");
        }
        assert!(told.contains("joined the cluster"), "{told}");
        assert_eq!(told.contains('\x1b'), coloured, "{told:?}");
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let (_folder, path) = config("[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n");
    let mut node =
        Serving::start(&["serve", "-c", &path, "--set", "log.level=info,consort_server=trace"]);
    // A request whose headers never end keeps the first stop waiting.
    let mut stream = TcpStream::connect(&node.address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    node.wait_for("a request begins to arrive");
    node.signal(Signal::TERM);
    node.wait_for("stopping");
    node.signal(Signal::TERM);
    let (code, rest) = node.end();
    assert_eq!(code, Some(128 + 15), "{rest}");
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_folder, path) = config("[engine]\nurl = \"memory:\"\n");
    let (code, _, stderr) = run(&mut consort(&["serve", "-c", &path, "--listen", &address]));
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains(&format!("{address} is in use")) && stderr.contains("--listen"),
        "{stderr}"
    );
}
