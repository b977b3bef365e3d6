//! Streams of line protocol over HTTP: `/streams/{stream}`, and as clients of InfluxDB write.

use std::io::Write as _;

use consort_client::Method;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::bed::{Apart, Here};
use crate::caller::{Caller, Slow, is_problem, json, text};

/// The example of the bare-word dialect, as senders write it.
pub(crate) const LINES: &str = "\
event_type=http-5xx,product=productA value=testusername1 1480876707352348928
event_type=os_error,product=productA value=testusername2 1480876707352348928
event_type=browser_error,product=productB value=testusername3 1480876707352348928
event_type=browser_error,product=productB value=testusername4 1480876707352348928
event_type=http-5xx,product=productA value=testusername1 1480876707352348930
";

/// What is kept of it.
pub(crate) const EVENTS: &str = r#"
[stream.events]
form = "line-loose"
key = ["event_type", "product"]
partitions = 4

[view.unique_user_event]
from = "events"
by = ["event_type", "product"]
distinct = "value"

[view.cumulative_user_event]
from = "events"
by = ["event_type", "product"]
distinct = ["value", "_time"]

[view.all]
from = "events"
count = true
"#;

const LOADS: &str = r#"
[stream.loads]
form = "line"
key = "host"
partitions = 2
fields = { host = "text", load = "decimal(2)", up = "bool?", note = "text?" }

[view.load]
from = "loads"
by = ["host", "_measurement"]
sum = "load"

[view.times]
from = "loads"
set = "_time"

[view.notes]
from = "loads"
set = "note"

[stream.rides]
fields = { skier = "int" }
"#;

/// Checks what must have come of the example's lines, however often each was received.
pub(crate) async fn are_exact(caller: &mut Caller) {
    let expected = [
        ("http-5xx", "productA", 1, 2),
        ("os_error", "productA", 1, 1),
        ("browser_error", "productB", 2, 2),
    ];
    for (event, product, unique, cumulative) in expected {
        let group = format!("event_type={event}&product={product}");
        let value = caller.value(&format!("/views/unique_user_event?{group}")).await;
        assert_eq!(value, json!(unique), "unique {group}");
        let value = caller.value(&format!("/views/cumulative_user_event?{group}")).await;
        assert_eq!(value, json!(cumulative), "cumulative {group}");
    }
}

async fn values(caller: &mut Caller, view: &str) -> Vec<Value> {
    let set = caller.value(&format!("/views/{view}")).await;
    set.as_array().expect("a set").clone()
}

fn gzip(body: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn bare_words_are_counted_exactly_received_once_or_twice() {
    let node = Here::start(EVENTS).await;
    let mut caller = node.caller();
    let reply = caller.accept("/streams/events", LINES).await;
    assert_eq!(json(&reply)["accepted"], json!(5));
    are_exact(&mut caller).await;
    let reply = caller.post("/write?db=events", LINES).await;
    assert_eq!(reply.status, 204, "{}", text(&reply));
    are_exact(&mut caller).await;
    assert_eq!(caller.value("/views/all").await, json!(10));
}

#[tokio::test]
async fn each_line_stands_for_itself_and_is_told_by_its_number() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let body = "cpu,host=a load=0.5 1\n# a comment\n\ncpu,host=a load=0.001 2\ncpu,host=a,rack=7 load=1.25,other=1i,note=\"two\nlines\" 3\r\nnonsense\nmem,host=a load=2i,up=t 4";
    let reply = caller.accept("/streams/loads", body).await;
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(3), &json!(2)));
    assert_eq!(answer["rejections"][0]["line"], json!(4));
    assert_eq!(answer["rejections"][1]["line"], json!(7), "the text has a line break: {answer}");
    let reason = answer["rejections"][1]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.starts_with("not a line: column"), "{reason}");
    assert_eq!(caller.value("/views/load?host=a&_measurement=cpu").await, json!(1.75));
    assert_eq!(caller.value("/views/load?host=a&_measurement=mem").await, json!(2.0));
    assert_eq!(values(&mut caller, "times").await, [1, 3, 4]);
    assert_eq!(values(&mut caller, "notes").await, ["two\nlines"]);
    is_problem(
        &caller.post("/streams/loads", "x\ny").await,
        400,
        "invalid-event",
        &["none of the lines"],
    );
    let header = [("idempotency-key", "k")];
    is_problem(
        &caller.post_with("/streams/loads", &header, "x").await,
        400,
        "idempotency-key",
        &[],
    );
    is_problem(
        &caller.post("/streams/loads?precision=week", "x").await,
        400,
        "precision",
        &["`week`"],
    );
}

#[tokio::test]
async fn times_have_the_precision_of_their_request() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let units = [
        ("", 1u64),
        ("&precision=us", 1_000),
        ("&precision=ms", 1_000_000),
        ("&precision=s", 1_000_000_000),
    ];
    let mut expected = Vec::new();
    for (index, (precision, unit)) in units.into_iter().enumerate() {
        let time = index as u64 + 1;
        let path = format!("/write?db=loads{precision}");
        let reply = caller.post(&path, format!("cpu,host=a load=1 {time}")).await;
        assert_eq!(reply.status, 204, "{}", text(&reply));
        let path = format!("/api/v2/write?org=o&bucket=loads{precision}");
        let reply = caller.post(&path, format!("cpu,host=a load=1 {}", time + 100)).await;
        assert_eq!(reply.status, 204, "{}", text(&reply));
        expected.extend([time * unit, (time + 100) * unit]);
    }
    expected.sort_unstable();
    assert_eq!(values(&mut caller, "times").await, expected);
}

#[tokio::test]
async fn a_line_without_a_time_has_that_of_its_arrival() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let now = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("1970").as_nanos()
    };
    let before = now();
    assert_eq!(caller.post("/write?db=loads", "cpu,host=a load=1").await.status, 204);
    let after = now();
    assert_eq!(caller.post("/write?db=loads&precision=s", "cpu,host=b load=1").await.status, 204);
    let times = values(&mut caller, "times").await;
    let times: Vec<u128> =
        times.iter().map(|time| u128::from(time.as_u64().expect("a time"))).collect();
    let exact: Vec<&u128> = times.iter().filter(|time| *time % 1_000_000_000 != 0).collect();
    assert!(exact.iter().all(|time| (before..=after).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| time % 1_000_000_000 == 0), "{times:?}");
}

#[tokio::test]
async fn good_lines_of_a_partial_write_are_stored_and_the_others_counted() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let body = "cpu,host=a load=1 1\nbad\ncpu,host=a load=2 2\ncpu,host=a load=x 3";
    let reply = caller.post("/write?db=loads", body).await;
    assert_eq!(reply.status, 400);
    let error = json(&reply)["error"].as_str().expect("an error").to_owned();
    assert!(
        error.starts_with("partial write: line 2: not a line:") && error.ends_with(" dropped=2"),
        "{error}"
    );
    let reply = caller.post("/api/v2/write?bucket=loads", body).await;
    assert_eq!((reply.status.as_u16(), &json(&reply)["code"]), (400, &json!("invalid")));
    let message = json(&reply)["message"].as_str().expect("a message").to_owned();
    assert!(
        message.starts_with("partial write: line 2:") && message.ends_with("dropped=2"),
        "{message}"
    );
    assert_eq!(caller.value("/views/load?host=a&_measurement=cpu").await, json!(6.0));
    let reply = caller.post("/write?db=loads", "bad").await;
    let error = json(&reply)["error"].as_str().expect("an error").to_owned();
    assert!(error.starts_with("line 1: ") && error.ends_with("dropped=1"), "{error}");
}

#[tokio::test]
async fn who_writes_to_what_is_not_there_hears_it_in_the_words_of_their_client() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let line = "cpu,host=a load=1 1";
    let cases = [
        ("/write?db=x", 404, json!({"error": "database not found: \"x\""})),
        ("/write", 400, json!({"error": "database is required"})),
        (
            "/api/v2/write?bucket=x&org=o",
            404,
            json!({"code": "not found", "message": "bucket \"x\" not found"}),
        ),
    ];
    for (path, status, body) in cases {
        let reply = caller.post(path, line).await;
        assert_eq!((reply.status.as_u16(), json(&reply)), (status, body), "{path}");
    }
    let reply = caller.post("/write?db=rides", line).await;
    assert!(
        reply.status == 400 && text(&reply).contains("takes JSON at /streams/rides"),
        "{}",
        text(&reply)
    );
    let reply = caller.post("/write?db=loads&precision=week", line).await;
    assert!(
        reply.status == 400 && text(&reply).contains("unknown precision `week`"),
        "{}",
        text(&reply)
    );
    assert_eq!(caller.post("/api/v2/write?bucket=loads/autogen", line).await.status, 204);
    assert_eq!(caller.send(Method::GET, "/ping", &[], "").await.status, 204);
    assert_eq!(caller.send(Method::HEAD, "/ping", &[], "").await.status, 204);
    let reply = caller.post("/query?q=CREATE%20DATABASE%20%22loads%22", "").await;
    assert_eq!(
        (reply.status.as_u16(), json(&reply)),
        (200, json!({"results": [{"statement_id": 0}]}))
    );
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(caller.post_with("/query", &form, "q=CREATE+DATABASE+loads").await.status, 200);
    assert_eq!(caller.post("/query?q=SELECT%201", "").await.status, 400);
}

#[tokio::test]
async fn compressed_bodies_are_taken() {
    let node = Here::start(EVENTS).await;
    let mut caller = node.caller();
    let header = [("content-encoding", "gzip")];
    let reply = caller.post_with("/write?db=events", &header, gzip(LINES)).await;
    assert_eq!(reply.status, 204, "{}", text(&reply));
    let reply = caller.post_with("/streams/events", &header, gzip(LINES)).await;
    assert_eq!(reply.status, 201, "{}", text(&reply));
    are_exact(&mut caller).await;
    let cut = gzip(LINES);
    let reply = caller.post_with("/write?db=events", &header, cut[..cut.len() - 9].to_vec()).await;
    assert!(
        reply.status == 400 && text(&reply).contains("Content-Encoding: gzip"),
        "{}",
        text(&reply)
    );
    let other = [("content-encoding", "br")];
    let reply = caller.post_with("/write?db=events", &other, "x").await;
    assert_eq!(reply.status, 415, "{}", text(&reply));
}

/// The memory of a node must not follow the size of a body, compressed or not; a few KiB of zeros would be GiB.
#[tokio::test]
async fn a_body_of_any_length_takes_bounded_memory() {
    /// Pieces of a MiB in a compressed body: somewhat fewer than it may have.
    const COMPRESSED_MOST: usize = 240;
    let node = Apart::start(LOADS).await;
    let mut caller = node.caller();
    let more = "n".repeat(32 * 1024);
    let piece: String =
        (0..32).map(|at| format!("cpu,host=a load=1,more=\"{more}\" {at}\n")).collect();
    // The first bodies fill buffers and the allocator's own; what comes after them must not grow with the body.
    let mut before = 0;
    for (compressed, plain) in [(64, 64), (COMPRESSED_MOST, 128)] {
        before = node.memory("VmHWM");
        let body = gzip(&piece.repeat(compressed));
        let header = [("content-encoding", "gzip")];
        assert_eq!(caller.post_with("/write?db=loads", &header, body).await.status, 204);
        let mut slow = Slow::begin(node.address(), "/streams/loads").await;
        for _ in 0..plain {
            slow.piece(piece.as_bytes()).await;
        }
        let (status, answer) = slow.end().await;
        assert_eq!((status, &answer["accepted"]), (201, &json!(plain * 32)));
    }
    let sent = (COMPRESSED_MOST + 128) as u64 * piece.len() as u64 / 1024;
    let grown = node.memory("VmHWM").saturating_sub(before);
    assert!(grown < sent / 8, "memory grew by {grown} KiB for {sent} KiB of a body");
}

#[tokio::test]
async fn a_line_may_come_in_pieces_and_a_pausing_client_is_heard() {
    let node = Here::start(LOADS).await;
    let mut caller = node.caller();
    let mut slow = Slow::begin(node.address(), "/streams/loads").await;
    slow.piece(b"cpu,host=a load=1,note=\"one\ntw").await;
    slow.piece(b"o\" 1\ncpu,host=a load=2 2").await;
    caller.comes_to("/views/load?host=a&_measurement=cpu", &json!(1.0)).await;
    slow.piece(b"0\nmem,host=").await;
    caller.comes_to("/views/load?host=a&_measurement=cpu", &json!(3.0)).await;
    slow.piece(b"a load=4 5").await;
    let (status, answer) = slow.end().await;
    assert_eq!((status, &answer["accepted"]), (201, &json!(3)));
    caller.reaches(answer["position"].as_str().expect("a position")).await;
    assert_eq!(values(&mut caller, "times").await, [1, 5, 20]);
    assert_eq!(values(&mut caller, "notes").await, ["one\ntwo"]);
}

#[tokio::test]
async fn lines_with_more_than_is_declared_are_refused_where_that_is_wanted() {
    let strict = LOADS.replace("form = \"line\"", "form = \"line\"\nunknown_fields = \"reject\"");
    let node = Here::start(&strict).await;
    let mut caller = node.caller();
    let reply =
        caller.post("/streams/loads", "cpu,host=a,rack=7 load=1 1\ncpu,host=a load=1 2").await;
    let answer = json(&reply);
    assert_eq!((reply.status.as_u16(), &answer["accepted"]), (201, &json!(1)), "{answer}");
    let reason = answer["rejections"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("unknown field 'rack'"), "{reason}");
}

#[tokio::test]
async fn the_form_of_a_stream_is_part_of_its_definition() {
    let mut node = Apart::start(EVENTS).await;
    node.process.kill().await;
    node.restart_with(&EVENTS.replace("line-loose", "line"));
    let (code, said) = node.end().await;
    assert_eq!(code, Some(1), "{said}");
    let words = "stream 'events': form is 'line' here and 'line-loose' in the cluster";
    assert!(said.contains(words), "{said}");
}
