//! The feed of a collection that nodes fill: by server-sent events, RabbitMQ, a file and a webhook, with documents, and
//! trimmed.

use std::sync::Arc;

use consort_testbed::{RabbitServer, eventually};
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

use crate::bed::{GlueNode, PATIENCE, is_applied, is_problem, json, text};
use crate::example::Bed;

const COLLECTION: &str = "[glue.content]\nformat = 'json'\npartitions = 2\n";

/// A subscriber by server-sent events.
struct Events {
    lines: Lines<BufReader<OwnedReadHalf>>,
    _connection: tokio::net::tcp::OwnedWriteHalf,
}

impl Events {
    /// Subscribes behind this event, if one is named.
    async fn of(node: &GlueNode, query: &str, last: Option<&str>) -> Events {
        let stream = TcpStream::connect(node.address()).await.expect("a connection");
        let (read, mut write) = stream.into_split();
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /feeds/glue/content{query} HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\n{last}\r\n"
        );
        write.write_all(request.as_bytes()).await.expect("it is sent");
        Events { lines: BufReader::new(read).lines(), _connection: write }
    }

    /// The next row, and the id of its event.
    async fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        let next = async {
            loop {
                let line = self.lines.next_line().await.expect("a line").expect("more events");
                if let Some(cursor) = line.strip_prefix("id: ") {
                    cursor.clone_into(&mut id);
                }
                if let Some(row) = line.strip_prefix("data: ").filter(|row| row.len() > 2) {
                    return serde_json::from_str(row).expect("a row is JSON");
                }
            }
        };
        let row = tokio::time::timeout(PATIENCE, next).await.expect("an event");
        (id, row)
    }
}

#[tokio::test]
async fn a_subscriber_goes_on_behind_the_last_event_that_it_saw() {
    let node = GlueNode::start_with(COLLECTION).await;
    let mut editor = node.editor();
    let mut events = Events::of(&node, "", None).await;
    for n in 1..=4 {
        is_applied(&editor.merge("/glue/content/d", &json!({ "n": n })).await, n);
    }
    let mut ids = Vec::new();
    for version in 1..=4 {
        let (id, row) = events.next().await;
        assert_eq!((&row["version"], &row["piece"]), (&json!(version), &json!({ "n": version })));
        assert_eq!((&row["was"], &row["form"]), (&json!(version - 1), &json!("merge-patch")));
        ids.push(id);
    }
    drop(events);
    // The rows of one read share a cursor: behind it comes what the subscriber has not seen, and nothing twice.
    is_applied(&editor.merge("/glue/content/d", &json!({"n": 5})).await, 5);
    let mut again = Events::of(&node, "", ids.last().map(|id| &**id)).await;
    assert_eq!(again.next().await.1["version"], 5);

    let mut states = Events::of(&node, "?send=states", None).await;
    let (_, state) = states.next().await;
    assert_eq!((&state["form"], &state["document"]), (&json!("state"), &json!({"n": 5})));
    assert_eq!((&state["was"], &state["version"]), (&json!(0), &json!(5)));
    is_applied(&editor.merge("/glue/content/d", &json!({"n": 6})).await, 6);
    let (_, state) = states.next().await;
    assert_eq!((&state["was"], &state["document"]), (&json!(5), &json!({"n": 6})));
}

#[tokio::test]
async fn rows_may_have_their_documents_in_them() {
    let node = GlueNode::start_with(&format!("{COLLECTION}feed = 'document'\n")).await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/content/d", &json!({"a": 1})).await, 1);
    is_applied(&editor.merge("/glue/content/d", &json!({"b": 2})).await, 2);
    let rows = text(&editor.get("/feeds/glue/content?id=d").await);
    let rows: Vec<Value> =
        rows.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert_eq!(rows[1]["piece"], json!({"b": 2}), "the piece is there as well");
    let documents: Vec<&Value> = rows.iter().map(|row| &row["document"]).collect();
    assert_eq!(documents, [&json!({"a": 1}), &json!({"a": 1, "b": 2})]);
}

#[tokio::test]
async fn a_file_gets_every_piece() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pieces");
    let sink =
        format!("[sink.f]\nkind = 'file'\npath = '{}'\n{COLLECTION}sink = ['f']\n", file.display());
    let node = GlueNode::start_with(&sink).await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/content/d", &json!({"a": 1})).await, 1);
    is_applied(&editor.merge("/glue/content/d", &json!({"a": null})).await, 2);
    let deleted =
        editor.send(consort_client::Method::DELETE, "/glue/content/d?wait=applied", &[], "");
    is_applied(&deleted.await, 3);
    let rows = || async {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let rows: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (rows.len() == 3).then_some(rows)
    };
    let rows = eventually("all rows are in the file", PATIENCE, rows).await;
    let shown: Vec<_> = rows.iter().map(|row| (&row["form"], row.get("piece").cloned())).collect();
    assert_eq!(shown[0], (&json!("whole"), Some(json!({"a": 1}))));
    assert_eq!(shown[1], (&json!("merge-patch"), Some(json!({"a": null}))));
    assert_eq!(shown[2], (&json!("delete"), None));
}

#[tokio::test]
async fn a_broker_gets_every_piece() {
    let broker = RabbitServer::shared().await;
    let connection = Connection::connect(&broker.url(), ConnectionProperties::default()).await;
    let channel =
        connection.as_ref().expect("the broker").create_channel().await.expect("a channel");
    let queue = format!("glue-rows-{:016x}", rand::random::<u64>());
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declaring = channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
    declaring.await.expect("the queue is declared");
    let sink =
        format!("[sink.q]\nkind = 'amqp'\nurl = '{}'\nrouting_key = '{queue}'\n", broker.url());
    let node = GlueNode::start_with(&format!("{sink}{COLLECTION}sink = ['q']\n")).await;
    let mut editor = node.editor();
    for n in 1..=3 {
        is_applied(&editor.merge("/glue/content/d", &json!({ "n": n })).await, n);
    }
    for n in 1..=3 {
        let get = || async {
            let options = BasicGetOptions { no_ack: true };
            channel.basic_get(queue.as_str().into(), options).await.expect("the queue")
        };
        let got = eventually("a row is published", PATIENCE, get).await;
        let body: Value = serde_json::from_slice(&got.delivery.data).expect("JSON");
        let row = body.get("data").unwrap_or(&body);
        assert_eq!((&row["version"], &row["piece"]), (&json!(n), &json!({ "n": n })), "{body}");
    }
}

/// A server that takes every request, and keeps heads and bodies.
async fn webhook() -> (String, Arc<Mutex<Vec<(String, Value)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let taken: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let keep = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(take(stream, Arc::clone(&keep)));
        }
    });
    (url, taken)
}

async fn take(stream: TcpStream, keep: Arc<Mutex<Vec<(String, Value)>>>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if read.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(given) = line.strip_prefix("content-length:") {
                length = given.trim().parse().expect("a length");
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).await?;
        keep.lock().push((head, serde_json::from_slice(&body).unwrap_or_default()));
        write.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

#[tokio::test]
async fn a_webhook_gets_the_states() {
    let (url, taken) = webhook().await;
    let sink = format!(
        "[sink.w]\nkind = 'webhook'\nurl = '{url}'\nallow_private = true\nsend = 'states'\n"
    );
    let node = GlueNode::start_with(&format!("{sink}{COLLECTION}sink = ['w']\n")).await;
    let mut editor = node.editor();
    for n in 1..=5 {
        is_applied(&editor.merge("/glue/content/d", &json!({ "n": n })).await, n);
    }
    let last = || async {
        let taken = taken.lock();
        let found = taken.iter().find(|(_, body)| body.to_string().contains("{\"n\":5}"));
        found.cloned()
    };
    let (head, body) = eventually("the last state is delivered", PATIENCE, last).await;
    assert!(format!("{head}{body}").contains("consort.glue.v1"), "{head}{body}");
    let states: Vec<Value> = taken.lock().iter().map(|(_, body)| body.clone()).collect();
    // States never go backwards, and each stands for one version at least.
    let versions = states.iter().flat_map(|body| match body {
        Value::Array(events) => events.clone(),
        one => vec![one.clone()],
    });
    let versions: Vec<u64> = versions
        .map(|event| event.get("data").unwrap_or(&event)["version"].as_u64().expect("a version"))
        .collect();
    assert!(versions.is_sorted() && versions.last() == Some(&5), "{versions:?}");
}

/// Rows beyond the bound of the feed go, and a subscriber that stood there hears it and begins with the list.
#[tokio::test]
async fn a_feed_is_trimmed_by_its_bytes_and_a_new_subscriber_begins_with_the_list() {
    let config = "
[engine]
url = 'embedded:./data'
shards = 1
[glue.content]
format = 'json'
partitions = 1
feed_bytes = '1MiB'
";
    let mut bed = Bed::start_with(config).await;
    let text_of = "x".repeat(20_000);
    let mut cursor = None;
    // A trimmer looks when its role begins and each minute: each start of the node is one look.
    for round in 0..3 {
        let mut editor = bed.editor();
        for n in 0..100 {
            let document = json!({ "round": round, "text": text_of });
            let put = editor.put(&format!("/glue/content/d{n}"), &document).await;
            is_applied(&put, round + 1);
        }
        if cursor.is_none() {
            let first = editor.get("/feeds/glue/content?limit=1").await;
            cursor = first.header("consort-cursor").map(str::to_owned);
        }
        bed.restart().await;
    }
    let cursor = cursor.expect("a cursor");
    let gone = eventually("the first rows are gone", PATIENCE, || async {
        let reply = bed.editor().get(&format!("/feeds/glue/content?after={cursor}")).await;
        (reply.status == 410).then_some(reply)
    })
    .await;
    is_problem(&gone, 410, "cursor-gone", &[]);
    let mut editor = bed.editor();
    let list = editor.get("/glue/content?limit=1000").await;
    assert_eq!(json(&list)["documents"].as_array().map(Vec::len), Some(100));
    let cursor = list.header("consort-cursor").expect("a cursor").to_owned();
    is_applied(&editor.merge("/glue/content/d0", &json!({"new": true})).await, 4);
    let rows = text(&editor.get(&format!("/feeds/glue/content?after={cursor}")).await);
    assert_eq!(rows.lines().count(), 1, "{rows:.300}");
}
