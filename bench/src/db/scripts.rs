//! The requests, as scripts of `wrk`. Each thread makes its requests before it begins.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

use crate::wrk::DONE;

/// Requests that each thread makes beforehand.
const REQUESTS: usize = 10_000;

pub(super) const INSERT: &str = "INSERT INTO points (value) VALUES (?)";
pub(super) const READ: &str = "SELECT value FROM points WHERE id = ?";

/// The scripts in a folder of their own.
#[derive(Debug)]
pub(super) struct Scripts(TempDir);

impl Scripts {
    /// Writes all scripts. Reads pick one of `rows` rows.
    pub(super) fn write(rows: u64) -> Result<Scripts> {
        let folder = tempfile::Builder::new().prefix("consort-wrk-").tempdir()?;
        for (name, path, body) in requests() {
            let text = script(path, &body, rows);
            fs::write(folder.path().join(format!("{name}.lua")), text)?;
        }
        Ok(Scripts(folder))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.lua"))
    }
}

/// Name, path and body of each kind of request. `VALUE` stands for a new text, `ROW` for the number of a row.
fn requests() -> [(&'static str, &'static str, String); 8] {
    let hrana = |sql: &str, argument: &str| {
        format!(
            r#"{{"requests":[{{"type":"execute","stmt":{{"sql":"{sql}","args":[{argument}]}}}},{{"type":"close"}}]}}"#
        )
    };
    let text = r#"{"type":"text","value":"VALUE"}"#;
    let row = r#"{"type":"integer","value":"ROW"}"#;
    [
        ("insert", "/db/bench/write", format!(r#"{{"statements":[["{INSERT}","VALUE"]]}}"#)),
        ("read", "/db/bench/read", format!(r#"{{"query":["{READ}",ROW]}}"#)),
        ("hrana-insert", "/db/bench/v2/pipeline", hrana(INSERT, text)),
        ("hrana-read", "/db/bench/v2/pipeline", hrana(READ, row)),
        ("sqld-insert", "/v2/pipeline", hrana(INSERT, text)),
        ("sqld-read", "/v2/pipeline", hrana(READ, row)),
        ("rqlite-insert", "/db/execute", format!(r#"[["{INSERT}","VALUE"]]"#)),
        ("rqlite-read", "/db/query", format!(r#"[["{READ}",ROW]]"#)),
    ]
}

fn script(path: &str, body: &str, rows: u64) -> String {
    format!(
        "local threads = 0\n\
         function setup(thread)\n  threads = threads + 1\n  thread:set(\"number\", threads)\nend\n\
         function init()\n  math.randomseed(os.time() + number)\n  made = {{}}\n\
         for n = 1, {REQUESTS} do\n\
         local body = [[{body}]]\n\
         body = body:gsub(\"VALUE\", string.format(\"%032x\", math.random(1, 2000000000)))\n\
         body = body:gsub(\"ROW\", tostring(math.random(1, {rows})))\n\
         made[n] = wrk.format(\"POST\", \"{path}\", {{ [\"content-type\"] = \"application/json\" }}, body)\n\
         end\n  turn = 0\nend\n\
         function request()\n  turn = turn % {REQUESTS} + 1\n  return made[turn]\nend\n\n{DONE}"
    )
}
