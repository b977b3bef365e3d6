//! The answers about feeds and sinks.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_feeds::{Page, Place, parked};
use consort_kernel::{Budget, Change, ReadError};
use serde_json::json;

use super::{Feeds, Seat, events};
use crate::problem::Problem;
use crate::problems;

/// Where a page says how to go on.
const CURSOR: HeaderName = HeaderName::from_static("consort-cursor");

/// Where a subscriber that comes again says where it was.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Changes in a page, unless it is said how many, and at most.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 1_000;

/// The longest wait for a change, in seconds: below the time after which most proxies give up.
const WAIT_MOST: u64 = 30;

/// How many parked changes are shown of each shard.
const PARKED_SHOWN: usize = 100;

/// Stands for the place behind the newest change.
const NOW: &str = "now";

/// When a client that could not be answered should ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a feed is to be read.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    after: Option<String>,
    limit: usize,
    wait: Duration,
}

/// `GET /feeds`
pub(super) async fn list(State(feeds): State<Feeds>) -> Json<serde_json::Value> {
    let shown = feeds.0.catalog.all().map(|feed| {
        let (part, name) = feed.path.split_once('/').unwrap_or(("", &feed.path));
        json!({"part": part, "name": name, "path": served_at(&feed.path)})
    });
    Json(json!({ "feeds": shown.collect::<Vec<_>>() }))
}

/// `GET /feeds/{path}`
pub(super) async fn feed(
    State(feeds): State<Feeds>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = path.map_or_else(|_| String::new(), |Path(path)| path);
    let Some(feed) = feeds.0.catalog.find(&path) else {
        return Err(no_such_feed(&feeds, &path));
    };
    let asked = Asked::read(query.as_deref())?;
    let seat = feeds.subscribe(feed)?;
    let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    // A browser that comes again asks with the query it began with, and tells how far it has come since.
    let after = last_id.filter(|id| !id.is_empty()).or(asked.after.as_deref());
    let place = match after {
        None => seat.subscription.oldest().await.map_err(|error| failed(&error))?,
        Some(NOW) => seat.subscription.newest().await.map_err(|error| failed(&error))?,
        Some(text) => seat
            .subscription
            .place(text)
            .map_err(|error| Problem::new(problems::INVALID_CURSOR, error.to_string()))?,
    };
    match wants_events(&headers) {
        true => events::stream(seat, place).await,
        false => page(seat, &place, &asked).await,
    }
}

/// Some changes, one a line.
async fn page(mut seat: Seat, place: &Place, asked: &Asked) -> Result<Response, Problem> {
    let subscription = seat.subscription.clone();
    let page = tokio::select! {
        biased;
        page = subscription.read(place, asked.limit, asked.wait) => page,
        () = seat.until_closed() => subscription.read(place, asked.limit, Duration::ZERO).await,
    };
    let Page { changes, next } = page.map_err(|error| failed(&error))?;
    let (mut body, mut budget) = (String::new(), Budget::default());
    for (change, _) in &changes {
        let line = shown(change.as_ref());
        body.push_str(&line);
        body.push('\n');
        budget.spend(line.len()).await;
    }
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(next) = HeaderValue::try_from(next.encode()) {
        headers.insert(CURSOR, next);
    }
    Ok(response)
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
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let Some(sink) = feeds.0.sinks.iter().find(|sink| sink.as_str() == name) else {
        let known = feeds.0.sinks.iter().map(|sink| format!("'{sink}'")).collect();
        let detail = format!("there is no sink '{}'; {}", short(&name), there_are(known));
        return Err(Problem::new(problems::NO_SUCH_SINK, detail));
    };
    let lines = parked::newest(&*feeds.0.store, sink, PARKED_SHOWN).await;
    let lines = lines.map_err(|error| failed(&error))?;
    Ok(Json(json!({"sink": sink.as_str(), "parked": lines})).into_response())
}

impl Asked {
    fn read(query: Option<&str>) -> Result<Asked, Problem> {
        let bad = |detail: String| Problem::new(problems::INVALID_QUERY, detail);
        let mut asked = Asked { after: None, limit: LIMIT, wait: Duration::ZERO };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let number = value.parse::<u64>().ok();
            match (&*name, number) {
                ("after", _) => asked.after = Some(value.into_owned()).filter(|v| !v.is_empty()),
                ("limit", Some(limit @ 1..)) => {
                    asked.limit = usize::try_from(limit).unwrap_or(LIMIT_MOST).min(LIMIT_MOST);
                }
                ("wait", Some(wait)) => asked.wait = Duration::from_secs(wait.min(WAIT_MOST)),
                ("limit", _) => {
                    return Err(bad("'limit' must be a number of changes, from 1".into()));
                }
                ("wait", _) => return Err(bad("'wait' must be a number of seconds".into())),
                _ => {
                    let known = "a feed takes 'after', 'limit' and 'wait'";
                    return Err(bad(format!("unknown parameter '{}'; {known}", short(&name))));
                }
            }
        }
        Ok(asked)
    }
}

/// A change in one line, or a line that says that this release cannot read it.
pub(super) fn shown(change: Option<&Change>) -> Cow<'_, str> {
    let unreadable =
        Cow::Borrowed(r#"{"unreadable":"this node's release cannot read the change"}"#);
    change.map_or(unreadable, Change::payload_line)
}

/// Why a feed could not be read.
pub(super) fn failed(error: &ReadError) -> Problem {
    match error {
        ReadError::Trimmed { .. } | ReadError::Lost { .. } => {
            let detail = format!(
                "the feed cannot be taken up at this cursor: {error}. Begin again without 'after', with the \
                 oldest change that is kept, or with after={NOW}; a query of the present state tells what was missed"
            );
            Problem::new(problems::CURSOR_GONE, detail)
        }
        _ => {
            let detail = format!("the feed could not be read: {error}; ask again");
            Problem::new(problems::STORE_FAILED, detail).retry_after(RETRY_AFTER)
        }
    }
}

fn no_such_feed(feeds: &Feeds, path: &str) -> Problem {
    let known = feeds.0.catalog.all().map(|feed| served_at(&feed.path)).collect();
    let asked = served_at(&short(path));
    let detail = format!("there is no feed '{asked}'; {}", there_are(known));
    Problem::new(problems::NO_SUCH_FEED, detail)
}

/// Where a feed is served.
fn served_at(path: &str) -> String {
    format!("/feeds/{path}")
}

fn there_are(known: Vec<String>) -> String {
    match known.is_empty() {
        true => "this node's config declares none".into(),
        false => format!("there are {}", known.join(", ")),
    }
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Whether the client asks for a stream of events.
fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let mut types = accept.unwrap_or_default().split(',');
    types.any(|one| one.trim().to_ascii_lowercase().starts_with("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_within_bounds() {
        let asked = |query| Asked::read(Some(query)).map_err(|problem| problem.detail().to_owned());
        let default = Asked { after: None, limit: LIMIT, wait: Duration::ZERO };
        assert_eq!(asked(""), Ok(default));
        let wait = Duration::from_secs(2);
        let given = Asked { after: Some("now".into()), limit: 7, wait };
        assert_eq!(asked("after=now&limit=7&wait=2"), Ok(given));
        let most = Asked { after: None, limit: LIMIT_MOST, wait: Duration::from_secs(WAIT_MOST) };
        assert_eq!(asked("after=&limit=99999999999&wait=9999"), Ok(most));
        for (query, words) in [
            ("limit=0", "'limit' must be"),
            ("limit=x", "'limit' must be"),
            ("wait=-1", "'wait' must be"),
            ("from=1", "unknown parameter 'from'"),
        ] {
            assert!(asked(query).unwrap_err().contains(words), "{query}");
        }
    }
}
