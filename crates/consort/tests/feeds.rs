//! A node with a sink and a feed, from the config to what arrives.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use consort::config::{ConfigFile, Sources};
use consort::{Config, Node};
use consort_kernel::row::Group;
use consort_kernel::{Commit, Moment, Note, Operation, Row, Shard, Store};
use consort_testbed::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);

fn row(value: &str, revision: u64) -> Row {
    let value = serde_json::value::RawValue::from_string(value.into()).unwrap();
    let (start, end) = (Moment(0), Moment(60_000_000_000));
    Row { name: "v".into(), group: Group::default(), start, end, value, revision }
}

async fn emit(store: &dyn Store, row: Row) {
    let note = Note { feed: "rows.v".parse().unwrap(), entry: row.encode() };
    store.commit(Shard(3), Commit::of([Operation::Append(note)])).await.unwrap();
}

/// Head and body of an answer, or what there is of it when `words` have come.
async fn get(address: SocketAddr, path: &str, accept: &str, words: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nhost: t\r\naccept: {accept}\r\n\r\n");
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
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n\
         [sink.f]\nkind = \"file\"\nformat = \"line\"\npath = {:?}\n",
        file.to_str().unwrap()
    );
    let sources =
        Sources { file: Some(ConfigFile { name: "test".into(), text }), ..Sources::default() };
    let mut config = Config::resolve(&sources).unwrap_or_else(|problems| panic!("{problems}"));
    config.rows.insert("v".into(), vec!["f".into()]);
    let mut store: Option<Arc<dyn Store>> = None;
    let node = Node::start_with(config, |ground| {
        store = Some(Arc::clone(&ground.store));
        Vec::new()
    });
    let (node, store) = (node.await.expect("a node"), store.unwrap());
    let address = node.address();

    emit(&*store, row("2", 1)).await;
    let there = || async { fs::read_to_string(&file).is_ok_and(|text| text == "v value=2 0\n") };
    eventually("the row is in the file", PATIENCE, there).await;
    let (_, page) = get(address, "/feeds/views/v", "*/*", "\"revision\":1}\n").await;
    assert!(page.contains("consort-cursor: "), "{page}");
    let events = "text/event-stream";
    let (subscriber, seen) = get(address, "/feeds/views/v", events, "\"revision\":1}\n\n").await;
    assert!(seen.contains("\ndata: {\"view\":\"v\","), "{seen}");

    // A group by null and a value of null: line protocol cannot say it.
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
