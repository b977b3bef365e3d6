//! The definitions that a node is started with must be those that its folder was filled with.

use serde_json::json;

use crate::bed::Apart;

const FIRST: &str = r#"
[stream.rides]
key = "skier"
partitions = 4
fields = { skier = "int 1..10", lift = "int?" }

[view.rides_of]
from = "rides"
by = ["skier"]
count = true

[view.vertical]
from = "rides"
by = ["skier"]
where = "lift > 2"
sum = "lift * 10"
route = "GET /vertical/{skier}"
"#;

#[tokio::test]
async fn a_node_with_other_definitions_says_which_and_does_not_start() {
    let mut node = Apart::start(FIRST).await;
    let mut caller = node.caller();
    caller.accept("/streams/rides", r#"{"skier":1,"lift":3}"#).await;
    let mut cases = Vec::new();
    for (was, is, lines) in [
        (
            "lift * 10",
            "lift * 11",
            &[
                "view 'vertical': aggregate is 'sum(lift * 11)' here and 'sum(lift * 10)' in the cluster",
            ][..],
        ),
        (
            "lift > 2",
            "lift > 3",
            &["view 'vertical': where is 'lift > 3' here and 'lift > 2' in the cluster"],
        ),
        (
            "where = \"lift > 2\"\n",
            "",
            &["view 'vertical': where is not set here and 'lift > 2' in the cluster"],
        ),
        (
            "1..10",
            "1..11",
            &["stream 'rides': field skier is 'int 1..11' here and 'int 1..10' in the cluster"],
        ),
        (
            "partitions = 4",
            "partitions = 5",
            &["stream 'rides': partitions is '5' here and '4' in the cluster"],
        ),
        (
            "[view.vertical]",
            "[view.verticals]",
            &[
                "view 'verticals': the cluster does not have it",
                "view 'vertical': only the cluster has it",
            ],
        ),
    ] {
        let changed = FIRST.replacen(was, is, 1);
        assert_ne!(changed, FIRST, "{was}");
        cases.push((changed, lines));
    }
    cases.push((String::new(), &["stream 'rides': only the cluster has it"]));
    for (changed, lines) in cases {
        node.process.kill().await;
        node.restart_with(&changed);
        let (code, said) = node.end().await;
        assert_eq!(code, Some(1), "{said}");
        assert!(!said.contains("listens on"), "{said}");
        for line in lines {
            assert!(said.contains(&format!("  - {line}\n")), "'{line}' is not said:\n{said}");
        }
        let told = said.matches("\n  - ").count();
        // Without any declaration, all three are missing.
        let expected = if changed.is_empty() { 3 } else { lines.len() };
        assert_eq!(told, expected, "nothing else differs:\n{said}");
    }

    node.restart_with(FIRST);
    node.listens().await;
    assert_eq!(caller.value("/views/vertical?skier=1").await, json!(30));
}

#[tokio::test]
async fn routes_shapes_and_gates_may_differ() {
    let mut node = Apart::start(FIRST).await;
    let mut caller = node.caller();
    caller.accept("/streams/rides", r#"{"skier":1,"lift":3}"#).await;
    assert_eq!(caller.value("/vertical/1").await, json!(30));
    node.process.kill().await;
    let changed = FIRST
        .replace("GET /vertical/{skier}\"", "GET /up/{skier}\"\nanswer = { metres = \"value\" }")
        .replace(
            "partitions = 4",
            "partitions = 4\ngate = \"off\"\nretain = \"1d\"\nroute = \"POST /rides\"",
        );
    node.restart_with(&changed);
    node.listens().await;
    let mut caller = node.caller();
    caller.accept("/rides", r#"{"skier":1,"lift":4}"#).await;
    assert_eq!(caller.json("/up/1").await, json!({"metres": 70}));
    assert_eq!(caller.get("/vertical/1").await.status, 404);
}
