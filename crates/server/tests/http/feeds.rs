//! Subscriptions to feeds, by pages and as streams of events, and the rows that sinks refused.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Runtime, TokioRuntime};
use consort_feeds::{FeedSpec, Figures, Payload, Retention};
use consort_kernel::{Change, Commit, Moment, Note, Operation, Shard, Store, SystemClock, memory};
use consort_server::feeds::{self, Catalog, Feeds};
use consort_server::{Drained, Metrics};
use consort_views::{GroupFields, WindowRow};
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt as _;

use crate::client::{Answer, Client, Running, options, start, within};

struct Bed {
    store: Arc<dyn Store>,
    feeds: Feeds,
    running: Running,
}

/// Any payload, as subscribers see it: its JSON.
#[derive(Debug)]
struct Rows;

impl Payload for Rows {
    fn name(&self) -> &'static str {
        "row"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

fn feed(path: &str, name: &str) -> Arc<FeedSpec> {
    let (path, feed) = (path.to_owned(), name.parse().unwrap());
    let (payload, retention) = (Arc::new(Rows), Retention::default());
    Arc::new(FeedSpec { path, feed, payload, retention, sinks: Vec::new() })
}

async fn bed() -> Bed {
    let store: Arc<dyn Store> = Arc::new(memory::open(2, Arc::new(SystemClock::default())).1);
    let runtime: Arc<dyn Runtime> = TokioRuntime::current();
    let mut metrics = Metrics::new("0");
    let feeds = Feeds::new(feeds::Options {
        catalog: Catalog::new([feed("views/v", "rows.v"), feed("test/a/b", "test.ab")]),
        sinks: vec!["influx1".parse().unwrap()],
        figures: Figures::default(),
        store: Arc::clone(&store),
        runtime,
        metrics: &mut metrics,
    });
    let running = start(consort_server::Options { routes: feeds.routes(), metrics, ..options() });
    Bed { store, running: running.await, feeds }
}

impl Bed {
    async fn emit(&self, shard: u16, revisions: std::ops::RangeInclusive<u64>) {
        let note = |revision| {
            let row = WindowRow {
                view: "v".into(),
                group: GroupFields::default(),
                start: Moment(0),
                end: Moment(60_000_000_000),
                value: RawValue::from_string("7".into()).unwrap(),
                revision,
            };
            let entry = row.encode();
            Operation::Append(Note { feed: "rows.v".parse().unwrap(), entry })
        };
        self.store.commit(Shard(shard), Commit::of(revisions.map(note))).await.unwrap();
    }

    async fn get(&self, path: &str) -> Answer {
        self.running.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
    }

    async fn events(&self, headers: &str) -> Stream {
        let mut client = self.running.connect().await;
        let accept = "accept: text/event-stream\r\n";
        let request = format!("GET /feeds/views/v?after=now HTTP/1.0\r\n{accept}{headers}\r\n");
        client.send(&request).await;
        Stream { client, read: String::new() }
    }
}

/// The raw text of an answer that does not end.
struct Stream {
    client: Client,
    read: String,
}

impl Stream {
    /// Reads until these words have come, and the line that they stand in is whole.
    async fn until(&mut self, words: &str) {
        let whole =
            |read: &str| read.split_once(words).is_some_and(|(_, rest)| rest.contains('\n'));
        while !whole(&self.read) {
            let mut piece = [0; 4096];
            let read = within(self.client.0.read(&mut piece)).await.unwrap();
            assert!(read > 0, "it ended before '{words}': {}", self.read);
            self.read.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        }
    }

    fn last_id(&self) -> &str {
        self.read.rsplit("id: ").next().unwrap().lines().next().unwrap()
    }
}

fn line(revision: u64) -> String {
    format!(
        "{{\"view\":\"v\",\"group\":{{}},\"window\":{{\"start\":\"1970-01-01T00:00:00Z\",\"end\":\"1970-01-01T00:01:00Z\"}},\"value\":7,\"revision\":{revision}}}"
    )
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let bed = bed().await;
    let empty = bed.get("/feeds/views/v").await;
    assert_eq!((empty.status, empty.body.as_str()), (200, ""));
    bed.emit(1, 1..=3).await;
    let page = bed.get("/feeds/views/v?limit=2").await;
    assert_eq!(page.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(page.body, format!("{}\n{}\n", line(1), line(2)));
    // The client of these tests writes heads in small letters: a cursor is taken from the event stream then.
    let mut stream = bed.events("").await;
    stream.until("id: ").await;
    let path = format!("/feeds/views/v?wait=20&after={}", stream.last_id());
    let (late, ()) = tokio::join!(bed.get(&path), bed.emit(0, 9..=9));
    assert_eq!(late.body, format!("{}\n", line(9)));
    assert!(late.header("consort-cursor").is_some());
}

#[tokio::test]
async fn changes_of_any_payload_and_path_are_shown_as_their_json() {
    let bed = bed().await;
    let payload = RawValue::from_string("{\"id\":\"a\",\n\"piece\":{}}".into()).unwrap();
    let change = Change { subject: "a".into(), time: Moment(0), revision: 1, payload };
    let note = |entry| Operation::Append(Note { feed: "test.ab".parse().unwrap(), entry });
    let notes = [change.encode(), vec![9].into()].map(note);
    bed.store.commit(Shard(1), Commit::of(notes)).await.unwrap();
    let page = bed.get("/feeds/test/a/b").await;
    let unreadable = r#"{"unreadable":"this node's release cannot read the change"}"#;
    assert_eq!(page.body, format!("{{\"id\":\"a\", \"piece\":{{}}}}\n{unreadable}\n"));
}

#[tokio::test]
async fn a_stream_of_events_is_taken_up_by_the_id_of_the_last() {
    let bed = bed().await;
    bed.emit(0, 1..=1).await;
    let mut stream = bed.events("").await;
    stream.until("id: ").await;
    bed.emit(1, 2..=2).await;
    stream.until(&format!("\ndata: {}", line(2))).await;
    assert!(!stream.read.contains(&line(1)), "it began with after=now: {}", stream.read);
    assert!(stream.read.contains("content-type: text/event-stream"), "{}", stream.read);
    let id = stream.last_id().to_owned();
    drop(stream);
    bed.emit(0, 3..=3).await;
    let mut again = bed.events(&format!("last-event-id: {id}\r\n")).await;
    again.until(&line(3)).await;
    assert!(!again.read.contains(&line(2)), "{}", again.read);
}

#[tokio::test]
async fn a_cursor_whose_rows_are_gone_is_told_what_to_do() {
    let bed = bed().await;
    bed.emit(0, 1..=1).await;
    let mut stream = bed.events("").await;
    stream.until("id: ").await;
    bed.emit(0, 2..=2).await;
    stream.until(&line(2)).await;
    let id = stream.last_id().to_owned();
    bed.emit(0, 3..=9).await;
    bed.store.trim_feed(Shard(0), &"rows.v".parse().unwrap(), 7).await.unwrap();
    let gone = bed.get(&format!("/feeds/views/v?after={id}")).await;
    let (kind, detail) = gone.problem();
    assert_eq!((gone.status, kind.as_str()), (410, "cursor-gone"));
    assert!(detail.contains("without 'after'") && detail.contains("after=now"), "{detail}");
    let kept = bed.get("/feeds/views/v").await;
    assert_eq!(kept.body.lines().count(), 2);
}

#[tokio::test]
async fn what_there_is_not_is_told_with_what_there_is() {
    let bed = bed().await;
    for (path, status, kind, words) in [
        ("/feeds/views/x", 404, "no-such-feed", "there are /feeds/test/a/b, /feeds/views/v"),
        ("/feeds/glue/v", 404, "no-such-feed", "there is no feed '/feeds/glue/v'"),
        ("/feeds/views/v/x", 404, "no-such-feed", "there is no feed '/feeds/views/v/x'"),
        ("/sinks/x/parked", 404, "no-such-sink", "there are 'influx1'"),
        ("/feeds/views/v?after=xyz", 400, "invalid-cursor", "leave it out"),
        ("/feeds/views/v?limit=0", 400, "invalid-query", "'limit'"),
    ] {
        let answer = bed.get(path).await;
        let (told, detail) = answer.problem();
        assert_eq!((answer.status, told.as_str()), (status, kind), "{path}");
        assert!(detail.contains(words), "{detail}");
    }
    let list = bed.get("/feeds").await;
    let expected = concat!(
        r#"{"feeds":[{"name":"a/b","part":"test","path":"/feeds/test/a/b"},"#,
        r#"{"name":"v","part":"views","path":"/feeds/views/v"}]}"#
    );
    assert_eq!(list.body, expected);
    let parked = bed.get("/sinks/influx1/parked").await;
    assert_eq!(parked.body, r#"{"parked":[],"sink":"influx1"}"#);
}

#[tokio::test]
async fn there_is_room_for_so_many_subscribers_and_a_stop_does_not_wait_for_them() {
    let bed = bed().await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let mut stream = bed.events("").await;
        stream.until("id: ").await;
        streams.push(stream);
    }
    let full = bed.get("/feeds/views/v").await;
    assert_eq!((full.status, full.problem().0.as_str()), (503, "too-many-subscribers"));
    let metrics = bed.running.metrics().await;
    assert!(metrics.contains("consort_feed_subscribers 100"), "{metrics}");
    bed.feeds.close();
    let stopped = tokio::time::timeout(Duration::from_secs(10), bed.running.stop()).await;
    assert_eq!(stopped.unwrap(), Drained { unfinished: 0 });
}
