//! `consort db verify`, `analyze` and `resolve`.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde_json::Value;

use super::{DatabaseArgs, told};
use crate::command::table::{Column, Table};
use crate::command::{SOMETHING_WRONG, print};

#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args)]
#[command(group = ArgGroup::new("decision").required(true))]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Go on with what the store still has
    #[arg(long, group = "decision")]
    accept: bool,
    /// Go on with the file of this worker
    #[arg(long, value_name = "ID", group = "decision")]
    from_worker: Option<u64>,
}

pub(super) fn verify(arguments: &VerifyArgs) -> ExitCode {
    arguments.database.run(async |databases, name| {
        let answer = databases.verify(name).await.map_err(|error| told(&error))?;
        show(&answer, "SAME")
    })
}

pub(super) fn analyze(arguments: &AnalyzeArgs) -> ExitCode {
    arguments.database.run(async |databases, name| {
        let answer = databases.analyze(name).await.map_err(|error| told(&error))?;
        show(&answer, "DONE")
    })
}

pub(super) fn resolve(arguments: &ResolveArgs) -> ExitCode {
    let ResolveArgs { database, accept: _, from_worker } = arguments;
    database.run(async |databases, name| {
        let answer = databases.resolve(name, *from_worker).await.map_err(|error| told(&error))?;
        eprintln!("consort: '{name}' is in a new era and takes writes again");
        print(&format!("{}\n", answer["position"].as_str().unwrap_or_default()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// A line for each worker; what is wrong goes to standard error.
fn show(answer: &Value, good: &'static str) -> Result<ExitCode, String> {
    let workers = answer["workers"].as_array().cloned().unwrap_or_default();
    if workers.is_empty() {
        eprintln!("consort: the database has no live worker");
    }
    for worker in &workers {
        if let Some(trouble) = worker["trouble"].as_str() {
            eprintln!("consort: worker {}: {trouble}", worker["id"]);
        }
    }
    print(&lines(&workers, good))?;
    Ok(match answer["ok"] == true {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(SOMETHING_WRONG),
    })
}

fn lines(workers: &[Value], good: &'static str) -> String {
    let mut table = Table::new([
        Column::Right("WORKER"),
        Column::Left("NODE"),
        Column::Right("POSITION"),
        Column::Left(good),
        Column::Left("CONTENT"),
    ]);
    for worker in workers {
        let text = |member: &str| worker[member].as_str().unwrap_or("-").to_owned();
        let is_good = if worker["ok"] == true { "yes" } else { "no" };
        table.row([
            worker["id"].to_string(),
            text("node"),
            text("position"),
            is_good.to_owned(),
            text("content"),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_worker_has_a_line() {
        let workers = [
            json!({ "id": 1, "node": "a", "position": "1-17", "content": "0a", "ok": true }),
            json!({ "id": 2, "node": "b", "ok": false, "trouble": "gone" }),
        ];
        let expected = "\
WORKER  NODE  POSITION  SAME  CONTENT
     1  a         1-17  yes   0a
     2  b            -  no    -
";
        assert_eq!(lines(&workers, "SAME"), expected);
    }
}
