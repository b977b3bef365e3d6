//! `examples/content.toml`: good, and its commands do what they say on a real node. Then the commands of `consort glue`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use consort_testbed::{Port, Process, eventually};
use serde_json::Value;

use crate::bed::{Editor, PATIENCE};

const EXAMPLE: &str = include_str!("../../../../examples/content.toml");

/// The commands at the head of the file.
fn head_commands() -> Vec<&'static str> {
    let head = EXAMPLE.lines().take_while(|line| line.starts_with('#'));
    head.filter_map(|line| line.strip_prefix("#   ")).collect()
}

/// The binary, with an environment of its own.
pub(crate) fn consort(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONSORT_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// A node of a config as a process, and the commands beside it.
pub(crate) struct Bed {
    _port: Port,
    address: String,
    pub(crate) node: Process,
    command: Command,
    folder: tempfile::TempDir,
}

impl Bed {
    async fn start() -> Bed {
        Bed::start_with(EXAMPLE).await
    }

    pub(crate) async fn start_with(config: &str) -> Bed {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("content.toml");
        fs::write(&path, config).expect("a file");
        let port = Port::claim();
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = consort(&["serve", "-c"]);
        command.arg(&path).args(["--listen", &address]).current_dir(folder.path());
        let node = Process::start(&command, &folder.path().join("node.log"));
        let bed = Bed { _port: port, address, node, command, folder };
        bed.listens().await;
        bed
    }

    async fn listens(&self) {
        let said = || self.node.output();
        eventually("the node listens", PATIENCE, || async {
            said().contains("listens on http://")
        })
        .await;
    }

    /// Ends the node in order, and starts it as it was.
    pub(crate) async fn restart(&mut self) {
        self.node.terminate(PATIENCE).await;
        self.node = Process::start(&self.command, &self.folder.path().join("node.log"));
        self.listens().await;
    }

    /// Kills the node as `kill -9` does, and starts it as it was.
    pub(crate) async fn crash(&mut self) {
        self.node.kill().await;
        self.node = Process::start(&self.command, &self.folder.path().join("node.log"));
        self.listens().await;
    }

    pub(crate) fn editor(&self) -> Editor {
        Editor::at(&format!("http://{}", self.address), None)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `consort glue` with this input.
    pub(crate) fn glue(&self, arguments: &[&str], input: &str) -> Output {
        let url = format!("http://{}", self.address);
        let file = self.path().join("input");
        fs::write(&file, input).expect("a file");
        let mut command = consort(&["glue"]);
        command.args(arguments).args(["--url", &url]).current_dir(self.path());
        command.stdin(fs::File::open(file).expect("the file")).stdout(Stdio::piped());
        command.output().expect("it runs")
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn the_example_does_what_it_says() {
    let bed = Bed::start().await;
    let commands = head_commands();
    assert_eq!(commands[0], "consort serve -c examples/content.toml");
    let mut answers = Vec::new();
    for curl in &commands[1..] {
        assert!(curl.starts_with("curl --fail "), "{curl}");
        let command = curl.replace("127.0.0.1:7400", &bed.address);
        let output = Command::new("sh").args(["-ec", &command]).output().expect("a shell");
        assert!(output.status.success(), "{command}: {output:?}");
        answers.push(out(&output));
    }
    let film = r#"{"rights":{"de":true},"title":"Metropolis","year":1927}"#;
    assert_eq!(answers[2], film);
    assert_eq!(answers[3], r#"[{"op":"add","path":"/rights","value":{"de":true}}]"#);
    assert_eq!(answers[6], "<guide><show start=\"21:00\">Metropolis</show></guide>");
    assert_eq!(answers[7].lines().count(), 2, "{}", answers[7]);
}

#[tokio::test]
async fn documents_are_kept_from_the_command_line() {
    let mut bed = Bed::start().await;
    let put = bed.glue(&["put", "content", "crid://a/1"], "{\"title\": \"A\"}");
    assert!(put.status.success(), "{}", words(&put));
    let answer: Value = serde_json::from_str(&out(&put)).expect("JSON");
    assert_eq!((&answer["state"], &answer["version"]), (&"applied".into(), &1.into()));
    let numbered = ["patch", "content", "crid://a/1", "--source", "epg", "--seq", "1"];
    for told in [false, true] {
        let patch = bed.glue(&numbered, "{\"n\": 1}");
        assert!(patch.status.success(), "{}", words(&patch));
        assert_eq!(words(&patch).contains("came before"), told);
    }
    let dry = bed.glue(&["patch", "content", "crid://a/1", "--dry-run"], "{\"n\": 2}");
    assert!(out(&dry).contains("\"dry_run\":true"), "{}", out(&dry));
    let get = bed.glue(&["get", "content", "crid://a/1"], "");
    assert_eq!(out(&get), "{\"n\":1,\"title\":\"A\"}\n");
    assert!(words(&get).starts_with("ETag \"") && words(&get).contains(" live"), "{}", words(&get));
    let old = bed.glue(&["get", "content", "crid://a/1", "--version", "1"], "");
    assert_eq!(out(&old), "{\"title\":\"A\"}\n");
    let none = bed.glue(&["get", "content", "none"], "");
    assert_eq!((none.status.code(), out(&none)), (Some(1), String::new()));
    assert!(words(&none).contains("no-document"), "{}", words(&none));
    let json_patch = ["patch", "content", "crid://a/1", "--form", "json-patch"];
    let failed = bed.glue(&json_patch, "[{\"op\":\"remove\",\"path\":\"/x\"}]");
    assert!(failed.status.code() == Some(1) && words(&failed).contains("missing-path"));
    let rejects = out(&bed.glue(&["rejects", "content", "--id", "crid://a/1"], ""));
    let reject: Value = serde_json::from_str(rejects.trim()).expect("one line");
    assert_eq!(reject["reason"], "missing-path");
    let versions = out(&bed.glue(&["versions", "content", "crid://a/1"], ""));
    assert_eq!(versions.lines().count(), 2, "{versions}");
    let place = reject["place"].as_str().expect("a place");
    let discard = bed.glue(&["discard", "content", "crid://a/1", place], "");
    assert!(discard.status.code() == Some(1) && words(&discard).contains("not-halted"));

    // The engine belongs to the node until it has ended.
    bed.node.terminate(PATIENCE).await;
    let verify = consort(&["glue", "verify", "content", "-c", "content.toml"])
        .current_dir(bed.path())
        .output()
        .expect("it runs");
    assert_eq!(verify.status.code(), Some(0), "{}", words(&verify));
    assert_eq!(out(&verify), "");
    assert!(words(&verify).contains("1 documents are as the log makes them"), "{}", words(&verify));
}

#[test]
fn every_command_teaches_its_use() {
    for command in ["get", "put", "patch", "versions", "rejects", "retry", "discard", "verify"] {
        let help = consort(&["glue", command, "--help"]).output().expect("it runs");
        let said = out(&help);
        assert!(
            help.status.success() && said.contains("Examples:") && said.contains("Exit codes:")
                || ["versions", "rejects"].contains(&command) && said.contains("Examples:"),
            "{said}"
        );
    }
}
