//! The change stream of a database, `GET /feeds/db/{name}`: the rows of its history table, as any subscriber gets them.

use std::time::Duration;

use consort_client::{Client, Connection, Method};
use serde_json::Value;

use super::client::{ERA, NodeList};
use super::{BANK, REGISTER};
use crate::lin::history::{Row, RowCell};

/// Changes in one page: several pages of everything.
const PAGE: usize = 500;

/// How long a page may take; it bounds a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The rows that were added to the history table, each with the index of its write, in order. Each page is another
/// node's.
///
/// # Panics
///
/// If a node does not answer, or a change is none that the workloads make.
pub async fn history(nodes: &NodeList, database: &str) -> Vec<(u64, Row)> {
    let (mut rows, mut after) = (Vec::new(), String::new());
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
        rows.extend(changes.iter().filter_map(|change| added(database, change)));
        let cursor = reply.header("consort-cursor").expect("a page has a cursor");
        let next = format!("&after={cursor}");
        if changes.is_empty() && next == after {
            break;
        }
        after = next;
    }
    rows
}

/// The row that a change adds to the history table.
fn added(database: &str, change: &Value) -> Option<(u64, Row)> {
    if change["table"] != "history" {
        return None;
    }
    assert_eq!(change["op"], "insert", "rows are only added to the history: {change}");
    let position = change["position"].as_str().unwrap_or_default();
    let index = position.strip_prefix(&format!("{ERA}-")).and_then(|index| index.parse().ok());
    let columns: &[&str] = match database {
        REGISTER => &["id", "stamp", "register"],
        BANK => &["id", "stamp", "payer", "payee", "amount"],
        _ => panic!("{database} has no history"),
    };
    let cells = columns.iter().map(|column| change["new"][*column].as_i64().map(RowCell::Integer));
    let row: Option<Row> = cells.collect();
    let fault = || panic!("no change of a history: {change}");
    Some((index.unwrap_or_else(fault), row.unwrap_or_else(|| panic!("not a row: {change}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_of_the_history_has_an_index_and_a_row() {
        let new = json!({"id": 3, "stamp": 7, "register": 1});
        let change = json!({
            "position": "1-17", "table": "history", "op": "insert", "key": {"id": 3}, "old": null, "new": new,
        });
        let row = [3, 7, 1].map(RowCell::Integer).to_vec();
        assert_eq!(added(REGISTER, &change), Some((17, row)));
        assert_eq!(added(REGISTER, &json!({"table": "registers"})), None);
    }
}
