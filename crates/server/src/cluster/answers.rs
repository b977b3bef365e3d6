//! The answers below `/cluster`: how it stands, that a node is to leave, that a stopped role goes on.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use consort_cluster::status::RoleStatus;
use consort_cluster::worker::{ResolveError, Resume};
use consort_cluster::{ClusterStatus, DrainError, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::resolver::Resolved;
use super::{Cluster, store_failed};
use crate::problem::Problem;
use crate::problems;

/// The longest body of an order. One has some dozens of bytes, and a thread that other requests share reads it.
const ORDER_MOST: usize = 1024;

pub(super) fn routes(cluster: Cluster) -> Router {
    Router::new()
        .route("/cluster", get(show))
        .route("/cluster/nodes/{id}/drain", post(drain))
        .route("/cluster/roles/{role}/resolve", post(resolve))
        // The slash in a partition's name may be written as it is, or in percent code as above.
        .route("/cluster/roles/{role}/{index}/resolve", post(resolve_partition))
        .with_state(cluster)
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: &'a ClusterStatus,
    /// Beside the roles, where autoscalers find it by one word; absent when no scaler has decided lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<u64>,
}

async fn show(State(cluster): State<Cluster>) -> Result<Response, Problem> {
    let status = cluster.recent().await?;
    let wanted = status.scaling.as_ref().map(|scaling| scaling.wanted);
    Ok(Json(Shown { status: &status, wanted }).into_response())
}

async fn drain(
    State(cluster): State<Cluster>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let Path(id) = id.map_err(bad_path)?;
    check_order(&headers, &body)?;
    let Retirement {} = serde_json::from_slice(&body).map_err(|error| {
        let detail = format!("the body must be the empty JSON object {{}}: {error}");
        Problem::new(problems::BAD_RETIREMENT, detail)
    })?;
    let handle = cluster.handle()?;
    let _turn = cluster.0.drains.acquire().await;
    match handle.request_drain(&id).await {
        Ok(()) => Ok((StatusCode::ACCEPTED, Json(json!({ "draining": id }))).into_response()),
        Err(DrainError::Store(fault)) => Err(store_failed(&fault)),
        Err(error @ DrainError::NoSuchNode { .. }) => {
            Err(Problem::new(problems::NO_SUCH_NODE, error.to_string()))
        }
        Err(error @ DrainError::Last { .. }) => {
            Err(Problem::new(problems::LAST_NODE, error.to_string()))
        }
    }
}

async fn resolve(
    State(cluster): State<Cluster>,
    role: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Resolved>, Problem> {
    let Path(role) = role.map_err(bad_path)?;
    check_order(&headers, &body)?;
    cluster.resolve(&role, &body).await.map(Json)
}

async fn resolve_partition(
    State(cluster): State<Cluster>,
    role: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Resolved>, Problem> {
    let Path((stream, index)) = role.map_err(bad_path)?;
    check_order(&headers, &body)?;
    cluster.resolve(&format!("{stream}/{index}"), &body).await.map(Json)
}

impl Cluster {
    async fn resolve(&self, role: &str, body: &[u8]) -> Result<Resolved, Problem> {
        self.handle()?;
        let from = resume(body)?;
        let _turn = self.0.decisions.acquire().await;
        let status = self.fresh().await?;
        let role = known_role(&status, role)?;
        let Some(resolving) = self.0.resolvers.resolve(&role.role, from) else {
            let detail = format!(
                "'{}' folds no partition of a stream: there is nothing to go on from",
                role.role
            );
            return Err(Problem::new(problems::NO_PARTITION, detail));
        };
        // A partition that is at work must not be told to skip: what it has not yet applied would be lost.
        if role.stopped.is_none() {
            return Err(at_work(role));
        }
        resolving.await.map_err(|error| match error {
            ResolveError::AtWork(_) => Problem::new(problems::AT_WORK, error.to_string()),
            ResolveError::Failed(reason) => {
                let detail = format!(
                    "'{}' was not resolved: {reason}; the same can be asked again",
                    role.role
                );
                Problem::new(problems::RESOLVE_FAILED, detail)
            }
        })
    }
}

fn known_role<'a>(status: &'a ClusterStatus, name: &str) -> Result<&'a RoleStatus, Problem> {
    let known = name.parse::<Role>().map_err(|error| error.to_string()).and_then(|role| {
        let known = status.roles.iter().find(|known| known.role == role);
        known.ok_or_else(|| match status.roles.len() {
            0 => format!("there is no role '{role}', and no other either"),
            roles => {
                format!("there is no role '{role}': GET /cluster shows the {roles} that there are")
            }
        })
    });
    known.map_err(|detail| Problem::new(problems::NO_SUCH_ROLE, detail))
}

fn at_work(role: &RoleStatus) -> Problem {
    let detail = match &role.owner {
        Some(owner) => format!(
            "'{}' is at work on node '{owner}': only a role that stopped for a loss can be resolved",
            role.role
        ),
        None => format!(
            "no node has '{}' at the moment, so it is not known whether it stopped; ask again when one has it",
            role.role
        ),
    };
    Problem::new(problems::AT_WORK, detail)
}

/// Refuses an order whose body does not say it is JSON, or is too long.
fn check_order(headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
    needs_json(headers)?;
    if body.len() > ORDER_MOST {
        let detail = format!("the body of an order has at most {ORDER_MOST} bytes");
        return Err(Problem::new(problems::BODY_TOO_LARGE, detail));
    }
    Ok(())
}

/// Refuses a body that does not say it is JSON. An HTML form cannot say so, so no form can send an operator's
/// orders, whatever a browser tells about the page it is on.
pub(crate) fn needs_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = given.and_then(|given| given.split(';').next()).unwrap_or_default();
    if media_type.trim().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "this needs a JSON body; send 'Content-Type: application/json'";
    Err(Problem::new(problems::CONTENT_TYPE, detail))
}

/// The body of a request to drain a node: `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retirement {}

/// The body of a decision: `{"from": "first"}`, `{"from": "end"}` or `{"from": 7}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    from: From,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum From {
    Offset(u64),
    Word(Word),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    First,
    End,
}

fn resume(body: &[u8]) -> Result<Resume, Problem> {
    let decision: Decision = serde_json::from_slice(body).map_err(|error| {
        let detail = format!(
            "the body must be {{\"from\": \"first\"}}, {{\"from\": \"end\"}} or {{\"from\": OFFSET}} with a whole number: {error}"
        );
        Problem::new(problems::BAD_DECISION, detail)
    })?;
    Ok(match decision.from {
        From::Offset(offset) => Resume::Offset(offset),
        From::Word(Word::First) => Resume::First,
        From::Word(Word::End) => Resume::End,
    })
}

fn bad_path(rejection: PathRejection) -> Problem {
    Problem::new(problems::BAD_PATH, rejection.body_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_says_where_to_go_on() {
        for (body, from) in [
            (r#"{"from": "first"}"#, Resume::First),
            (r#"{"from":"end"}"#, Resume::End),
            (r#"{"from": 18446744073709551615}"#, Resume::Offset(u64::MAX)),
        ] {
            assert_eq!(resume(body.as_bytes()), Ok(from), "{body}");
        }
        for bad in ["", "{}", r#"{"from": "middle"}"#, r#"{"from": -1}"#, r#"{"from": 1, "to": 2}"#]
        {
            let problem = resume(bad.as_bytes()).unwrap_err();
            assert_eq!(problem.status(), StatusCode::BAD_REQUEST, "{bad}");
            assert!(problem.detail().contains(r#"{"from": "first"}"#), "{problem:?}");
        }
    }
}
