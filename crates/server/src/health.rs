//! `/healthz`: the process lives. `/readyz`: what it needs answers, or the reason why not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing};
use futures::future::{BoxFuture, join_all};
use serde_json::json;

use crate::problem::Problem;
use crate::problems;

/// How long a probe may take. Load balancers ask every few seconds and want an answer, not a wait.
pub const PROBE_WITHIN: Duration = Duration::from_secs(1);

type Check = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// One thing the node cannot work without, and how to ask whether it is there.
pub struct Probe {
    name: String,
    check: Check,
}

impl Probe {
    /// `check` answers `Err` with the reason, in words fit for an operator and without secrets.
    pub fn new<F, Answer>(name: impl Into<String>, check: F) -> Probe
    where
        F: Fn() -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<(), String>> + Send + 'static,
    {
        Probe { name: name.into(), check: Box::new(move || Box::pin(check())) }
    }

    async fn reason_not_ready(&self) -> Option<String> {
        let reason = match tokio::time::timeout(PROBE_WITHIN, (self.check)()).await {
            Ok(Ok(())) => return None,
            Ok(Err(reason)) => reason,
            Err(_) => format!("no answer within {PROBE_WITHIN:?}"),
        };
        Some(format!("{}: {reason}", self.name))
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(crate) fn routes(probes: Vec<Probe>) -> Router {
    Router::new()
        .route("/healthz", routing::get(alive))
        .route("/readyz", routing::get(ready))
        .with_state(Arc::new(probes))
}

async fn alive() -> Json<serde_json::Value> {
    Json(json!({"status": "ok"}))
}

async fn ready(State(probes): State<Arc<Vec<Probe>>>) -> Response {
    let reasons = join_all(probes.iter().map(Probe::reason_not_ready)).await;
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    if reasons.is_empty() {
        return Json(json!({"status": "ready"})).into_response();
    }
    Problem::new(problems::NOT_READY, reasons.join("; ")).into_response()
}
