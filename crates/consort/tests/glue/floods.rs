//! A tenant that floods is held at its quota, and another tenant's piece waits for no more than that.
//!
//! `CONSORT_GLUE_FLOOD` divides the floods, where a run has less time: 10 sends a tenth of the pieces.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort_client::Method;
use consort_testbed::eventually;
use parking_lot::Mutex;
use serde_json::json;

use crate::bed::{GlueNode, LINES, PATIENCE, json, text};

/// Unapplied pieces that a tenant may have in the one partition.
const QUOTA: u64 = 200;

/// One partition for all, and a small quota.
const COLLECTION: &str = "
    [glue.content]
    format = 'json'
    partitions = 1
    tenant_pieces = 200
";

/// Pieces of one flood, and of one request of it.
const FLOOD: u64 = 100_000;
const LINES_EACH: u64 = 2_000;

/// The quiet tenant's pieces: enough for a 99th percentile, though the floods may end before.
const QUIET_LEAST: usize = 100;

/// Between two looks at how many pieces are not applied.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn flood_pieces() -> u64 {
    let divided = std::env::var("CONSORT_GLUE_FLOOD").ok();
    let divided = divided.map(|text| text.parse().expect("CONSORT_GLUE_FLOOD is a whole number"));
    FLOOD / divided.unwrap_or(1).max(1)
}

/// What happens while floods are under way.
#[derive(Default)]
struct Watched {
    /// Pieces of each flood that the log has.
    accepted: Mutex<BTreeMap<&'static str, u64>>,
    is_over: AtomicBool,
}

/// Sends the pieces of a tenant in bulk requests; lines that were not stored are sent again.
async fn flood(node: &GlueNode, tenant: &'static str, watched: &Watched) -> u64 {
    let (mut editor, mut left) = (node.editor(), flood_pieces());
    let total = left;
    let line = |n: u64| {
        format!(
            "{}\n",
            json!({"id": format!("d{}", n % 50), "form": "merge-patch", "piece": {"n": n}})
        )
    };
    while left > 0 {
        let body: String = (0..left.min(LINES_EACH)).map(line).collect();
        let headers = [LINES[0], ("consort-tenant", tenant)];
        let reply = editor.send(Method::POST, "/glue/content", &headers, body).await;
        let status = reply.status.as_u16();
        assert!([202, 429].contains(&status), "{}", text(&reply));
        let accepted = json(&reply)["accepted"].as_u64().expect("a number");
        *watched.accepted.lock().entry(tenant).or_default() += accepted;
        left -= accepted;
    }
    total
}

/// Single pieces of a quiet tenant, each waited for until it is applied; how long each took, shortest first.
async fn quiet(node: &GlueNode, watched: &Watched) -> Vec<Duration> {
    let (mut editor, mut took) = (node.editor(), Vec::new());
    while !watched.is_over.load(Ordering::Relaxed) || took.len() < QUIET_LEAST {
        let headers = [("consort-tenant", "quiet"), crate::bed::MERGE[0]];
        let (body, began) = (json!({ "n": took.len() }).to_string(), Instant::now());
        let path = "/glue/content/q?wait=applied";
        loop {
            let reply = editor.send(Method::PATCH, path, &headers, body.clone()).await;
            // After a pause of the machine the quota is small for a moment. The time until the piece is applied counts.
            if reply.status != 429 {
                assert_eq!(reply.status, 200, "piece {}: {}", took.len(), text(&reply));
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took
}

/// The most pieces of one flood that were seen accepted and not yet applied.
async fn most_unapplied(node: &GlueNode, watched: &Watched) -> u64 {
    let (mut editor, mut most) = (node.editor(), 0);
    while !watched.is_over.load(Ordering::Relaxed) {
        // Read first: pieces that are accepted meanwhile are not taken for unapplied ones.
        let accepted = watched.accepted.lock().clone();
        let overview = editor.json("/glue").await;
        let tenants = &overview["collections"][0]["tenants"];
        for (tenant, accepted) in accepted {
            let received = tenants[tenant]["received"].as_u64().unwrap_or_default();
            most = most.max(accepted.saturating_sub(received));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    most
}

async fn is_fair(tenants: &[&'static str]) {
    let (node, watched) = (GlueNode::start_with(COLLECTION).await, Watched::default());
    let floods = async {
        let floods = tenants.iter().map(|tenant| flood(&node, tenant, &watched));
        let sent: u64 = futures::future::join_all(floods).await.into_iter().sum();
        watched.is_over.store(true, Ordering::Relaxed);
        sent
    };
    let (sent, took, unapplied) =
        tokio::join!(floods, quiet(&node, &watched), most_unapplied(&node, &watched));
    let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)];
    eprintln!(
        "{} floods of {} pieces: {} pieces of a quiet tenant took p50 {:?}, p99 {:?}; at most {unapplied} pieces of one \
         flood were seen unapplied",
        tenants.len(),
        flood_pieces(),
        took.len(),
        at(50),
        at(99),
    );
    // Pieces count until their mark is known to have passed them, so no flood has more than its quota in the log.
    assert!(unapplied <= QUOTA, "{unapplied} pieces of a flood wait in the log");
    eventually("all that was stored is applied", PATIENCE, || async {
        let overview = node.editor().json("/glue").await;
        let shown = &overview["collections"][0]["tenants"];
        let received = |tenant: &&str| shown[tenant]["received"].as_u64().unwrap_or_default();
        tenants.iter().map(received).sum::<u64>() == sent
    })
    .await;
    let metrics = text(&node.editor().get("/metrics").await);
    let refused = metrics.lines().filter(|line| {
        line.starts_with("consort_gate_refused_total{stream=\"glue.content\"")
            && !line.ends_with(" 0")
    });
    assert_eq!(refused.collect::<Vec<_>>(), [""; 0], "the gate stayed open");
    node.editor().counters("content").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flood_delays_a_quiet_tenant_by_its_quota_at_most() {
    is_fair(&["a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_floods_delay_a_quiet_tenant_by_three_quotas_at_most() {
    is_fair(&["a", "b", "c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn single_pieces_beyond_the_quota_hear_429_and_when_to_come_again() {
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
