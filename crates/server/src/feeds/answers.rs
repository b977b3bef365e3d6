//! The answers about feeds and sinks.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_feeds::{BadCursor, FeedCursor, FeedPage, FeedSpec, PageChange};
use consort_kernel::{Budget, Change, ReadError};
use serde_json::json;

use super::asked::{Asked, NOW};
use super::{Feeds, Seat, events};
use crate::problem::Problem;
use crate::problems;
use crate::tenants::Caller;

/// Where a page says how to go on.
pub(crate) const CURSOR: HeaderName = HeaderName::from_static("consort-cursor");

/// Where a subscriber that comes again says where it was.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// When a client that could not be answered should ask again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

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
    extensions: Extensions,
) -> Result<Response, Problem> {
    let caller = Caller::from_extensions(&extensions);
    let path = path.map_or_else(|_| String::new(), |Path(path)| path);
    // Feeds without tenants are the operator's: for a tenant they do not exist.
    let is_open = |feed: &FeedSpec| caller == Caller::Operator || feed.payload.subjects().is_some();
    let Some(feed) = feeds.0.catalog.find(&path).filter(|feed| is_open(feed)) else {
        return Err(no_such_feed(&feeds, &path, is_open));
    };
    let asked = Asked::read(query.as_deref())?;
    let selection = asked.selection(feed, &caller, &headers)?;
    let seat = feeds.subscribe(feed, selection)?;
    let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    // A browser that comes again asks with the query it began with, and tells how far it has come since.
    let after = last_id.filter(|id| !id.is_empty()).or(asked.after.as_deref());
    let subscription = &seat.subscription;
    let from = match after {
        None => subscription.oldest().await.map_err(|error| failed(&error))?,
        Some(NOW) => subscription.newest().await.map_err(|error| failed(&error))?,
        Some(text) => subscription.cursor(text).map_err(|error| bad_cursor(&error))?,
    };
    match wants_events(&headers) {
        true => events::stream(seat, from).await,
        false => page(seat, &from, &asked).await,
    }
}

/// Some changes, one a line.
async fn page(mut seat: Seat, from: &FeedCursor, asked: &Asked) -> Result<Response, Problem> {
    let subscription = seat.subscription.clone();
    let page = tokio::select! {
        biased;
        page = subscription.read(from, asked.limit, asked.wait) => page,
        () = seat.until_closed() => subscription.read(from, asked.limit, Duration::ZERO).await,
    };
    let FeedPage { changes, next } = page.map_err(|error| failed(&error))?;
    let mut response = lines(&changes).await.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(next) = HeaderValue::try_from(next.encode()) {
        headers.insert(CURSOR, next);
    }
    Ok(response)
}

/// The changes as lines. A page may have megabytes, so other tasks run meanwhile.
async fn lines(changes: &[PageChange]) -> String {
    let (mut text, mut budget) = (String::new(), Budget::default());
    for row in changes {
        let line = shown(row.change.as_ref());
        text.push_str(&line);
        text.push('\n');
        budget.spend(line.len()).await;
    }
    text
}

/// A change in one line, or a line that says that this release cannot read it.
pub(super) fn shown(change: Option<&Change>) -> Cow<'_, str> {
    let unreadable =
        Cow::Borrowed(r#"{"unreadable":"this node's release cannot read the change"}"#);
    change.map_or(unreadable, Change::payload_line)
}

/// Why a feed could not be read.
pub(crate) fn failed(error: &ReadError) -> Problem {
    match error {
        ReadError::Trimmed { .. } | ReadError::Lost { .. } => {
            let detail = format!(
                "the feed cannot be taken up at this cursor: {error}. Begin again without 'after', with the \
                 oldest change that is kept, or with after={NOW}; a query of the present state tells what was missed, \
                 and a listing of documents gives the cursor that it begins at"
            );
            Problem::new(problems::CURSOR_GONE, detail)
        }
        _ => {
            let detail = format!("the feed could not be read: {error}; ask again");
            Problem::new(problems::STORE_FAILED, detail).retry_after(RETRY_AFTER)
        }
    }
}

fn bad_cursor(error: &BadCursor) -> Problem {
    Problem::new(problems::INVALID_CURSOR, error.to_string())
}

fn no_such_feed(feeds: &Feeds, path: &str, is_open: impl Fn(&FeedSpec) -> bool) -> Problem {
    let known = feeds.0.catalog.all().filter(|feed| is_open(feed));
    let known = known.map(|feed| served_at(&feed.path)).collect();
    let asked = served_at(&short(path));
    let detail = format!("there is no feed '{asked}'; {}", there_are(known));
    Problem::new(problems::NO_SUCH_FEED, detail)
}

/// Where a feed is served.
fn served_at(path: &str) -> String {
    format!("/feeds/{path}")
}

pub(super) fn there_are(known: Vec<String>) -> String {
    match known.is_empty() {
        true => "this node's config declares none".into(),
        false => format!("there are {}", known.join(", ")),
    }
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Whether the client asks for a stream of events.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let mut types = accept.unwrap_or_default().split(',');
    types.any(|one| one.trim().to_ascii_lowercase().starts_with("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feeds::fixtures::large_page;
    use crate::yields::counting_yields;

    #[tokio::test]
    async fn a_large_page_is_written_in_steps() {
        let page = large_page().await;
        let (text, yields) = counting_yields(lines(&page.changes)).await;
        assert_eq!((text.lines().count(), yields), (20, 20));
    }
}
