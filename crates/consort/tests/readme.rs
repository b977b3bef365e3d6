//! Every command in the README is run, as a new user would: in an empty folder, in its order.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use consort_testbed::Port;
use rustix::process::{Pid, Signal, kill_process};

const README: &str = include_str!("../../../README.md");
const RUN: &str = "cargo run --release -- ";

/// Where the README and the examples have the sample upstream.
const UPSTREAM: &str = "127.0.0.1:9000";

/// The lines of all blocks marked `sh`.
fn commands() -> Vec<&'static str> {
    let mut commands = Vec::new();
    let mut inside = false;
    for line in README.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => commands.push(line),
            _ => {}
        }
    }
    commands
}

fn shell(folder: &Path, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSORT_") {
            command.env_remove(name);
        }
    }
    command
}

/// The examples, as in a checkout, but for the upstream's port, which another test may have.
fn copy_examples(folder: &Path, upstream: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::create_dir(folder.join("examples")).expect("a folder");
    for example in fs::read_dir(examples).expect("the examples") {
        let path = example.expect("an example").path();
        let text = fs::read_to_string(&path).expect("text").replace(UPSTREAM, upstream);
        let name = path.file_name().expect("a name");
        fs::write(folder.join("examples").join(name), text).expect("a copy");
    }
}

/// A node or an upstream that serves, and where.
struct Serving {
    node: Child,
    address: String,
}

impl Serving {
    fn start(folder: &Path, line: &str) -> Self {
        let mut command = shell(folder, &format!("exec {line}"));
        // Any free port instead of 7400, which another test may have.
        command.env("CONSORT_HTTP_LISTEN", "127.0.0.1:0").stderr(Stdio::piped());
        let mut node = command.spawn().expect("a shell");
        let mut told = String::new();
        let mut lines = BufReader::new(node.stderr.take().expect("its words")).lines();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended:\n{told}")).expect("a line");
            told = told + &line + "\n";
            if let Some((_, address)) = line.split_once("listens on http://") {
                break address.trim_end_matches("/items/").to_string();
            }
        };
        // What else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Serving { node, address }
    }

    fn stop(mut self) {
        let pid = Pid::from_child(&self.node);
        kill_process(pid, Signal::TERM).expect("SIGTERM");
        let status = self.node.wait().expect("its end");
        assert!(status.success(), "a node that is told to stop ends well: {status}");
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = format!("{} ", env!("CARGO_BIN_EXE_consort"));
    let port = Port::claim();
    let upstream = format!("127.0.0.1:{}", port.number());
    copy_examples(folder.path(), &upstream);
    let mut serving: Option<Serving> = None;
    let mut sample: Option<Serving> = None;
    let mut ran = 0;
    for line in commands() {
        if line.starts_with(&format!("{RUN}serve")) {
            if let Some(before) = serving.take() {
                before.stop();
            }
            serving = Some(Serving::start(folder.path(), &line.replace(RUN, &binary)));
        } else if line.starts_with(&format!("{RUN}sample-upstream")) {
            let line = format!("{} --listen {upstream}", line.replace(RUN, &binary));
            sample = Some(Serving::start(folder.path(), &line));
        } else if line == "cargo xtask test" {
            // This is what runs this test.
            continue;
        } else {
            let mut line = line.replace(RUN, &binary).replace(UPSTREAM, &upstream);
            if let Some(serving) = &serving {
                line = line.replace("127.0.0.1:7400", &serving.address);
            }
            let mut command = shell(folder.path(), &line);
            if let Some(serving) = &serving {
                command.env("CONSORT_URL", format!("http://{}", serving.address));
            }
            let status = command.stdout(Stdio::null()).status();
            assert!(
                status.expect("a shell").success(),
                "this command of the README failed: {line}"
            );
        }
        ran += 1;
    }
    serving.expect("the README starts a node").stop();
    sample.expect("the README starts an upstream").stop();
    assert!(ran >= 6, "the README's commands were not found");
    assert!(fs::exists(folder.path().join("consort-tour")).expect("a look"), "the tour's folder");
}
