//! No tenant sees or changes another's documents.

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{GlueNode, LINES, is_applied, is_problem, json, text};

const OPERATOR: &str = "operator-token-of-sixteen";
const A: &str = "tenant-a-token-of-sixteen";
const B: &str = "tenant-b-token-of-sixteen";

async fn node() -> GlueNode {
    GlueNode::start_as(&format!(
        "[http]\nlisten = '127.0.0.1:0'\ntokens = ['{OPERATOR}']\n[engine]\nurl = 'memory:'\nshards = 4\n\
         [tenant.a]\ntokens = ['{A}']\n[tenant.b]\ntokens = ['{B}']\n\
         [glue.content]\nformat = 'json'\npartitions = 2\nhistory = 5\n"
    ))
    .await
}

fn ids(list: &Value) -> Vec<&str> {
    list["documents"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_tenant_has_its_own_documents_under_the_same_ids() {
    let node = node().await;
    let (mut a, mut b) = (node.editor_with(Some(A)), node.editor_with(Some(B)));
    let mut operator = node.editor_with(Some(OPERATOR));
    is_applied(&a.put("/glue/content/1", &json!({"of": "a"})).await, 1);
    is_applied(&a.put("/glue/content/2", &json!({"of": "a"})).await, 1);
    is_applied(&b.put("/glue/content/1", &json!({"of": "b"})).await, 1);
    assert_eq!(text(&a.get("/glue/content/1").await), "{\"of\":\"a\"}");
    assert_eq!(text(&b.get("/glue/content/1").await), "{\"of\":\"b\"}");
    for path in ["", "/versions", "/diff?from=1", "?version=1"] {
        let reply = b.get(&format!("/glue/content/2{path}")).await;
        is_problem(&reply, 404, "no-document", &[]);
    }
    assert_eq!(ids(&a.json("/glue/content").await), ["1", "2"]);
    assert_eq!(ids(&b.json("/glue/content").await), ["1"]);
    let all = operator.get_with("/glue/content", &[("consort-tenant", "*")]).await;
    assert_eq!(ids(&json(&all)), ["1", "2", "1"]);
    assert_eq!(json(&all)["documents"][2]["tenant"], "b");
    let named = operator.get_with("/glue/content/2", &[("consort-tenant", "a")]).await;
    assert_eq!(text(&named), "{\"of\":\"a\"}");
    is_problem(&operator.get("/glue/content/2").await, 404, "no-document", &[]);

    // Another tenant's delete and decision are about documents of its own.
    let deleted = b.send(Method::DELETE, "/glue/content/2?wait=applied", &[], "").await;
    assert_eq!(deleted.status, 204);
    assert_eq!(text(&a.get("/glue/content/2").await), "{\"of\":\"a\"}");
    let rows = text(&b.get("/feeds/glue/content").await);
    assert!(rows.contains("\"of\":\"b\"") && !rows.contains("\"of\":\"a\""), "{rows}");
}

#[tokio::test]
async fn a_token_fixes_the_tenant_on_every_call() {
    let node = node().await;
    let mut a = node.editor_with(Some(A));
    let other = [("consort-tenant", "b")];
    for (method, path) in [
        (Method::PUT, "/glue/content/1"),
        (Method::DELETE, "/glue/content/1"),
        (Method::GET, "/glue/content/1"),
        (Method::GET, "/glue/content/1/versions"),
        (Method::GET, "/glue/content/1/diff?from=1"),
        (Method::GET, "/glue/content"),
        (Method::GET, "/glue/content/rejects"),
        (Method::GET, "/glue"),
        (Method::POST, "/glue/content/1/discard"),
        (Method::POST, "/glue/content/1/retry"),
        (Method::GET, "/feeds/glue/content"),
        (Method::GET, "/feeds/glue/content?send=states&id=1"),
    ] {
        let reply = a
            .send(method.clone(), path, &other, if method == Method::PUT { "{}" } else { "" })
            .await;
        is_problem(&reply, 403, "other-tenant", &["'a'"]);
    }
    let patch = [crate::bed::MERGE[0], other[0]];
    let patch = a.send(Method::PATCH, "/glue/content/1", &patch, "{}").await;
    is_problem(&patch, 403, "other-tenant", &["'a'"]);
    assert_eq!(a.send(Method::HEAD, "/glue/content/1", &other, "").await.status, 403);
    let lines = [LINES[0], other[0]];
    let bulk = a.send(Method::POST, "/glue/content", &lines, "").await;
    is_problem(&bulk, 403, "other-tenant", &[]);
    let line = "{\"id\":\"1\",\"form\":\"whole\",\"piece\":{},\"tenant\":\"b\"}\n";
    let line = a.send(Method::POST, "/glue/content", LINES, line).await;
    is_problem(&line, 400, "no-piece", &[]);
    assert_eq!(json(&line)["rejections"][0]["reason"], "other-tenant");
    for path in ["/cluster", "/metrics", "/streams", "/views", "/sinks", "/"] {
        is_problem(&a.get(path).await, 403, "operator-only", &["'a'"]);
    }
    let calls = [
        (Method::PUT, "/glue/content/1"),
        (Method::PATCH, "/glue/content/1"),
        (Method::DELETE, "/glue/content/1"),
        (Method::POST, "/glue/content"),
        (Method::GET, "/glue/content/1"),
        (Method::GET, "/glue/content/1/versions"),
        (Method::GET, "/glue/content/1/diff?from=1"),
        (Method::POST, "/glue/content/1/retry"),
        (Method::POST, "/glue/content/1/discard"),
        (Method::GET, "/glue/content"),
        (Method::GET, "/glue/content/rejects"),
        (Method::GET, "/feeds/glue/content"),
        (Method::GET, "/glue"),
    ];
    for token in [None, Some("wrong-token-of-sixteen")] {
        for (method, path) in &calls {
            let reply = node.editor_with(token).send(method.clone(), path, &[], "").await;
            is_problem(&reply, 401, "no-access", &[]);
        }
        let head = node.editor_with(token).send(Method::HEAD, "/glue/content/1", &[], "").await;
        assert_eq!(head.status, 401);
    }
    assert_eq!(node.editor_with(None).get("/healthz").await.status, 200);
}

#[tokio::test]
async fn metrics_show_declared_tenants_by_name_and_the_others_together() {
    let node = node().await;
    let mut operator = node.editor_with(Some(OPERATOR));
    for (tenant, pieces) in [("a", 2), ("x", 1), ("y", 3)] {
        for _ in 0..pieces {
            let headers = [("consort-tenant", tenant)];
            let put =
                operator.send(Method::PUT, "/glue/content/1?wait=applied", &headers, "{}").await;
            assert_eq!(put.status, 200, "{}", text(&put));
        }
    }
    let metrics = text(&operator.get("/metrics").await);
    for (tenant, received) in [("a", 2), ("b", 0), ("other", 4)] {
        for outcome in ["received", "applied"] {
            let line = format!(
                "consort_glue_pieces{{collection=\"content\",tenant=\"{tenant}\",outcome=\"{outcome}\"}} {received}\n"
            );
            assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
        }
    }
}

#[tokio::test]
async fn metrics_account_for_every_piece_of_each_tenant() {
    let node = GlueNode::start_as(&format!(
        "[http]\nlisten = '127.0.0.1:0'\ntokens = ['{OPERATOR}']\n[engine]\nurl = 'memory:'\nshards = 4\n\
         [tenant.a]\ntokens = ['{A}']\n[tenant.b]\ntokens = ['{B}']\n\
         [glue.content]\nformat = 'json'\npartitions = 2\non_reject = 'halt'\ngap_for = '60s'\n"
    ))
    .await;
    let failing = "[{\"op\":\"remove\",\"path\":\"/x\"}]";
    // Tenant a sends all of it once, and b twice under other ids.
    for (token, rounds) in [(A, 1), (B, 2)] {
        let mut editor = node.editor_with(Some(token));
        for round in 0..rounds {
            let path = |id: &str| format!("/glue/content/{id}{round}");
            is_applied(&editor.put(&path("d"), &json!({})).await, 1);
            let numbered = format!("{}?source=s&seq=1", path("d"));
            is_applied(&editor.merge(&numbered, &json!({"n": 1})).await, 2);
            assert_eq!(editor.merge(&numbered, &json!({"n": 1})).await.status, 200, "a repeat");
            for seq in [3, 5, 6] {
                let path = format!("{}?source=s&seq={seq}", path("d"));
                assert_eq!(editor.merge(&path, &json!({})).await.status, 202, "it is held");
            }
            let absent = [("if-none-match", "*")];
            for _ in 0..2 {
                let put = editor.send(Method::PUT, &path("d"), &absent, "{}").await;
                is_problem(&put, 412, "condition-failed", &[]);
            }
            is_applied(&editor.put(&path("h"), &json!({})).await, 1);
            let halting = format!("{}?wait=applied", path("h"));
            let halting = editor.send(Method::PATCH, &halting, crate::bed::PATCH, failing).await;
            is_problem(&halting, 409, "missing-path", &[]);
            is_problem(&editor.merge(&path("h"), &json!({})).await, 423, "queued", &[]);
        }
    }
    let metrics = text(&node.editor_with(Some(OPERATOR)).get("/metrics").await);
    let figure = |tenant: &str, outcome: &str| -> u64 {
        let name = format!(
            "consort_glue_pieces{{collection=\"content\",tenant=\"{tenant}\",outcome=\"{outcome}\"}} "
        );
        let found = metrics.lines().find_map(|line| line.strip_prefix(&name));
        found.unwrap_or_else(|| panic!("{name}is not in\n{metrics}")).parse().expect("a number")
    };
    for (tenant, rounds) in [("a", 1), ("b", 2)] {
        let outcomes =
            [("applied", 3), ("repeats", 1), ("rejected", 2), ("held", 3), ("queued", 2)];
        for (outcome, each) in outcomes {
            assert_eq!(figure(tenant, outcome), each * rounds, "{outcome} of {tenant}");
        }
        let sum: u64 = outcomes.iter().map(|(outcome, _)| figure(tenant, outcome)).sum();
        assert_eq!(figure(tenant, "received"), sum, "the six figures of {tenant}");
        assert_eq!(sum, 11 * rounds);
    }
}
