//! `POST /streams/{stream}` with one event or a list of them.

use serde_json::json;

use crate::bed::Here;
use crate::caller::{is_problem, json, text};

const STREAMS: &str = r#"
[stream.rides]
key = "skier"
partitions = 4
fields = { skier = "int 1..1000", lift = "int", note = "text? 0..40", price = "decimal(2)?" }

[stream.loose]
unknown_fields = "ignore"
partitions = 1
fields = { skier = "int" }

[view.rides_of]
from = "rides"
by = ["skier"]
count = true

[view.all]
from = "rides"
count = true

[view.loose_all]
from = "loose"
count = true
"#;

#[tokio::test]
async fn one_event_is_accepted_with_its_position() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let reply = caller.accept("/streams/rides", r#" {"skier": 7, "lift": 3} "#).await;
    assert_eq!(json(&reply), json!({"accepted": 1}));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let position = reply.header("consort-position").expect("a position");
    assert!(position.starts_with("rides/"), "{position}");
    assert_eq!(caller.value("/views/rides_of?skier=7").await, json!(1));
    assert_eq!(caller.value("/views/rides_of?skier=8").await, json!(0));
}

#[tokio::test]
async fn of_a_list_the_good_ones_are_accepted_and_the_others_told() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let list = r#" [{"skier":1,"lift":1}, {"skier":0,"lift":1}, 5, {"skier":1,"lift":2}, null] "#;
    let reply = caller.accept("/streams/rides", list).await;
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(2), &json!(3)));
    let rejected: Vec<_> =
        answer["rejections"].as_array().expect("a list").iter().map(|one| &one["event"]).collect();
    assert_eq!(rejected, [&json!(2), &json!(3), &json!(5)]);
    assert!(text(&reply).contains("field 'skier' must be a whole number from 1 to 1000"));
    assert_eq!(caller.value("/views/rides_of?skier=1").await, json!(2));

    let none_good = caller.post("/streams/rides", r#"[{"skier":0}, {}]"#).await;
    is_problem(&none_good, 400, "invalid-event", &["none of the events is a valid event"]);
    assert_eq!(json(&none_good)["rejections"].as_array().map(Vec::len), Some(2));
    let empty = caller.accept("/streams/rides", "[]").await;
    assert_eq!(json(&empty), json!({"accepted": 0, "rejected": 0}));
    let broken = caller.post("/streams/rides", r#"[{"skier":1,"lift":1},"#).await;
    is_problem(&broken, 400, "invalid-event", &["the list of events is not JSON", "EOF"]);
    assert_eq!(caller.value("/views/all").await, json!(2), "a broken list counts for nothing");
}

#[tokio::test]
async fn what_is_no_event_is_told_why() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    for (body, words) in [
        ("", "not a JSON object"),
        ("  \n ", "not a JSON object"),
        ("7", "not a JSON object"),
        ("\"x\"", "not a JSON object"),
        (r#"{"skier":1,"lift":1"#, "not a JSON object: EOF"),
        (r#"{"skier":1,"lift":1} {"skier":1,"lift":1}"#, "trailing characters"),
        ("{\"skier\":1,\"lift\":1,\"note\":\"\u{1}\"}", "control character"),
        (r#"{"skier":1,"lift":1,"note":"\ud800"}"#, "not a JSON object"),
        (r#"{"skier":1,"lift":9223372036854775808}"#, "field 'lift' must be"),
        (r#"{"skier":1,"lift":1e2}"#, "field 'lift' must be"),
        (r#"{"skier":1,"lift":1.0}"#, "field 'lift' must be"),
        (r#"{"skier":1,"lift":1,"price":0.001}"#, "field 'price' must be a number with at most 2"),
        (r#"{"skier":1,"lift":1,"price":true}"#, "field 'price' must be"),
        (r#"{"skier":1,"lift":1,"skier":1}"#, "field 'skier' comes twice"),
        (r#"{"skier":1,"lift":1,"skiër":1}"#, "unknown field 'skiër'; there are 'lift', 'note'"),
        (
            r#"{"skier":1,"lift":1,"note":"12345678901234567890123456789012345678901"}"#,
            "field 'note' must be a text of 0 to 40 characters",
        ),
    ] {
        is_problem(&caller.post("/streams/rides", body).await, 400, "invalid-event", &[words]);
    }
    let not_utf8 =
        caller.post("/streams/rides", &b"{\"skier\":1,\"lift\":1,\"note\":\"\xff\"}"[..]);
    is_problem(&not_utf8.await, 400, "invalid-event", &["not a JSON object"]);
    assert_eq!(caller.value("/views/all").await, json!(0));
}

#[tokio::test]
async fn unknown_fields_are_ignored_where_that_is_set() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let body = r#"{"more":[1,{"a":null}],"skier":1,"more":"twice"}"#;
    caller.accept("/streams/loose", body).await;
    let twice = caller.post("/streams/loose", r#"{"skier":1,"x":0,"skier":1}"#).await;
    is_problem(&twice, 400, "invalid-event", &["field 'skier' comes twice"]);
    assert_eq!(caller.value("/views/loose_all").await, json!(1));
}

#[tokio::test]
async fn deep_nesting_harms_nobody() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let depth = 200_000;
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let objects = r#"{"a":"#.repeat(depth);
    for (path, body) in [
        ("/streams/rides", format!("{{\"skier\":1,\"lift\":{open}{close}}}")),
        ("/streams/rides", format!("{{\"skier\":1,\"lift\":{objects}")),
        ("/streams/rides", format!("{{\"skier\":1,\"lift\":1,\"price\":{open}{close}}}")),
        ("/streams/rides", format!("{{\"skier\":{open}")),
        ("/streams/rides", objects.clone()),
        ("/streams/rides", open.clone()),
        ("/streams/rides", format!("{open}{close}")),
        ("/streams/loose", format!("{{\"x\":{open}")),
        ("/streams/loose", format!("{{\"skier\":{open}{close}}}")),
    ] {
        let reply = caller.post(path, body).await;
        assert_eq!(reply.status, 400, "{}", text(&reply));
    }
    // What is ignored may be as deep as it likes.
    caller.accept("/streams/loose", format!("{{\"x\":{open}{close},\"skier\":1}}")).await;
    assert_eq!(caller.value("/views/loose_all").await, json!(1));
}

#[tokio::test]
async fn a_stream_that_is_not_there_is_told_with_those_that_are() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    for body in ["{}", "[]", ""] {
        let reply = caller.post("/streams/ride", body).await;
        let words = ["there is no stream 'ride'", "'rides'", "'loose'"];
        is_problem(&reply, 404, "no-such-stream", &words);
    }
    let lines = caller.lines("/streams/ride", "{}\n").await;
    is_problem(&lines, 404, "no-such-stream", &["'rides'", "'loose'"]);
    let rejects = caller.get("/streams/ride/rejects").await;
    is_problem(&rejects, 404, "no-such-stream", &["'ride'", "'rides'", "'loose'"]);

    let bare = Here::start("").await;
    let reply = bare.caller().post("/streams/rides", "{}").await;
    is_problem(&reply, 404, "no-such-stream", &["'rides'", "declares none"]);
}

#[tokio::test]
async fn events_are_json_by_their_content_type() {
    const ROUTED: &str = r#"
        [stream.rides]
        route = "POST /rides/{skier}"
        fields = { skier = "int", lift = "int" }
        [view.all]
        from = "rides"
        count = true
    "#;
    let node = Here::start(ROUTED).await;
    let mut caller = node.caller();
    let event = r#"{"skier":1,"lift":1}"#;
    // The second is what curl says of any body.
    for media_type in [
        "application/json",
        "application/x-www-form-urlencoded",
        "Application/JSON; charset=utf-8",
        "text/plain",
    ] {
        let given = [("content-type", media_type)];
        let reply = caller.post_with("/streams/rides", &given, event).await;
        assert_eq!(reply.status, 201, "{media_type}");
        let reply = caller.post_with("/rides/1", &given, r#"{"lift":1}"#).await;
        assert_eq!(reply.status, 201, "{media_type}");
    }
    for media_type in ["application/xml", "image/png", "json", "é"] {
        let given = [("content-type", media_type)];
        let reply = caller.post_with("/streams/rides", &given, event).await;
        is_problem(&reply, 415, "content-type", &["application/json", "application/x-ndjson"]);
        let reply = caller.post_with("/rides/1", &given, r#"{"lift":1}"#).await;
        is_problem(&reply, 415, "content-type", &["application/json"]);
    }
    let lines = [("content-type", "application/x-ndjson")];
    let reply = caller.post_with("/rides/1", &lines, "{\"lift\":1}\n{\"lift\":2}\n").await;
    is_problem(&reply, 415, "content-type", &["application/json", "/streams/rides"]);
    assert_eq!(caller.value("/views/all").await, json!(8));
}

#[tokio::test]
async fn a_list_that_is_too_large_is_refused_whole() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let one = r#"{"skier":1,"lift":1},"#;
    let list = format!("[{}{{}}]", one.repeat(8 * 1024 * 1024 / one.len() + 1));
    let reply = caller.post("/streams/rides", list).await;
    is_problem(&reply, 413, "body-too-large", &["8388608 bytes"]);
    assert_eq!(reply.header("connection"), Some("close"));
    let mut caller = node.caller();
    assert_eq!(caller.value("/views/all").await, json!(0));
}

#[tokio::test]
async fn an_event_that_no_log_takes_holds_up_none_beside_it() {
    let node = Here::start(&STREAMS.replace("0..40", "0..9000000")).await;
    let mut caller = node.caller();
    let large = json!({"skier": 1, "lift": 1, "note": "n".repeat(3 << 20)}).to_string();
    let reply = caller.post("/streams/rides", large.clone()).await;
    is_problem(&reply, 413, "event-too-large", &["a record", "2097152"]);
    let small = r#"{"skier":1,"lift":1}"#;
    let reply = caller.accept("/streams/rides", format!("[{small},{large},{small}]")).await;
    let told = json!([{"event": 2, "reason": "the event is larger than 2097152 bytes"}]);
    let answer = json(&reply);
    assert_eq!((&answer["accepted"], &answer["rejections"]), (&json!(2), &told));
    assert_eq!(caller.value("/views/all").await, json!(2));
}
