//! The gates of streams as a client meets them. How they decide is tested beside them.

use serde_json::json;

use crate::bed::Here;
use crate::caller::{Caller, text};

const STREAMS: &str = r#"
[stream.open]
gate = "off"
partitions = 4
fields = { skier = "int" }

[stream.guarded]
gate = "breaker"
partitions = 4
fields = { skier = "int" }

[view.open_rides]
from = "open"
count = true

[view.guarded_rides]
from = "guarded"
count = true
"#;

const POSTERS: u64 = 32;
const EACH: u64 = 70;

/// Posts from many connections at once, all of which must be accepted.
async fn rush(node: &Here, stream: &'static str) -> Caller {
    let posts = (0..POSTERS).map(|_| {
        let mut caller = node.caller();
        tokio::spawn(async move {
            for _ in 0..EACH {
                caller.accept(&format!("/streams/{stream}"), r#"{"skier":1}"#).await;
            }
            caller.position()
        })
    });
    let mut caller = node.caller();
    for position in futures::future::join_all(posts).await {
        caller.reaches(&position.expect("all are accepted")).await;
    }
    caller
}

/// A figure of a stream's gate.
async fn figure(caller: &mut Caller, name: &str) -> Option<f64> {
    let metrics = text(&caller.get("/metrics").await);
    let number = metrics.lines().find_map(|line| line.strip_prefix(name));
    number.map(|number| number.trim().parse().expect("a number"))
}

#[tokio::test]
async fn a_gate_that_is_off_refuses_nobody() {
    let node = Here::start(STREAMS).await;
    let mut caller = rush(&node, "open").await;
    assert_eq!(caller.value("/views/open_rides").await, json!(POSTERS * EACH));
    let admitted = figure(&mut caller, "consort_gate_admitted_total{stream=\"open\"}").await;
    assert_eq!(admitted, Some((POSTERS * EACH) as f64));
    for reason in ["latency", "lag", "breaker", "crowd"] {
        let name = format!("consort_gate_refused_total{{stream=\"open\",reason=\"{reason}\"}}");
        assert!(matches!(figure(&mut caller, &name).await, None | Some(0.0)), "{reason}");
    }
}

#[tokio::test]
async fn a_breaker_accepts_a_rush_that_it_can_hold() {
    let node = Here::start(STREAMS).await;
    let mut caller = rush(&node, "guarded").await;
    assert_eq!(caller.value("/views/guarded_rides").await, json!(POSTERS * EACH));
    let k = figure(&mut caller, "consort_gate_breaker_k{stream=\"guarded\"}").await;
    assert!(k.is_some(), "the breaker is not shown");
    let refused = "consort_gate_refused_total{stream=\"guarded\",reason=\"breaker\"}";
    assert!(matches!(figure(&mut caller, refused).await, None | Some(0.0)));
}
