//! Reading what was written: `Consort-Position`, `Consort-After` and `Consort-Lag`.

use consort_client::Method;
use serde_json::json;

use crate::bed::Here;
use crate::caller::{is_problem, json};

const STREAM: &str = r#"
[stream.rides]
partitions = 4
fields = { skier = "int" }

[view.rides_of]
from = "rides"
by = ["skier"]
count = true
"#;

#[tokio::test]
async fn who_asks_with_the_position_of_a_post_sees_it() {
    const ROUNDS: i64 = 100;
    let node = Here::start(STREAM).await;
    let tasks = (0..4).map(|skier| {
        let (mut poster, mut reader) = (node.caller(), node.caller());
        tokio::spawn(async move {
            for round in 1..=ROUNDS {
                let event = json!({"skier": skier}).to_string();
                let reply = poster.accept("/streams/rides", event).await;
                let position = reply.header("consort-position").expect("a position");
                // Another connection, which knows nothing but the position.
                let path = format!("/views/rides_of?skier={skier}");
                let after = [("consort-after", position)];
                let answer = reader.send(Method::GET, &path, &after, "").await;
                assert_eq!(json(&answer)["value"], json!(round));
            }
        })
    });
    for done in futures::future::join_all(tasks).await {
        done.expect("every post was seen");
    }
}

#[tokio::test]
async fn several_positions_are_waited_for_together() {
    let node = Here::start(STREAM).await;
    let (mut a, mut b) = (node.caller(), node.caller());
    let lines: String = (0..200).map(|skier| format!("{{\"skier\":{skier}}}\n")).collect();
    for _ in 0..5 {
        a.lines("/streams/rides", lines.clone()).await;
        b.accept("/streams/rides", r#"{"skier":0}"#).await;
    }
    let both = format!("{}, {}", a.position(), b.position());
    let after = [("consort-after", both.as_str())];
    let mut reader = node.caller();
    for (skier, rides) in [(0, 10), (1, 5), (199, 5)] {
        let path = format!("/views/rides_of?skier={skier}");
        let answer = reader.send(Method::GET, &path, &after, "").await;
        assert_eq!(json(&answer)["value"], json!(rides), "skier {skier}");
    }
}

#[tokio::test]
async fn a_position_that_is_none_is_refused() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let good = caller.accept("/streams/rides", r#"{"skier":1}"#).await;
    let good = good.header("consort-position").expect("a position").to_owned();
    let (_, rest) = good.split_once(':').expect("a place");
    let of = |partition: &str| format!("{partition}:{rest}");
    for (position, words) in [
        (String::new(), "is no position: send back what 'Consort-Position' said"),
        ("x".into(), "'x' is no position"),
        ("rides/0:1:2".into(), "is no position"),
        (format!("{good},"), "'' is no position"),
        (format!("{good}:1"), "is no position"),
        ("é".into(), "not ASCII"),
        (vec![good.as_str(); 1_025].join(","), "at most 1024 places"),
        (of("rides/4"), "there is no partition 'rides/4'"),
        (of("rides/-1"), "is no position"),
        (of("rider/0"), "there is no partition 'rider/0'"),
        (format!("{good},{}", of("rides/4294967295")), "there is no partition 'rides/4294967295'"),
    ] {
        let after = [("consort-after", position.as_str())];
        let reply = caller.send(Method::GET, "/views/rides_of?skier=1", &after, "").await;
        if reply.status == 431 {
            assert!(position.len() > 30_000, "{}", position.len());
            continue;
        }
        is_problem(&reply, 400, "position", &["'Consort-After'", words]);
    }
    let after = [("consort-after", good.as_str())];
    let reply = caller.send(Method::GET, "/views/rides_of?skier=1", &after, "").await;
    assert_eq!(json(&reply)["value"], json!(1));
}

#[tokio::test]
async fn a_position_that_is_not_reached_is_not_waited_for_without_end() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let reply = caller.accept("/streams/rides", r#"{"skier":1}"#).await;
    let position = reply.header("consort-position").expect("a position");
    let mut parts: Vec<&str> = position.split(':').collect();
    // The same producer, far ahead of what it has written.
    parts[2] = "1000000";
    let ahead = parts.join(":");
    let after = [("consort-after", ahead.as_str())];
    let reply = caller.send(Method::GET, "/views/rides_of", &after, "").await;
    is_problem(&reply, 503, "not-reached", &["10s", "ask again"]);
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn every_answer_says_how_far_behind_it_may_be() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    caller.accept("/streams/rides", r#"{"skier":1}"#).await;
    for path in ["/views/rides_of?skier=1", "/views/rides_of"] {
        let reply = caller.get(path).await;
        let lag = reply.header("consort-lag").expect("the lag");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        // Until the node has heard of its own workers, it does not know.
        let seconds = lag.split(';').next().unwrap_or_default();
        let known = seconds.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0);
        assert!(known || lag == "unknown", "{lag}");
    }
    let settled = "the node knows that nothing is behind";
    consort_testbed::eventually(settled, crate::bed::PATIENCE, || {
        let mut caller = node.caller();
        async move {
            let reply = caller.get("/views/rides_of").await;
            reply.header("consort-lag") == Some("0.000")
        }
    })
    .await;
}
