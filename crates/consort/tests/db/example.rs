//! `examples/notes.toml`: its commands do what they say on a real node. Then the commands of `consort db`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use consort_testbed::{Port, Process, eventually};

use crate::bed::PATIENCE;

const EXAMPLE: &str = include_str!("../../../../examples/notes.toml");

/// The commands at the head of the file.
fn head_commands() -> Vec<&'static str> {
    let head = EXAMPLE.lines().take_while(|line| line.starts_with('#'));
    head.filter_map(|line| line.strip_prefix("#   ")).collect()
}

/// The example names its schema folder from here.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Bed {
    _port: Port,
    address: String,
    _node: Process,
    folder: tempfile::TempDir,
}

impl Bed {
    async fn start() -> Bed {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::claim();
        let address = format!("127.0.0.1:{}", port.number());
        let engine = format!("embedded:{}", folder.path().join("data").display());
        let mut command = consort(&["serve", "-c", "examples/notes.toml"]);
        command.args(["--listen", &address, "--engine", &engine]).current_dir(root());
        let node = Process::start(&command, &folder.path().join("node.log"));
        eventually("the node listens", PATIENCE, || async {
            node.output().contains("listens on http://")
        })
        .await;
        Bed { _port: port, address, _node: node, folder }
    }

    /// Runs `consort db` with this input.
    fn db(&self, arguments: &[&str], input: &str) -> Output {
        let file = self.folder.path().join("input");
        fs::write(&file, input).expect("a file");
        let mut command = consort(&["db"]);
        command.args(arguments).args(["--url", &format!("http://{}", self.address)]);
        command.current_dir(self.folder.path());
        command.stdin(fs::File::open(file).expect("the file")).output().expect("it runs")
    }
}

/// The binary, with an environment of its own.
fn consort(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONSORT_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_does_what_it_says() {
    let bed = Bed::start().await;
    let commands = head_commands();
    assert_eq!(commands[0], "consort serve -c examples/notes.toml");
    let mut answers = Vec::new();
    for line in &commands[1..] {
        let command = line
            .replace("127.0.0.1:7400", &bed.address)
            .replace("consort db", &format!("{} db", env!("CARGO_BIN_EXE_consort")));
        let url = format!("http://{}", bed.address);
        let run = Command::new("sh").args(["-ec", &command]).env("CONSORT_URL", &url).output();
        let output = run.expect("a shell");
        assert!(output.status.success(), "{command}: {output:?}");
        answers.push(out(&output));
    }
    assert!(answers[0].starts_with(r#"{"position":"1-3","index":3,"#), "{}", answers[0]);
    // A default read may be of a moment before the write.
    assert!(answers[1].starts_with(r#"{"columns":["id","title"],"rows":["#), "{}", answers[1]);
    assert!(answers[3].contains("Buy milk"), "{}", answers[3]);
    assert!(answers[4].contains(r#""state":"led""#), "{}", answers[4]);
    assert!(answers[5].contains(r#""op":"insert""#), "{}", answers[5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_run_from_the_command_line() {
    let bed = Bed::start().await;
    let insert = "INSERT INTO notes (author, title) VALUES ('ann', 'Buy milk')";
    let inserted = bed.db(&["shell", "notes", insert], "");
    assert!(inserted.status.success(), "{}", words(&inserted));
    assert_eq!((out(&inserted), words(&inserted)), (String::new(), "1 row changed, 1-3\n".into()));
    let script = "-- two statements\nINSERT INTO tags VALUES (1,\n 'home');\n.tables\n\
        WITH gone AS (SELECT 1) DELETE FROM tags WHERE note IN gone;\nSELECT id, title FROM notes";
    let ran = bed.db(&["shell", "notes"], script);
    assert!(ran.status.success(), "{}", words(&ran));
    let shown = out(&ran);
    assert!(shown.starts_with("name\nnotes\n") && shown.contains("\ntags\n"), "{shown}");
    assert!(shown.ends_with("id  title\n1   Buy milk\n"), "{shown}");
    let json = bed.db(&["shell", "notes", "--json", "SELECT id, author FROM notes"], "");
    assert_eq!(out(&json), "[1,\"ann\"]\n");
    let failed = bed.db(&["shell", "notes"], "SELECT * FROM nowhere;\nDELETE FROM notes;\n");
    assert_eq!((failed.status.code(), out(&failed)), (Some(1), String::new()));
    assert!(words(&failed).contains("no such table: nowhere (db-request)"), "{}", words(&failed));
    let kept = bed.db(&["shell", "notes", "--json", "SELECT count(*) FROM notes"], "");
    assert_eq!(out(&kept), "[1]\n", "the first failure is the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_is_told_from_the_command_line() {
    let bed = Bed::start().await;
    let all_is_well = || async {
        let status = bed.db(&["status"], "");
        status.status.success() && out(&status).contains("notes     led")
    };
    eventually("both workers are there", PATIENCE, all_is_well).await;
    let one = out(&bed.db(&["status", "notes"], ""));
    assert!(
        one.starts_with("notes: led, position 1-2, epoch 1, ") && one.contains("leader"),
        "{one}"
    );
    let json = out(&bed.db(&["status", "notes", "--json"], ""));
    assert!(json.starts_with('{') && json.contains("\"state\":\"led\""), "{json}");
    let none = bed.db(&["status", "none"], "");
    assert_eq!((none.status.code(), out(&none)), (Some(1), String::new()));
    assert!(words(&none).contains("there is no database 'none'"), "{}", words(&none));
    let undecided = bed.db(&["resolve", "notes"], "");
    assert_eq!(undecided.status.code(), Some(2), "{}", words(&undecided));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_backed_up_checked_and_restored() {
    let bed = Bed::start().await;
    let insert = "INSERT INTO notes (author, title) VALUES ('ann', 'it''s kept')";
    assert!(bed.db(&["shell", "notes", insert], "").status.success());
    let both = || async {
        let status = bed.db(&["status"], "");
        status.status.success()
    };
    eventually("both workers are there", PATIENCE, both).await;
    for order in ["verify", "analyze"] {
        let done = bed.db(&[order, "notes"], "");
        assert!(done.status.success(), "{order}: {} {}", out(&done), words(&done));
        assert_eq!(out(&done).lines().count(), 3, "{order}: {}", out(&done));
    }
    let backup = bed.db(&["backup", "notes", "monday.db"], "");
    assert!(backup.status.success(), "{}", words(&backup));
    assert!(words(&backup).contains("has 'notes' as of 1-3"), "{}", words(&backup));
    let again = bed.db(&["backup", "notes", "monday.db"], "");
    assert!(
        again.status.code() == Some(1) && words(&again).contains("exists"),
        "{}",
        words(&again)
    );
    let dump = bed.db(&["dump", "notes"], "");
    assert!(dump.status.success(), "{}", words(&dump));
    let text = out(&dump);
    assert!(text.contains("'it''s kept'") && !text.contains("_consort"), "{text}");

    assert!(bed.db(&["shell", "notes", "DELETE FROM notes"], "").status.success());
    let restore = bed.db(&["restore", "notes", "monday.db"], "");
    assert_eq!(
        (restore.status.code(), out(&restore)),
        (Some(0), "2-0\n".into()),
        "{}",
        words(&restore)
    );
    let titles = ["shell", "notes", "--json", "SELECT title FROM notes"];
    let restored = bed.db(&titles, "");
    assert_eq!(out(&restored), "[\"it's kept\"]\n", "{}", words(&restored));
    fs::write(bed.folder.path().join("no.db"), "no database").expect("a file");
    let refused = bed.db(&["restore", "notes", "no.db"], "");
    assert!(refused.status.code() == Some(1), "{}", words(&refused));
    assert!(words(&refused).contains("is not a SQLite file"), "{}", words(&refused));
    let running = bed.db(&["resolve", "notes", "--accept"], "");
    assert!(running.status.code() == Some(1), "{}", words(&running));
    assert!(words(&running).contains("is not stopped"), "{}", words(&running));
}
