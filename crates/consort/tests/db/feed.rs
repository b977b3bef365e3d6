//! The change stream: pages and events, each going on where the one before ended.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{Caller, DbNode};

async fn page(caller: &mut Caller, query: &str) -> (Vec<Value>, String) {
    let path = format!("/feeds/db/notes?{query}");
    let reply = caller.send(Method::GET, &path, &[], "").await;
    assert!(reply.status.is_success(), "{path}: {reply:?}");
    let text = String::from_utf8(reply.body.to_vec()).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (lines, reply.header("consort-cursor").expect("a cursor").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_changes_come_in_order_and_whole_writes() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    caller
        .write(json!([
            ["INSERT INTO notes VALUES (1, 'a', NULL)"],
            ["INSERT INTO tags VALUES (1, 'x')"]
        ]))
        .await;
    caller.write(json!([["UPDATE notes SET stars = 5"]])).await;
    caller.write(json!([["DELETE FROM tags"]])).await;
    let (schema, after) = page(&mut caller, "limit=1").await;
    assert!(
        schema.len() == 2 && schema.iter().all(|change| change["op"] == "schema"),
        "{schema:?}"
    );
    let (mut both, after) = page(&mut caller, &format!("limit=1&after={after}")).await;
    both.sort_by_key(|change| change["table"].to_string());
    let inserted = |table: &str, key: Value, columns: Value, new: Value| {
        json!({
            "position": "1-2", "table": table, "op": "insert",
            "key": key, "columns": columns, "old": null, "new": new,
        })
    };
    let expected = [
        inserted("notes", json!([1]), json!([0, 1, 2]), json!([1, "a", null])),
        inserted("tags", json!([1, "x"]), json!([0, 1]), json!([1, "x"])),
    ];
    assert_eq!(both, expected);
    let (rest, end) = page(&mut caller, &format!("after={after}")).await;
    let update = json!({
        "position": "1-3", "table": "notes", "op": "update",
        "key": [1], "columns": [2], "old": [null], "new": [5],
    });
    let delete = json!({
        "position": "1-4", "table": "tags", "op": "delete",
        "key": [1, "x"], "columns": [0, 1], "old": [1, "x"], "new": null,
    });
    assert_eq!(rest, [update, delete]);
    assert_eq!(page(&mut caller, &format!("after={end}")).await, (vec![], end.clone()));
    assert_eq!(page(&mut caller, "after=now").await.1, end);
    for (query, status) in [("after=x", 400), ("id=1", 400), ("after=9-9", 410), ("limit=0", 400)] {
        let path = format!("/feeds/db/notes?{query}");
        let reply = caller.send(Method::GET, &path, &[], "").await;
        assert_eq!(reply.status.as_u16(), status, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_requests_are_nobodys_changes() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    let sent = r#"{"statements": [["INSERT INTO notes (title) VALUES ('a')"]]}"#;
    caller.send(Method::POST, "/db/notes/write", &[("idempotency-key", "k")], sent).await;
    let (changes, _) = page(&mut caller, "after=1-1").await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["table"], "notes");
}

/// The data lines of a stream of events that begins at `query`, until there are so many.
fn events(address: SocketAddr, query: String, count: usize) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    let request = format!(
        "GET /feeds/db/notes?{query} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let data = lines.filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    data.take(count).map(|line| serde_json::from_str(&line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_as_writes_do() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    let address = node.address();
    let reading = tokio::task::spawn_blocking(move || events(address, "after=1-1".into(), 3));
    for n in 1..=3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        caller.write(json!([["INSERT INTO notes (title) VALUES (?)", format!("n{n}")]])).await;
    }
    let events = reading.await.expect("no panic");
    let titles: Vec<&Value> = events.iter().map(|event| &event["new"][1]).collect();
    assert_eq!(titles, ["n1", "n2", "n3"]);
}
