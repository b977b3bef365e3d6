//! A feed as server-sent events: one for each change, its id the cursor behind it.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use consort_feeds::{FeedCursor, FeedPage};
use consort_kernel::Budget;
use futures::stream;

use super::Seat;
use super::answers::{failed, shown};
use crate::problem::Problem;

/// How long a stream may be silent: proxies end one after a minute, many after half of it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Changes that are read at once. Each event carries a cursor beside its change.
const PAGE: usize = 100;

/// How long a client whose stream ended waits before it comes again, in milliseconds.
pub(crate) const COME_AGAIN: u64 = 1_000;

/// Tells proxies not to hold events back.
const NO_BUFFER: HeaderName = HeaderName::from_static("x-accel-buffering");

struct Streamed {
    seat: Seat,
    cursor: FeedCursor,
    over: bool,
}

/// The changes behind `from`, for as long as the client stays.
pub(super) async fn stream(seat: Seat, from: FeedCursor) -> Result<Response, Problem> {
    // What cannot be read from the beginning is told by the answer's status.
    let first = seat.subscription.read(&from, PAGE, Duration::ZERO).await;
    let first = first.map_err(|error| failed(&error))?;
    // An event without data, which sets the id: a client that is cut off before the first change comes again
    // to this very place.
    let hello = format!("retry: {COME_AGAIN}\nid: {}\n\n{}", from.encode(), written(&first).await);
    let state = Streamed { seat, cursor: first.next, over: false };
    let rest = stream::unfold(state, async |state| {
        let (text, state) = state.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), state))
    });
    let whole = stream::StreamExt::chain(stream::iter([Ok(Bytes::from(hello))]), rest);
    Ok(as_events(Body::from_stream(whole)))
}

/// The answer whose body is a stream of events.
pub(crate) fn as_events(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFER, HeaderValue::from_static("no"));
    response
}

impl Streamed {
    async fn next(mut self) -> Option<(String, Streamed)> {
        if self.over {
            return None;
        }
        let subscription = self.seat.subscription.clone();
        let page = tokio::select! {
            biased;
            () = self.seat.until_closed() => return None,
            page = subscription.read(&self.cursor, PAGE, KEEP_ALIVE) => page,
        };
        let text = match page {
            Ok(page) if page.changes.is_empty() && page.next == self.cursor => {
                ": nothing new\n\n".to_owned()
            }
            Ok(page) => {
                let text = written(&page).await;
                self.cursor = page.next;
                text
            }
            // The client comes again, with the id of the last change; if its place is gone, it is told so then.
            Err(error) => {
                self.over = true;
                let reason = serde_json::json!({ "detail": failed(&error).detail() });
                format!("event: failed\ndata: {reason}\n\n")
            }
        };
        Some((text, self))
    }
}

/// The changes as events. A page may have megabytes, so others run meanwhile. A page without changes, whose cursor has
/// moved over those of others, is an event without data, which sets the id.
async fn written(page: &FeedPage) -> String {
    let (mut text, mut budget) = (String::new(), Budget::default());
    if page.changes.is_empty() {
        return format!("id: {}\n\n", page.next.encode());
    }
    for row in &page.changes {
        let id = row.cursor.as_ref().map(|cursor| format!("id: {}\n", cursor.encode()));
        let change = shown(row.change.as_ref());
        let event = format!("{}data: {change}\n\n", id.unwrap_or_default());
        text.push_str(&event);
        budget.spend(event.len()).await;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feeds::fixtures::large_page;
    use crate::yields::counting_yields;

    #[tokio::test]
    async fn a_large_page_is_written_in_steps() {
        let page = large_page().await;
        let (text, yields) = counting_yields(written(&page)).await;
        assert_eq!((text.matches("\ndata: {").count(), yields), (20, 20));
    }
}
