//! What operators ask of workers: a crash drill, a check of all files, `ANALYZE`, and the end of a stop. Each needs a
//! JSON body with its content type, so that no form of a web page can send it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use consort_db::db::Database;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answers::at_position;
use super::failures::{no_worker, not_stored, refused};
use super::hop::{HopOutcome, HopRequest};
use super::incoming::{DatabasePath, Incoming};
use super::{DbHttp, failures};
use crate::peers::RoleOwner;
use crate::problem::Problem;
use crate::problems;
use consort_db::admin::{DbAdminError, DbResolution};
use consort_db::snapshot::verify::WorkerCheck;

/// How long an order may take: a scan reads every row of a file.
const ORDER_WITHIN: Duration = Duration::from_secs(300);

/// The largest answer of another node to an order: some hundred bytes for each of at most 65 workers.
const ANSWER_MOST: usize = 1024 * 1024;

const EMPTY: &str = "the empty JSON object {}";
const RESOLUTION: &str = "{\"accept\": true} or {\"from_worker\": ID}";

/// The body of an order without choices.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoChoice {}

/// The body of a decision on a stopped database.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolution {
    #[serde(default)]
    accept: bool,
    #[serde(default)]
    from_worker: Option<u64>,
}

/// What the nodes that have workers answered.
#[derive(Deserialize)]
struct WorkerAnswers {
    workers: Vec<Value>,
}

/// `POST /db/{name}/workers/{id}/crash`
pub(super) async fn crash(
    State(http): State<DbHttp>,
    path: Result<Path<(String, u64)>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Path((name, id)) = path.map_err(|rejection| {
        not_stored(Problem::new(problems::DB_NOT_FOUND, rejection.body_text()))
    })?;
    let (Incoming { database, hop }, NoChoice {}) =
        http.order(Ok(Path(name)), request, EMPTY).await?;
    if let Some(worker) = database.local_workers().into_iter().find(|worker| worker.id() == id) {
        tracing::warn!(database = database.name(), worker = id, "an operator ends this worker");
        worker.crash();
        return Ok(Json(json!({ "id": id })).into_response());
    }
    http.at_worker(&database, &hop, id).await
}

/// `POST /db/{name}/resolve`
pub(super) async fn resolve(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Response, Problem> {
    let (Incoming { database, hop }, order) = http.order(path, request, RESOLUTION).await?;
    let decision = match order {
        Resolution { accept: true, from_worker: None } => DbResolution::Store,
        Resolution { accept: false, from_worker: Some(id) } => DbResolution::Worker(id),
        _ => return Err(refused(format!("the body must be {RESOLUTION}"))),
    };
    if let DbResolution::Worker(id) = decision
        && !database.local_workers().iter().any(|worker| worker.id() == id)
    {
        return http.at_worker(&database, &hop, id).await;
    }
    let _turn = http.turn().await;
    let position = database.resolve(decision).await.map_err(|error| admin_failed(&error.into()))?;
    Ok(at_position(position))
}

/// `POST /db/{name}/verify`
pub(super) async fn verify(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let (Incoming { database, hop }, NoChoice {}) = http.order(path, request, EMPTY).await?;
    let node = http.own_node().unwrap_or_default();
    let here = async {
        let _turn = http.turn().await;
        let checks = database.verify_local().await;
        checks.iter().map(|check| check_json(check, &node)).collect()
    };
    let workers = http.everywhere(&database, &hop, here).await;
    let is_good = |worker: &Value| worker["ok"] == json!(true);
    let all = workers.iter().all(is_good) && !workers.is_empty();
    Ok(Json(json!({ "workers": workers, "ok": all })))
}

/// `POST /db/{name}/analyze`
pub(super) async fn analyze(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let (Incoming { database, hop }, NoChoice {}) = http.order(path, request, EMPTY).await?;
    let node = http.own_node().unwrap_or_default();
    let here = async {
        let _turn = http.turn().await;
        let done = database.analyze_local().await;
        let shown = done.into_iter().map(|(id, done)| match done {
            Ok(()) => json!({ "id": id, "node": node, "ok": true }),
            Err(trouble) => json!({ "id": id, "node": node, "ok": false, "trouble": trouble }),
        });
        shown.collect()
    };
    let workers = http.everywhere(&database, &hop, here).await;
    let all = workers.iter().all(|worker| worker["ok"] == json!(true)) && !workers.is_empty();
    Ok(Json(json!({ "workers": workers, "ok": all })))
}

impl DbHttp {
    /// Sends an order to the node of a worker.
    async fn at_worker(
        &self,
        database: &Database,
        hop: &HopRequest,
        id: u64,
    ) -> Result<Response, Problem> {
        let view = database.view().now();
        let node = view.workers.iter().find(|worker| worker.id == id).map(|worker| &worker.node);
        let owner = node.and_then(|node| {
            let address = view.nodes.get(node)?.address.clone();
            Some(RoleOwner { node: node.clone(), address, is_here: false })
        });
        let own = self.own_node();
        let Some(owner) = owner.filter(|to| !hop.is_forwarded() && own.as_ref() != Some(&to.node))
        else {
            let detail = format!("'{}' has no live worker {id}", database.name());
            return Err(not_stored(Problem::new(problems::DB_NOT_FOUND, detail)));
        };
        match hop.send(self.peers(), &owner, Instant::now(), ORDER_WITHIN).await {
            HopOutcome::Answered(answer) => Ok(answer),
            HopOutcome::NotTaken(detail) => Err(no_worker(detail)),
            HopOutcome::Unknown(detail) => Err(failures::unknown(detail)),
        }
    }

    /// Carries out an order at every node that has workers, this one included. Returns a line for each worker.
    async fn everywhere(
        &self,
        database: &Database,
        hop: &HopRequest,
        here: impl Future<Output = Vec<Value>>,
    ) -> Vec<Value> {
        if hop.is_forwarded() {
            return here.await;
        }
        let view = database.view().now();
        let own = self.own_node();
        let mut by_node: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for worker in view.workers.iter().filter(|worker| own.as_ref() != Some(&worker.node)) {
            by_node.entry(&worker.node).or_default().push(worker.id);
        }
        let there = by_node.into_iter().map(async |(node, ids)| {
            let address = view.nodes.get(node).map(|node| node.address.clone()).unwrap_or_default();
            let to = RoleOwner { node: node.to_owned(), address, is_here: false };
            self.asked_of(&to, hop).await.unwrap_or_else(|trouble| {
                let line =
                    |id: &u64| json!({ "id": id, "node": node, "ok": false, "trouble": trouble });
                ids.iter().map(line).collect()
            })
        });
        let (mut workers, others) = tokio::join!(here, join_all(there));
        workers.extend(others.into_iter().flatten());
        workers.sort_by_key(|worker| worker["id"].as_u64());
        workers
    }

    /// The lines of another node.
    async fn asked_of(&self, to: &RoleOwner, hop: &HopRequest) -> Result<Vec<Value>, String> {
        match hop.send(self.peers(), to, Instant::now(), ORDER_WITHIN).await {
            HopOutcome::Answered(answer) if answer.status().is_success() => {
                let body = to_bytes(answer.into_body(), ANSWER_MOST).await;
                let body = body.map_err(|error| error.to_string())?;
                let answers = serde_json::from_slice::<WorkerAnswers>(&body);
                answers.map(|told| told.workers).map_err(|error| error.to_string())
            }
            HopOutcome::Answered(answer) => Err(format!("node '{}': {}", to.node, answer.status())),
            HopOutcome::NotTaken(detail) | HopOutcome::Unknown(detail) => Err(detail),
        }
    }
}

fn check_json(check: &WorkerCheck, node: &str) -> Value {
    let WorkerCheck { worker, found } = check;
    let mut line = json!({ "id": worker, "node": node });
    match found {
        Ok(file) => {
            line["position"] = file.position.to_string().into();
            line["content"] = file.found.to_string().into();
            line["ok"] = file.is_equal().into();
            if !file.is_equal() {
                let trouble = format!(
                    "the file differs from the feed, which says {}; the worker loads it anew",
                    file.expected
                );
                line["trouble"] = trouble.into();
            }
        }
        Err(error) => {
            line["ok"] = false.into();
            line["trouble"] = error.to_string().into();
        }
    }
    line
}

/// An operator's call that failed.
pub(super) fn admin_failed(error: &DbAdminError) -> Problem {
    let detail = error.to_string();
    match error {
        DbAdminError::NoWorker => no_worker(detail),
        DbAdminError::Refused(_) => refused(detail),
        DbAdminError::Unknown(_) => failures::unknown(detail),
        DbAdminError::Failed(_) => {
            let problem = not_stored(Problem::new(problems::STORE_FAILED, detail));
            problem.retry_after(failures::RETRY_AFTER)
        }
    }
}

#[cfg(test)]
mod tests {
    use consort_db::DbPosition;
    use consort_db::hash::ContentHash;
    use consort_db::snapshot::make::MakeError;
    use consort_db::snapshot::verify::FileCheck;

    use super::*;

    #[test]
    fn a_check_says_whether_the_file_is_as_the_feed_says() {
        let position = DbPosition { era: 1, index: 17 };
        let check = |found| check_json(&WorkerCheck { worker: 3, found }, "a");
        let scanned = |found| FileCheck { position, expected: ContentHash(9), found };
        let good = check(Ok(scanned(ContentHash(9))));
        assert_eq!((&good["ok"], &good["position"]), (&json!(true), &json!("1-17")));
        let bad = check(Ok(scanned(ContentHash(8))));
        assert_eq!(bad["ok"], json!(false));
        assert!(bad["trouble"].as_str().unwrap().contains("differs"), "{bad}");
        let none = check(Err(MakeError::Empty));
        assert_eq!(none["ok"], json!(false));
        assert!(none["trouble"].as_str().unwrap().contains("no index"), "{none}");
    }
}
