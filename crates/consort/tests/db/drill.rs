//! The crash drill: the leader ends at once, and another worker takes the writes.

use consort_client::Method;
use consort_testbed::eventually;
use serde_json::{Value, json};

use crate::bed::{Caller, DbNode, PATIENCE, body};

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

async fn workers(caller: &mut Caller) -> Vec<(u64, bool)> {
    let listed = caller.get("/db/notes/workers").await;
    let worker =
        |worker: &Value| (worker["id"].as_u64().unwrap_or_default(), worker["role"] == "leader");
    listed["workers"].as_array().expect("a list").iter().map(worker).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_at_another_worker_and_no_id_comes_back() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    for round in 1..=3 {
        let before = workers(&mut caller).await;
        let (leader, _) = *before.iter().find(|(_, leads)| *leads).expect("a leader");
        let path = format!("/db/notes/workers/{leader}/crash");
        let reply = caller.send(Method::POST, &path, JSON, "{}").await;
        assert_eq!((reply.status.as_u16(), body(&reply)), (200, json!({ "id": leader })));
        // The request waits for the next leader.
        caller
            .write(json!([["INSERT INTO notes (title) VALUES (?)", format!("round {round}")]]))
            .await;
        assert_eq!(caller.rows("SELECT count(*) FROM notes").await, json!([[round]]));
        eventually("it is replaced", PATIENCE, || {
            let mut caller = node.caller();
            async move {
                let now = workers(&mut caller).await;
                let leads = now.iter().filter(|(_, leads)| *leads).count() == 1;
                leads && now.len() == 2 && now.iter().all(|(id, _)| *id != leader)
            }
        })
        .await;
    }
    let ids: Vec<u64> = workers(&mut caller).await.iter().map(|(id, _)| *id).collect();
    assert!(ids.is_sorted() && ids.iter().any(|id| *id >= 5), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_need_a_json_body_and_something_to_order() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    for (path, headers, sent, status, kind) in [
        (
            "/db/notes/workers/1/crash",
            &[("content-type", "text/plain")][..],
            "{}",
            415,
            "content-type",
        ),
        ("/db/notes/workers/1/crash", JSON, "", 400, "db-request"),
        ("/db/notes/workers/1/crash", JSON, "{\"now\": true}", 400, "db-request"),
        ("/db/notes/workers/99/crash", JSON, "{}", 404, "db-not-found"),
        ("/db/notes/workers/x/crash", JSON, "{}", 404, "db-not-found"),
        ("/db/none/workers/1/crash", JSON, "{}", 404, "db-not-found"),
        ("/db/notes/resolve", JSON, "{}", 400, "db-request"),
        ("/db/notes/resolve", JSON, "{\"accept\": true, \"from_worker\": 1}", 400, "db-request"),
        ("/db/notes/resolve", JSON, "{\"from_worker\": 99}", 404, "db-not-found"),
    ] {
        let reply = caller.send(Method::POST, path, headers, sent).await;
        let problem = body(&reply);
        assert_eq!(
            problem["type"],
            format!("urn:consort:problem:{kind}"),
            "{path} {sent}: {problem}"
        );
        assert_eq!(reply.status.as_u16(), status, "{path} {sent}");
    }
    let alive = workers(&mut caller).await;
    assert_eq!(alive.len(), 2, "{alive:?}");
}
