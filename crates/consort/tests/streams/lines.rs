//! `POST /streams/{stream}` with one event a line: of any length, and at any pace.

use consort_testbed::eventually;
use serde_json::json;

use crate::bed::{Apart, Here, PATIENCE};
use crate::caller::{Caller, Slow, is_problem, json, text};

const STREAM: &str = r#"
[stream.rides]
key = "skier"
partitions = 4
fields = { skier = "int", note = "text? 0..60000" }

[view.rides_of]
from = "rides"
by = ["skier"]
count = true

[view.all]
from = "rides"
count = true
"#;

const RIDES: &str = "/streams/rides";

#[tokio::test]
async fn lines_are_counted_and_the_bad_ones_told_by_their_numbers() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let body =
        "{\"skier\":1}\n\n  \t\r\n{\"skier\":2}\r\n{\"skier\":\"x\"}\nno\n[]\n\n{\"skier\":1}";
    let reply = caller.lines(RIDES, body).await;
    assert_eq!(reply.status, 201, "{}", text(&reply));
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(3), &json!(3)));
    let told: Vec<_> = answer["rejections"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["line"].as_u64(), one["reason"].as_str().unwrap_or_default()))
        .collect();
    let lines: Vec<_> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [Some(5), Some(6), Some(7)]);
    assert!(told[0].1.contains("field 'skier' must be a whole number"), "{told:?}");
    assert!(told[1].1.contains("not a JSON object"), "{told:?}");
    assert_eq!(caller.value("/views/rides_of?skier=1").await, json!(2));
    assert_eq!(caller.value("/views/rides_of?skier=2").await, json!(1));
}

#[tokio::test]
async fn no_lines_are_no_mistake_and_only_bad_ones_are() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    for body in ["", "\n", "\r\n \n"] {
        let reply = caller.lines(RIDES, body).await;
        assert_eq!(reply.status, 201, "{}", text(&reply));
        assert_eq!(json(&reply), json!({"accepted": 0, "rejected": 0}));
        assert_eq!(reply.header("consort-position"), None);
    }
    let reply = caller.lines(RIDES, "x\n".repeat(150)).await;
    is_problem(&reply, 400, "invalid-event", &["none of the lines is a valid event"]);
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(0), &json!(150)));
    assert_eq!(answer["rejections"].as_array().map(Vec::len), Some(100), "the list is bounded");
    assert_eq!(caller.value("/views/all").await, json!(0));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_to_its_end() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let long = "x".repeat(2 * 1024 * 1024 + 1);
    let body =
        format!("{{\"skier\":1}}\n{{\"skier\":2,\"note\":\"{long}\"}}\n{{\"skier\":3}}\n{long}");
    let reply = caller.lines(RIDES, body).await;
    assert_eq!(reply.status, 201, "{}", text(&reply));
    let reason = "the line is longer than 2097152 bytes";
    let rejections = json!([{"line": 2, "reason": reason}, {"line": 4, "reason": reason}]);
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejections"]), (&json!(2), &rejections));
    assert_eq!(caller.json("/views/rides_of").await["groups"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_body_of_any_length_is_taken() {
    const PIECES: u64 = 24;
    const LINES: u64 = 20;
    let node = Here::start(STREAM).await;
    let note = "n".repeat(52_000);
    let piece: String =
        (0..LINES).map(|skier| format!("{{\"skier\":{skier},\"note\":\"{note}\"}}\n")).collect();
    let mut slow = Slow::begin(node.address(), RIDES).await;
    for _ in 0..PIECES {
        slow.piece(piece.as_bytes()).await;
    }
    let (status, answer) = slow.end().await;
    assert_eq!((status, &answer["accepted"]), (201, &json!(PIECES * LINES)));
    let mut caller = node.caller();
    caller.reaches(answer["position"].as_str().expect("a position")).await;
    assert_eq!(caller.value("/views/all").await, json!(PIECES * LINES));
}

/// What is sent here is left out of the events, so that the memory is the door's and not the engine's. The
/// first pieces fill buffers and the allocator's own; what comes after them must not grow with the body.
#[tokio::test]
async fn a_body_of_any_length_takes_bounded_memory() {
    const FIRST: u64 = 64;
    const PIECES: u64 = 512;
    let node = Apart::start(&STREAM.replace("key =", "unknown_fields = \"ignore\"\nkey =")).await;
    let more = "n".repeat(64 * 1024);
    let piece: String =
        (0..16).map(|skier| format!("{{\"skier\":{skier},\"more\":\"{more}\"}}\n")).collect();
    let mut slow = Slow::begin(node.address(), RIDES).await;
    for _ in 0..FIRST {
        slow.piece(piece.as_bytes()).await;
    }
    let before = node.memory("VmHWM");
    for _ in 0..PIECES {
        slow.piece(piece.as_bytes()).await;
    }
    let (status, answer) = slow.end().await;
    assert_eq!((status, &answer["accepted"]), (201, &json!((FIRST + PIECES) * 16)));
    let grown = node.memory("VmHWM").saturating_sub(before);
    let sent = PIECES * piece.len() as u64 / 1024;
    assert!(grown < sent / 8, "memory grew by {grown} KiB for {sent} KiB more of a body");
}

#[tokio::test]
async fn what_a_pausing_client_sent_before_is_visible() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let mut slow = Slow::begin(node.address(), RIDES).await;
    slow.piece(b"{\"skier\":1}\n{\"skier\":2}\n{\"ski").await;
    caller.comes_to("/views/all", &json!(2)).await;
    slow.piece(b"er\":3}\nbad\n").await;
    caller.comes_to("/views/all", &json!(3)).await;
    slow.piece(b"{\"skier\":4}").await;
    let (status, answer) = slow.end().await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(4), &json!(1)));
    assert_eq!(answer["rejections"][0]["line"], json!(4));
    caller.reaches(answer["position"].as_str().expect("a position")).await;
    assert_eq!(caller.value("/views/all").await, json!(4));
}

#[tokio::test]
async fn a_line_that_a_client_broke_off_is_no_event() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let mut slow = Slow::begin(node.address(), RIDES).await;
    slow.piece(b"{\"skier\":1}\n{\"skier\":2}\n{\"skier\":3}").await;
    caller.comes_to("/views/all", &json!(2)).await;
    drop(slow);
    let ended = "the request that broke off has ended";
    eventually(ended, PATIENCE, || {
        let mut asking = node.caller();
        async move { !busy(&mut asking).await }
    })
    .await;
    caller.accept(RIDES, r#"{"skier":4}"#).await;
    assert_eq!(caller.value("/views/all").await, json!(3), "the line without an end is none");
}

/// Whether other connections than the asking one are open.
async fn busy(caller: &mut Caller) -> bool {
    let metrics = text(&caller.get("/metrics").await);
    let open = metrics.lines().find_map(|line| line.strip_prefix("consort_http_connections_open "));
    open.expect("the number of connections").parse::<u64>().expect("a number") > 2
}
