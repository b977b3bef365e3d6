//! A tenant that floods is held at its quota, and a quiet one is not refused.

use consort_client::Method;
use serde_json::json;

use crate::bed::{GlueNode, LINES, json, text};

/// One partition for all, and a small quota.
const COLLECTION: &str = "
    [glue.content]
    format = 'json'
    partitions = 1
    tenant_pieces = 200
";

/// Pieces of a tenant, as many as one request has, until the test is over.
async fn flood(node: &GlueNode, tenant: &'static str, requests: usize) -> (u64, u64) {
    let (mut editor, mut stored, mut refused) = (node.editor(), 0, 0);
    let line = |n: usize| {
        format!(
            "{}\n",
            json!({"id": format!("d{}", n % 50), "form": "merge-patch", "piece": {"n": n}})
        )
    };
    let body: String = (0..2_000).map(line).collect();
    for _ in 0..requests {
        let headers = [LINES[0], ("consort-tenant", tenant)];
        let reply = editor.send(Method::POST, "/glue/content", &headers, body.clone()).await;
        let status = reply.status.as_u16();
        assert!([202, 429].contains(&status), "{}", text(&reply));
        stored += json(&reply)["accepted"].as_u64().unwrap();
        refused += u64::from(status == 429);
    }
    (stored, refused)
}

async fn quiet(node: &GlueNode, pieces: u64) {
    let mut editor = node.editor();
    for n in 0..pieces {
        let headers = [("consort-tenant", "quiet"), crate::bed::MERGE[0]];
        let body = json!({ "n": n }).to_string();
        let reply = editor.send(Method::PATCH, "/glue/content/q", &headers, body).await;
        assert_eq!(reply.status, 202, "piece {n}: {}", text(&reply));
    }
}

async fn counted(node: &GlueNode, tenants: &[&str]) -> u64 {
    let overview = node.editor().json("/glue").await;
    let shown = &overview["collections"][0]["tenants"];
    tenants.iter().map(|tenant| shown[tenant]["received"].as_u64().unwrap_or_default()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flood_leaves_the_quiet_tenant_its_room() {
    let node = GlueNode::start_with(COLLECTION).await;
    let ((stored, _), ()) = tokio::join!(flood(&node, "a", 10), quiet(&node, 200));
    assert!(stored > 0);
    node.editor().counters("content").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_floods_leave_the_quiet_tenant_its_room() {
    let node = GlueNode::start_with(COLLECTION).await;
    let floods =
        async { tokio::join!(flood(&node, "a", 5), flood(&node, "b", 5), flood(&node, "c", 5)) };
    let (((a, _), (b, _), (c, _)), ()) = tokio::join!(floods, quiet(&node, 200));
    let stored = a + b + c;
    consort_testbed::eventually("all that was stored is applied", crate::bed::PATIENCE, || async {
        counted(&node, &["a", "b", "c"]).await == stored
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn single_pieces_beyond_the_quota_hear_429_and_when_to_come_again() {
    // Nothing is applied while the only node has no owner for the partition: pieces pile up at once.
    let node = GlueNode::start_with(
        "[glue.content]\nformat = 'json'\npartitions = 1\ntenant_pieces = 16\n",
    )
    .await;
    let clients = (0..64).map(|_| async {
        let (mut editor, mut refused) = (node.editor(), 0);
        for n in 0..50 {
            let body = json!({ "n": n }).to_string();
            let reply =
                editor.send(Method::PATCH, "/glue/content/d", crate::bed::MERGE, body).await;
            match reply.status.as_u16() {
                202 => {}
                429 => {
                    crate::bed::is_problem(&reply, 429, "quota", &["16 pieces"]);
                    assert_eq!(reply.header("retry-after"), Some("1"));
                    refused += 1;
                }
                _ => panic!("{}", text(&reply)),
            }
        }
        refused
    });
    let refused: u32 = futures::future::join_all(clients).await.into_iter().sum();
    assert!(refused > 0, "64 clients at once are more than 16 pieces");
    node.editor().counters("content").await;
}
