//! The answers of the views.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, RawPathParamsRejection};
use axum::extract::{Path, RawPathParams, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_cluster::Lag;
use consort_kernel::{Budget, QueryError, ReadError};
use consort_views::{Page, Parts, Position, Query, QueryRefusal, View};
use serde_json::json;

use super::{AFTER_WITHIN, Views, path_fields};
use crate::problem::Problem;
use crate::problems::{self, ProblemKind};
use crate::streams::no_such_stream;

/// What a query waits for.
const AFTER: HeaderName = HeaderName::from_static("consort-after");

/// How far behind an answer may be, in seconds.
const LAG: HeaderName = HeaderName::from_static("consort-lag");

/// Where a CSV answer says how to go on.
const NEXT: HeaderName = HeaderName::from_static("consort-next");

/// How many lines of a reject list are shown of each shard.
const REJECTS_SHOWN: usize = 100;

/// When a client that could not be answered should ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One route of a view.
#[derive(Clone)]
pub(super) struct Routed {
    pub(super) views: Views,
    pub(super) view: Arc<View>,
    /// Which of its routes.
    pub(super) at: usize,
}

/// `GET /views`
pub(super) async fn list(State(views): State<Views>) -> Json<serde_json::Value> {
    let shown = |view: &Arc<View>| {
        let by: Vec<&str> = view.by.iter().map(|field| field.name.as_str()).collect();
        let of: Vec<&str> = view.aggregate.expressions().iter().map(|e| e.text()).collect();
        let routes: Vec<String> = view.routes.iter().map(ToString::to_string).collect();
        json!({
            "view": view.name.as_str(),
            "from": view.from.name.as_str(),
            "by": by,
            "aggregate": view.aggregate.name(),
            "of": of,
            "where": view.condition.as_ref().map(|condition| condition.text()),
            "window": view.windows.as_ref().map(|windows| json!({
                "seconds": windows.length.as_secs_f64(),
                "grace": windows.grace.as_secs_f64(),
                "keep": windows.keep.as_secs_f64(),
                "late": windows.late.name(),
            })),
            "sinks": view.sinks,
            "routes": routes,
        })
    };
    let all: Vec<serde_json::Value> = views.0.views.values().map(shown).collect();
    Json(json!({ "views": all }))
}

/// `GET /views/{view}`
pub(super) async fn by_name(
    State(views): State<Views>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let view = views.view(name)?;
    let parameters = parameters(query.as_deref());
    let given = parameters.iter().map(|(name, value)| (&name[..], &value[..]));
    let query = Query::new(&view, given).map_err(|refusal| refused(&refusal))?;
    views.answer(&query, &headers, Page::json).await
}

/// A view's own route.
pub(super) async fn by_route(
    State(Routed { views, view, at }): State<Routed>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = path_fields(path)?;
    let parameters = parameters(query.as_deref());
    let fields =
        view.routes[at].fields.iter().zip(&path).map(|(field, (_, value))| (&field[..], value));
    let given = parameters.iter().map(|(name, value)| (&name[..], &value[..]));
    let query = Query::new(&view, fields.chain(given)).map_err(|refusal| refused(&refusal))?;
    views.answer(&query, &headers, shaped).await
}

/// `GET /views/{view}/rejects`
pub(super) async fn rejects(
    State(views): State<Views>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let view = views.view(name)?;
    views.wait_for(&headers).await?;
    let lines = consort_views::rejects::newest(&*views.0.store, &view, REJECTS_SHOWN).await;
    let lines = lines.map_err(|error| list_failed(&error))?;
    Ok(Json(json!({"view": view.name.as_str(), "rejects": lines})).into_response())
}

/// `GET /views/{view}/late`
pub(super) async fn late(
    State(views): State<Views>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let view = views.view(name)?;
    if view.windows.is_none() {
        let detail = format!("the view '{}' has no windows, so nothing is late for it", view.name);
        return Err(Problem::new(problems::NO_WINDOWS, detail));
    }
    views.wait_for(&headers).await?;
    let lines = consort_views::rejects::newest_late(&*views.0.store, &view, REJECTS_SHOWN).await;
    let lines = lines.map_err(|error| list_failed(&error))?;
    Ok(Json(json!({"view": view.name.as_str(), "late": lines})).into_response())
}

/// `GET /streams/{stream}/rejects`: messages from a queue that were no events.
pub(super) async fn refused_messages(
    State(views): State<Views>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let Some(stream) = views.0.definitions.stream(&name) else {
        let known = views.0.definitions.streams.iter().map(|stream| stream.name.as_str());
        return Err(no_such_stream(known, &name));
    };
    let list = consort_views::refused::newest(&*views.0.store, &stream.name, REJECTS_SHOWN).await;
    let list = list.map_err(|error| list_failed(&error))?;
    Ok(Json(json!({"stream": name, "rejects": list})).into_response())
}

impl Views {
    fn view(&self, name: Result<Path<String>, PathRejection>) -> Result<Arc<View>, Problem> {
        let name = name.map_or_else(|_| String::new(), |Path(name)| name);
        self.0.views.get(&name).cloned().ok_or_else(|| {
            let known: Vec<String> = self.0.views.keys().map(|name| format!("'{name}'")).collect();
            let shown: String = name.chars().take(100).collect();
            let detail = match known.is_empty() {
                true => format!("there is no view '{shown}': this node's config declares none"),
                false => format!("there is no view '{shown}'; there are {}", known.join(", ")),
            };
            Problem::new(problems::NO_SUCH_VIEW, detail)
        })
    }

    async fn answer(
        &self,
        query: &Query,
        headers: &HeaderMap,
        write: for<'a> fn(&'a Page, &'a View) -> Parts<'a>,
    ) -> Result<Response, Problem> {
        self.wait_for(headers).await?;
        // Heard before the answer is read, so that the answer is no older than it says.
        let lag = self.0.ingresses.lag(&query.view().from.name);
        let page = query.answer(&*self.0.store).await.map_err(|error| store_failed(&error))?;
        let csv = wants_csv(headers);
        let (parts, media_type) = match csv {
            true => (page.csv(query.view()), "text/csv; charset=utf-8; header=present"),
            false => (write(&page, query.view()), "application/json"),
        };
        let mut response = written(parts).await.into_response();
        let answer = response.headers_mut();
        answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(lag) = HeaderValue::try_from(lag_text(lag)) {
            answer.insert(LAG, lag);
        }
        if csv && let Some(Ok(next)) = page.next.map(HeaderValue::try_from) {
            answer.insert(NEXT, next);
        }
        Ok(response)
    }

    /// Waits until what the client wrote before is applied, if it asks for that.
    async fn wait_for(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(given) = headers.get(AFTER) else { return Ok(()) };
        let bad = |detail: String| Problem::new(problems::POSITION, detail);
        let given = given.to_str().map_err(|_| bad("'Consort-After' is not ASCII text".into()))?;
        let position: Position =
            given.parse().map_err(|error| bad(format!("'Consort-After': {error}")))?;
        for place in position.places() {
            let name = place.partition.stream.as_str();
            let stream = self.0.definitions.stream(name);
            if stream.is_none_or(|stream| place.partition.index >= stream.partitions) {
                return Err(bad(format!(
                    "'Consort-After': there is no partition '{}'",
                    place.partition
                )));
            }
        }
        let reached = position.reached(&*self.0.store, &*self.0.runtime, AFTER_WITHIN).await;
        match reached {
            Ok(true) => Ok(()),
            Ok(false) => {
                let detail = format!(
                    "the views have not come as far as the position within {AFTER_WITHIN:?}; ask again"
                );
                Err(not_now(problems::NOT_REACHED, detail))
            }
            Err(error) => {
                let detail = format!("the position could not be looked for: {error}; ask again");
                Err(not_now(problems::STORE_FAILED, detail))
            }
        }
    }
}

/// An answer in the shape that the view's routes have.
fn shaped<'a>(page: &'a Page, view: &'a View) -> Parts<'a> {
    match &view.answer {
        Some(answer) => page.shaped(view, answer),
        None => page.json(view),
    }
}

/// Writes an answer, and lets others run meanwhile: a thousand sets have a hundred thousand members.
async fn written(parts: Parts<'_>) -> String {
    let (mut text, mut budget) = (String::new(), Budget::default());
    for part in parts {
        text.push_str(&part);
        budget.spend(part.len()).await;
    }
    text
}

/// Seconds, and of how many partitions nothing is known.
fn lag_text(lag: Option<Lag>) -> String {
    match lag {
        None => "unknown".into(),
        Some(Lag { behind, unknown: 0, .. }) => format!("{:.3}", behind.as_secs_f64()),
        Some(Lag { behind, unknown, .. }) => {
            format!("{:.3}; unknown-partitions={unknown}", behind.as_secs_f64())
        }
    }
}

fn parameters(query: Option<&str>) -> Vec<(String, String)> {
    let parsed = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    parsed.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Whether `Accept` prefers CSV to JSON: by their weights, then by which is named first.
fn wants_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let (mut csv, mut json) = (0.0, 0.0);
    let mut csv_first = false;
    for one in accept.unwrap_or_default().split(',') {
        let mut parts = one.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        let weight = weight.unwrap_or(1.0);
        match media_type.as_str() {
            "text/csv" => {
                csv = weight;
                csv_first = json == 0.0;
            }
            "application/json" | "*/*" if weight > json => json = weight,
            _ => {}
        }
    }
    csv > json || (csv > 0.0 && csv == json && csv_first)
}

fn refused(refusal: &QueryRefusal) -> Problem {
    Problem::new(problems::INVALID_QUERY, refusal.to_string())
}

fn list_failed(error: &ReadError) -> Problem {
    not_now(problems::STORE_FAILED, format!("the list could not be read: {error}; ask again"))
}

fn store_failed(error: &QueryError) -> Problem {
    not_now(problems::STORE_FAILED, format!("the view could not be read: {error}; ask again"))
}

/// What may be answered a moment later.
fn not_now(kind: &'static ProblemKind, detail: String) -> Problem {
    Problem::new(kind, detail).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yields::counting_yields;

    #[tokio::test]
    async fn a_large_answer_is_written_in_steps() {
        let part = "x".repeat(64 << 10);
        let parts: Parts<'_> = Box::new((0..20).map(|_| part.clone()));
        let (text, yields) = counting_yields(written(parts)).await;
        assert_eq!((text.len(), yields), (20 * part.len(), 20));
    }
}
