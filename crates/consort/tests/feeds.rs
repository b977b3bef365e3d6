//! A node with a sink and a feed, from the config to what arrives.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use consort::config::{ConfigFile, Sources};
use consort::parts::RolesPart;
use consort::{Config, Node};
use consort_kernel::{Commit, Moment, Note, Operation, Shard, Store};
use consort_testbed::{RabbitServer, eventually};
use consort_views::{GroupFields, WindowRow};
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);

fn row(value: &str, revision: u64) -> WindowRow {
    let value = serde_json::value::RawValue::from_string(value.into()).unwrap();
    let (start, end) = (Moment(0), Moment(60_000_000_000));
    WindowRow { view: "v".into(), group: GroupFields::default(), start, end, value, revision }
}

async fn emit(store: &dyn Store, row: WindowRow) {
    let note = Note { feed: "rows.v".parse().unwrap(), entry: row.encode() };
    store.commit(Shard(3), Commit::of([Operation::Append(note)])).await.unwrap();
}

/// A node whose view `v` goes to the sink `f`, which is declared.
async fn start(sink: &str) -> (Node, Arc<dyn Store>) {
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n{sink}\n\
         [stream.s]\nform = 'line'\n[view.v]\nfrom = 's'\ncount = true\nwindow = '1m'\nsink = 'f'\n"
    );
    let file = Some(ConfigFile { name: "test".into(), text });
    let config = Config::resolve(&Sources { file, ..Sources::default() });
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    let store = Arc::new(OnceLock::new());
    let found = Arc::clone(&store);
    let part = RolesPart::new(move |services| {
        let _ = found.set(Arc::clone(&services.store));
        Vec::new()
    });
    let node = Node::start_with(config, vec![Arc::new(part)]).await.expect("a node");
    (node, Arc::clone(store.get().expect("a store")))
}

/// Head and body of an answer, or what there is of it when `words` have come.
async fn get(address: SocketAddr, path: &str, accept: &str, words: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let reading = async {
        let mut piece = [0; 4096];
        loop {
            let read = stream.read(&mut piece).await.unwrap();
            text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            if read == 0 || text.contains(words) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer");
    (stream, text)
}

#[tokio::test]
async fn rows_go_to_the_sink_and_to_subscribers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    let (node, store) = start(&format!(
        "[sink.f]\nkind = \"file\"\nformat = \"line\"\npath = {:?}\n",
        file.to_str().unwrap()
    ))
    .await;
    let address = node.address();

    emit(&*store, row("2", 1)).await;
    let there = || async { fs::read_to_string(&file).is_ok_and(|text| text == "v value=2 0\n") };
    eventually("the row is in the file", PATIENCE, there).await;
    let (_, page) = get(address, "/feeds/views/v", "*/*", "\"revision\":1}\n").await;
    assert!(page.contains("consort-cursor: "), "{page}");
    let events = "text/event-stream";
    let (subscriber, seen) = get(address, "/feeds/views/v", events, "\"revision\":1}\n\n").await;
    assert!(seen.contains("\ndata: {\"view\":\"v\","), "{seen}");

    // Line protocol cannot say that there is no value.
    emit(&*store, row("null", 1)).await;
    let parked = || async {
        let (_, parked) = get(address, "/sinks/f/parked", "*/*", "\"sink\":\"f\"}").await;
        parked.contains("no value")
    };
    eventually("the row is parked", PATIENCE, parked).await;
    let counted = || async {
        let (_, metrics) = get(address, "/metrics", "*/*", "# EOF").await;
        metrics.contains("consort_sink_rows_delivered_total{sink=\"f\"} 1")
            && metrics.contains("consort_sink_rows_parked_total{sink=\"f\"} 1")
    };
    eventually("both are counted", PATIENCE, counted).await;

    let drained = tokio::time::timeout(PATIENCE, node.stop()).await.expect("it stops");
    assert_eq!(drained.unfinished, 0, "the subscriber was let go");
    drop(subscriber);
}

#[tokio::test]
async fn rows_are_published_to_a_broker() {
    let broker = RabbitServer::shared().await;
    let connection = Connection::connect(&broker.url(), ConnectionProperties::default()).await;
    let channel =
        connection.as_ref().expect("the broker").create_channel().await.expect("a channel");
    let queue = format!("rows-{:016x}", rand::random::<u64>());
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declaring = channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
    declaring.await.expect("the queue is declared");
    let (node, store) = start(&format!(
        "[sink.f]\nkind = \"amqp\"\nurl = {:?}\nrouting_key = {queue:?}\n",
        broker.url()
    ))
    .await;
    emit(&*store, row("2", 1)).await;
    emit(&*store, row("3", 2)).await;
    let mut bodies = Vec::new();
    while bodies.len() < 2 {
        let get = || async {
            let options = BasicGetOptions { no_ack: true };
            channel.basic_get(queue.as_str().into(), options).await.expect("the queue")
        };
        let got = eventually("a row is published", PATIENCE, get).await;
        bodies.push(String::from_utf8(got.delivery.data.clone()).expect("text"));
    }
    assert!(bodies[0].ends_with("\"value\":2,\"revision\":1}"), "{bodies:?}");
    assert!(bodies[1].ends_with("\"value\":3,\"revision\":2}"), "{bodies:?}");
    node.stop().await;
}
