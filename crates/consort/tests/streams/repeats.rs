//! Events that are sent again: by `Idempotency-Key`, and by the stream's own `id` field.

use consort_client::Method;
use consort_testbed::{RedisOptions, RedisServer};
use futures::future::join_all;
use serde_json::json;

use crate::bed::{Apart, Here};
use crate::caller::{Caller, is_problem, json, text};

const STREAMS: &str = r#"
[stream.plain]
partitions = 4
fields = { skier = "int" }

[stream.keyed]
key = "skier"
id = "ride"
route = "POST /rides/{skier}"
partitions = 4
fields = { skier = "int", ride = "text?" }

[view.plain_rides]
from = "plain"
by = ["skier"]
count = true

[view.all_keyed]
from = "keyed"
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
        for reply in join_all(posts).await {
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

/// Posts all of them at the same moment, by turns through these callers, and gives the statuses with their problems.
async fn at_once(
    callers: &mut [Caller],
    key: &str,
    posts: &[(String, String)],
) -> Vec<(u16, String)> {
    let turns = posts.chunks(callers.len());
    let mut statuses = Vec::new();
    for turn in turns {
        let posting = callers.iter_mut().zip(turn).map(|(caller, (path, body))| async move {
            let headers = [("idempotency-key", key)];
            let reply = caller.post_with(path, &headers, body.clone()).await;
            if reply.status == 422 {
                is_problem(&reply, 422, "key-reused", &["came before with another event"]);
            }
            (reply.status.as_u16(), text(&reply))
        });
        statuses.extend(join_all(posting).await);
    }
    statuses
}

/// Posts of eight different events, which go to several partitions.
fn eight_events() -> Vec<(String, String)> {
    let post = |skier: u32| ("/streams/keyed".to_owned(), format!("{{\"skier\":{skier}}}"));
    (1..=8).map(post).collect()
}

/// Posts of one event, in several forms and by both of its routes.
fn one_event_in_eight_forms() -> Vec<(String, String)> {
    let by_name = ["{\"skier\":7,\"ride\":\"x\"}", " { \"ride\" : \"x\", \"skier\" : 7 } "];
    let by_route = ["{\"ride\":\"x\"}", "\n{ \"ride\": \"x\" }\n"];
    let forms = by_name.map(|body| ("/streams/keyed", body)).into_iter();
    let forms = forms.chain(by_route.map(|body| ("/rides/7", body)));
    let forms = forms.map(|(path, body)| (path.to_owned(), body.to_owned()));
    forms.cycle().take(8).collect()
}

/// One key with eight events, and another with one event in eight forms, posted through all nodes at once.
async fn keys_belong_to_their_events(nodes: &[Here]) {
    let callers = || -> Vec<Caller> {
        (0..8).map(|number: usize| nodes[number % nodes.len()].caller()).collect()
    };
    for round in 0..3u64 {
        let mut posting = callers();
        let answers = at_once(&mut posting, &format!("many-{round}"), &eight_events()).await;
        let of = |status: u16| answers.iter().filter(|(given, _)| *given == status).count();
        assert_eq!((of(201), of(422)), (1, 7), "{answers:?}");
        let winner = answers.iter().position(|(status, _)| *status == 201).expect("one");
        let counted = posting[winner].value("/views/all_keyed").await;
        assert_eq!(counted, json!(2 * round + 1), "exactly one counts");

        let mut posting = callers();
        let key = format!("one-{round}");
        let answers = at_once(&mut posting, &key, &one_event_in_eight_forms()).await;
        assert!(answers.iter().all(|(status, _)| *status == 201), "{answers:?}");
        for caller in &mut posting {
            assert_eq!(caller.value("/views/all_keyed").await, json!(2 * round + 2));
        }
    }
}

#[tokio::test]
async fn a_key_belongs_to_its_first_event_whatever_partition_another_would_go_to() {
    keys_belong_to_their_events(&[Here::start(STREAMS).await]).await;
}

#[tokio::test]
async fn a_key_belongs_to_its_first_event_through_several_nodes_at_once() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let a = Here::start_on(&url, "a", STREAMS).await;
    let b = Here::start_on(&url, "b", STREAMS).await;
    keys_belong_to_their_events(&[a, b]).await;
}
