//! The change stream of a database, `GET /feeds/db/{name}`: the rows of its history table, as any subscriber gets them.

use std::time::Duration;

use consort_client::{Client, Connection, Method};
use serde_json::Value;

use super::client::{ERA, NodeList};
use crate::lin::history::{Row, RowCell};

/// Changes in one page: several pages of everything.
const PAGE: usize = 500;

/// How long a page may take; it bounds a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The rows that were added to the history table, each with the index of its write, ordered by index and row. Each page is
/// another node's.
///
/// # Panics
///
/// If a node does not answer, or a change is none that the workloads make.
pub async fn history(nodes: &NodeList, database: &str) -> Vec<(u64, Row)> {
    let (mut rows, mut after): (Vec<(u64, Row)>, String) = Default::default();
    for address in nodes.all().iter().cycle() {
        let path = format!("/feeds/db/{database}?limit={PAGE}{after}");
        let client = Client::new(address, None).expect("an address");
        let reply = Connection::new(client, ANSWER_WITHIN).send(Method::GET, &path, &[], "").await;
        let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = String::from_utf8_lossy(&reply.body);
        assert_eq!(reply.status, 200, "{path}: {text}");
        let changes: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a change is JSON"))
            .collect();
        rows.extend(changes.iter().filter_map(added));
        let cursor = reply.header("consort-cursor").expect("a page has a cursor");
        let next = format!("&after={cursor}");
        if changes.is_empty() && next == after {
            break;
        }
        after = next;
    }
    assert!(rows.is_sorted_by_key(|(index, _)| *index), "the stream goes forward");
    // Changes of one index come in any order.
    rows.sort();
    rows
}

/// The row that a change adds to the history table.
fn added(change: &Value) -> Option<(u64, Row)> {
    if change["table"] != "history" {
        return None;
    }
    assert_eq!(change["op"], "insert", "rows are only added to the history: {change}");
    let position = change["position"].as_str().unwrap_or_default();
    let index = position.strip_prefix(&format!("{ERA}-")).and_then(|index| index.parse().ok());
    // A new row has all its columns. The key is the first.
    let values = |name: &str| change[name].as_array().into_iter().flatten();
    let cells = values("new").map(|value| value.as_i64().map(RowCell::Integer));
    let row: Option<Row> = cells.collect();
    let is_whole = values("columns").filter_map(Value::as_u64).eq(0..values("new").count() as u64)
        && values("key").eq(values("new").take(1));
    match (index, row) {
        (Some(index), Some(row)) if is_whole => Some((index, row)),
        _ => panic!("this adds no row to a history: {change}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_of_the_history_has_an_index_and_a_row() {
        let change = json!({
            "position": "1-17", "table": "history", "op": "insert", "key": [3], "columns": [0, 1, 2], "old": null,
            "new": [3, 7, 1],
        });
        let row = [3, 7, 1].map(RowCell::Integer).to_vec();
        assert_eq!(added(&change), Some((17, row)));
        assert_eq!(added(&json!({"position": "1-1", "op": "schema", "sql": "a"})), None);
        assert_eq!(added(&json!({"table": "registers"})), None);
    }
}
