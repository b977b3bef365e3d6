//! The answers about sinks: their names, what they refused, and the release of parked documents.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use consort_feeds::parked_subject::{parked_subjects, release_subject};
use consort_feeds::{FeedSpec, ParkedSubjectView, ReleaseError, Subject, parked};
use consort_kernel::Name;
use serde::Deserialize;
use serde_json::json;

use super::Feeds;
use super::answers::{RETRY_AFTER, failed, short, there_are};
use crate::cluster::needs_json;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::TenantName;

/// How many parked changes and parked documents are shown of each shard.
const PARKED_SHOWN: usize = 100;

/// The body of a release.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    collection: String,
    #[serde(default)]
    tenant: Option<String>,
    id: String,
}

/// `GET /sinks`
pub(super) async fn sinks(State(feeds): State<Feeds>) -> Json<serde_json::Value> {
    let names: Vec<&str> = feeds.0.sinks.iter().map(|sink| sink.as_str()).collect();
    Json(json!({ "sinks": names }))
}

/// `GET /sinks/{sink}/parked`
pub(super) async fn parked(
    State(feeds): State<Feeds>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let sink = feeds.sink(name)?;
    let lines = parked::newest(&*feeds.0.store, sink, PARKED_SHOWN).await;
    let lines = lines.map_err(|error| failed(&error))?;
    let mut answer = json!({"sink": sink.as_str(), "parked": lines});
    let mut documents: Vec<ParkedSubjectView> = Vec::new();
    let with_subjects = feeds.feeds_of(sink).collect::<Vec<_>>();
    for feed in &with_subjects {
        let parked = parked_subjects(&*feeds.0.store, sink, feed, PARKED_SHOWN).await;
        documents.extend(parked.map_err(unavailable)?);
    }
    if !with_subjects.is_empty() {
        answer["documents"] = json!(documents);
    }
    Ok(Json(answer).into_response())
}

/// `POST /sinks/{sink}/parked/release`
pub(super) async fn release(
    State(feeds): State<Feeds>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let sink = feeds.sink(name)?;
    needs_json(&headers)?;
    let Release { collection, tenant, id } = serde_json::from_slice(&body).map_err(|error| {
        let detail =
            format!("the body must be {{\"collection\": …, \"tenant\": …, \"id\": …}}: {error}");
        Problem::new(problems::INVALID_BODY, detail)
    })?;
    let is_of = |feed: &&FeedSpec| feed.path.rsplit_once('/').is_some_and(|(_, n)| n == collection);
    let Some(feed) = feeds.feeds_of(sink).find(is_of) else {
        let known = feeds.feeds_of(sink).map(|feed| format!("'{}'", feed.path)).collect();
        let detail = format!(
            "the sink '{sink}' takes no collection '{}'; {}",
            short(&collection),
            there_are(known)
        );
        return Err(Problem::new(problems::NO_SUCH_COLLECTION, detail));
    };
    let tenant = tenant.unwrap_or_else(|| TenantName::default().to_string());
    let subject = Subject { tenant, id };
    match release_subject(&*feeds.0.store, sink, feed, &subject).await {
        Ok(()) => Ok((StatusCode::ACCEPTED, Json(json!({ "state": "releasing" }))).into_response()),
        Err(error @ (ReleaseError::NotParked(_) | ReleaseError::NoSubjects)) => {
            let detail = format!("{error}; GET /sinks/{sink}/parked shows the parked documents");
            Err(Problem::new(problems::NOT_PARKED, detail))
        }
        Err(ReleaseError::Failed(reason)) => Err(unavailable(reason)),
    }
}

impl Feeds {
    /// The sink of this name.
    fn sink(&self, name: Result<Path<String>, PathRejection>) -> Result<&Name, Problem> {
        let name = name.map_or_else(|_| String::new(), |Path(name)| name);
        self.0.sinks.iter().find(|sink| sink.as_str() == name).ok_or_else(|| {
            let known = self.0.sinks.iter().map(|sink| format!("'{sink}'")).collect();
            let detail = format!("there is no sink '{}'; {}", short(&name), there_are(known));
            Problem::new(problems::NO_SUCH_SINK, detail)
        })
    }

    /// The feeds of documents that this sink takes.
    fn feeds_of(&self, sink: &Name) -> impl Iterator<Item = &FeedSpec> {
        let takes = move |feed: &&FeedSpec| {
            feed.payload.subjects().is_some() && feed.sinks.iter().any(|name| name == sink.as_str())
        };
        self.0.catalog.all().filter(takes)
    }
}

fn unavailable(reason: impl Into<String>) -> Problem {
    let problem = Problem::new(problems::STORE_FAILED, reason);
    problem.retry_after(RETRY_AFTER)
}
