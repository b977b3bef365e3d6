//! Events that are sent again: by `Idempotency-Key`, and by the stream's own `id` field.

use consort_client::Method;
use serde_json::json;

use crate::bed::{Apart, Here};
use crate::caller::{is_problem, json, text};

const STREAMS: &str = r#"
[stream.plain]
partitions = 4
fields = { skier = "int" }

[stream.keyed]
key = "skier"
id = "ride"
partitions = 4
fields = { skier = "int", ride = "text?" }

[view.plain_rides]
from = "plain"
by = ["skier"]
count = true

[view.keyed_rides]
from = "keyed"
by = ["skier"]
count = true
"#;

#[tokio::test]
async fn a_key_counts_once_and_another_key_again() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let longest = "k".repeat(255);
    for key in ["a", "a", "b", "a", "A", &longest, &longest, "x y-!~\"", "b"] {
        let reply =
            caller.post_with("/streams/plain", &[("idempotency-key", key)], r#"{"skier":1}"#).await;
        assert_eq!(reply.status, 201, "{key}: {}", text(&reply));
        assert_eq!(json(&reply), json!({"accepted": 1}), "a repeat is answered as the first was");
    }
    assert_eq!(caller.value("/views/plain_rides?skier=1").await, json!(5));
    for _ in 0..3 {
        caller.accept("/streams/plain", r#"{"skier":2}"#).await;
    }
    assert_eq!(caller.value("/views/plain_rides?skier=2").await, json!(3), "these have no keys");
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    for key in ["", "é", &"k".repeat(256)] {
        let reply =
            caller.post_with("/streams/plain", &[("idempotency-key", key)], r#"{"skier":1}"#).await;
        is_problem(&reply, 400, "idempotency-key", &["1 to 255 visible ASCII characters"]);
    }
    let key = ("idempotency-key", "a");
    let lines = ("content-type", "application/x-ndjson");
    for (headers, body) in [
        (&[key][..], r#"[{"skier":1}]"#),
        (&[key][..], " []"),
        (&[key, lines][..], "{\"skier\":1}\n"),
    ] {
        let reply = caller.post_with("/streams/plain", headers, body).await;
        is_problem(&reply, 400, "idempotency-key", &["a single event", "'id'"]);
    }
    assert_eq!(caller.value("/views/plain_rides?skier=1").await, json!(0));
}

#[tokio::test]
async fn an_id_in_a_field_counts_once_however_it_comes() {
    let node = Here::start(STREAMS).await;
    let mut caller = node.caller();
    let event = r#"{"skier":1,"ride":"r1"}"#;
    caller.accept("/streams/keyed", event).await;
    caller.accept("/streams/keyed", event).await;
    caller.accept("/streams/keyed", format!("[{event},{event}]")).await;
    let lines = format!(
        "{event}\n{event}\n{{\"skier\":1,\"ride\":\"r2\"}}\n{{\"skier\":1}}\n{{\"skier\":1}}\n"
    );
    let reply = caller.lines("/streams/keyed", lines).await;
    assert_eq!(json(&reply)["accepted"], json!(5), "a repeat is accepted, and counts no more");
    assert_eq!(caller.value("/views/keyed_rides?skier=1").await, json!(4));
    // A key in the header goes before the field.
    for (key, expected) in [("k1", 5), ("k1", 5), ("r1", 5)] {
        let headers = [("idempotency-key", key)];
        let body = r#"{"skier":1,"ride":"r9"}"#;
        assert_eq!(caller.post_with("/streams/keyed", &headers, body).await.status, 201);
        assert_eq!(caller.value("/views/keyed_rides?skier=1").await, json!(expected), "{key}");
    }
}

#[tokio::test]
async fn repeats_at_the_same_moment_count_once() {
    const KEYS: u64 = 40;
    let node = Here::start(STREAMS).await;
    let mut callers: Vec<_> = (0..4).map(|_| node.caller()).collect();
    for key in 0..KEYS {
        let key = format!("key-{key}");
        let posts = callers.iter_mut().map(|caller| {
            let key = key.as_str();
            async move {
                let headers = [("idempotency-key", key)];
                caller.post_with("/streams/plain", &headers, r#"{"skier":1}"#).await
            }
        });
        for reply in futures::future::join_all(posts).await {
            assert_eq!(reply.status, 201);
        }
    }
    for mut caller in callers {
        assert_eq!(caller.value("/views/plain_rides?skier=1").await, json!(KEYS));
    }
}

#[tokio::test]
async fn a_repeat_after_a_kill_counts_once() {
    let mut node = Apart::start(STREAMS).await;
    let mut caller = node.caller();
    let key = [("idempotency-key", "before")];
    assert_eq!(caller.post_with("/streams/plain", &key, r#"{"skier":1}"#).await.status, 201);
    let event = r#"{"skier":1,"ride":"r1"}"#;
    caller.accept("/streams/keyed", event).await;
    // Killed with the first ones applied, and then with one that perhaps is not.
    assert_eq!(caller.value("/views/plain_rides?skier=1").await, json!(1));
    for keyed in 1..=2 {
        node.crash().await;
        let mut caller = node.caller();
        assert_eq!(caller.post_with("/streams/plain", &key, r#"{"skier":1}"#).await.status, 201);
        caller.accept("/streams/keyed", event).await;
        assert_eq!(caller.value("/views/plain_rides?skier=1").await, json!(1));
        assert_eq!(caller.value("/views/keyed_rides?skier=1").await, json!(keyed));
        let last = r#"{"skier":1,"ride":"r2"}"#;
        assert_eq!(caller.send(Method::POST, "/streams/keyed", &[], last).await.status, 201);
    }
    node.crash().await;
    let mut caller = node.caller();
    caller.accept("/streams/keyed", r#"{"skier":1,"ride":"r2"}"#).await;
    assert_eq!(caller.value("/views/keyed_rides?skier=1").await, json!(2));
}
