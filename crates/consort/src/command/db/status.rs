//! `consort db status`.

use std::process::ExitCode;

use clap::Args;
use consort_client::{Client, DbAdminClient};
use serde_json::Value;

use super::{size, told};
use crate::command::remote::RemoteArgs;
use crate::command::table::{Column, Table};
use crate::command::{SOMETHING_WRONG, print};

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// The database; without it, all of them
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the node's answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(super) fn run(arguments: &StatusArgs) -> ExitCode {
    arguments.remote.run(async |client: Client| {
        let databases = client.databases();
        let (shown, all) = match &arguments.name {
            Some(name) => {
                let status = databases.status(name).await.map_err(|error| told(&error))?;
                (describe(&status), vec![status])
            }
            None => {
                let all = statuses(&databases).await?;
                (overview(&all), all)
            }
        };
        let findings: Vec<String> = all.iter().flat_map(findings).collect();
        findings.iter().for_each(|finding| eprintln!("consort: {finding}"));
        match (arguments.json, &all[..], &arguments.name) {
            (true, [one], Some(_)) => print(&format!("{one}\n"))?,
            (true, all, _) => print(&format!("{}\n", Value::from(all.to_vec())))?,
            (false, ..) => print(&shown)?,
        }
        Ok(match findings.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(SOMETHING_WRONG),
        })
    })
}

async fn statuses(databases: &DbAdminClient) -> Result<Vec<Value>, String> {
    let list = databases.list().await.map_err(|error| told(&error))?;
    let mut all = Vec::new();
    for one in list["databases"].as_array().into_iter().flatten() {
        let name = one["name"].as_str().unwrap_or_default();
        all.push(databases.status(name).await.map_err(|error| told(&error))?);
    }
    Ok(all)
}

fn overview(all: &[Value]) -> String {
    let mut table = Table::new([
        Column::Left("DATABASE"),
        Column::Left("STATE"),
        Column::Right("POSITION"),
        Column::Left("LEADER"),
        Column::Right("WORKERS"),
        Column::Right("SIZE"),
    ]);
    for status in all {
        table.row([
            text(&status["name"]),
            text(&status["state"]),
            text(&status["position"]),
            leader(status).unwrap_or_else(|| "-".to_owned()),
            format!("{} of {}", workers(status).count(), number(&status["wanted"])),
            status["size"].as_u64().map_or_else(|| "-".to_owned(), size),
        ]);
    }
    table.to_string()
}

fn describe(status: &Value) -> String {
    let of_size = match status["size"].as_u64() {
        Some(bytes) => format!("{} of {}", size(bytes), size(number(&status["max_size"]))),
        None => format!("at most {}", size(number(&status["max_size"]))),
    };
    let mut shown = format!(
        "{}: {}, position {}, epoch {}, {of_size}\n",
        text(&status["name"]),
        text(&status["state"]),
        text(&status["position"]),
        text(&status["epoch"]),
    );
    let snapshots: Vec<String> = status["snapshots"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| format!("{} ({})", text(&one["position"]), size(number(&one["size"]))))
        .collect();
    let snapshots = if snapshots.is_empty() { "none yet".to_owned() } else { snapshots.join(", ") };
    shown.push_str(&format!("snapshots: {snapshots}\n"));
    if let Some(reads) = status["reads"].as_u64() {
        shown.push_str(&format!("reads in this window: {reads}\n"));
    }
    shown.push('\n');
    let mut table = Table::new([
        Column::Right("WORKER"),
        Column::Left("ROLE"),
        Column::Left("NODE"),
        Column::Left("STATE"),
        Column::Right("INDEX"),
        Column::Right("LAG"),
    ]);
    for worker in workers(status) {
        let cells = ["id", "role", "node", "state", "index", "lag"];
        table.row(cells.map(|name| text(&worker[name])));
    }
    shown + &table.to_string()
}

/// What is wrong with a database, in sentences.
fn findings(status: &Value) -> Vec<String> {
    let name = text(&status["name"]);
    let mut found = Vec::new();
    if status["state"] == "stopped" {
        let reason = text(&status["reason"]);
        found.push(format!(
            "'{name}' is stopped: {reason}; decide with `consort db resolve {name}`"
        ));
    } else if leader(status).is_none() {
        found.push(format!("'{name}' has no leader, so it takes no writes"));
    }
    let (there, wanted) = (workers(status).count() as u64, number(&status["wanted"]));
    if there < wanted {
        found.push(format!("'{name}' has {there} of {wanted} workers"));
    }
    for worker in workers(status) {
        if let Some(trouble) = worker["trouble"].as_str() {
            found.push(format!("worker {} of '{name}': {trouble}", text(&worker["id"])));
        }
    }
    found
}

fn leader(status: &Value) -> Option<String> {
    let leader = &status["leader"];
    leader["id"].as_u64().map(|id| format!("{id} on {}", text(&leader["node"])))
}

fn workers(status: &Value) -> impl Iterator<Item = &Value> {
    status["workers"].as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "name": "notes", "state": "led", "position": "1-17", "epoch": 2, "wanted": 2,
            "size": 28672, "max_size": 1 << 30, "reads": 12,
            "leader": { "id": 1, "node": "a" },
            "workers": [
                { "id": 1, "role": "leader", "node": "a", "state": "ready", "index": 17, "lag": 0 },
                { "id": 2, "role": "reader", "node": "b", "state": "ready", "index": 16, "lag": 1 },
            ],
            "snapshots": [{ "position": "1-10", "size": 20480 }],
        })
    }

    #[test]
    fn a_database_is_shown_with_its_workers() {
        let expected = "\
notes: led, position 1-17, epoch 2, 28.0 KiB of 1.0 GiB
snapshots: 1-10 (20.0 KiB)
reads in this window: 12

WORKER  ROLE    NODE  STATE  INDEX  LAG
     1  leader  a     ready     17    0
     2  reader  b     ready     16    1
";
        assert_eq!(describe(&status()), expected);
        let expected = "\
DATABASE  STATE  POSITION  LEADER  WORKERS      SIZE
notes     led        1-17  1 on a   2 of 2  28.0 KiB
";
        assert_eq!(overview(&[status()]), expected);
        assert_eq!(findings(&status()), Vec::<String>::new());
    }

    #[test]
    fn everything_that_is_wrong_is_told_in_sentences() {
        let with = |member: &str, value: Value| {
            let mut status = status();
            status[member] = value;
            findings(&status).join("; ")
        };
        assert_eq!(with("leader", Value::Null), "'notes' has no leader, so it takes no writes");
        assert_eq!(with("wanted", json!(3)), "'notes' has 2 of 3 workers");
        let mut stopped = status();
        stopped["state"] = "stopped".into();
        stopped["reason"] = "entry 17 is gone".into();
        let told = "'notes' is stopped: entry 17 is gone; decide with `consort db resolve notes`";
        assert_eq!(findings(&stopped), [told]);
        let mut hindered = status();
        hindered["workers"][1]["trouble"] = "its disk is full".into();
        assert_eq!(findings(&hindered), ["worker 2 of 'notes': its disk is full"]);
    }
}
