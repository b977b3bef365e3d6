//! `GET /feeds/db/{name}`: row changes as pages of NDJSON, or as server-sent events.
//!
//! The feeds of other parts carry one change an entry, in all shards, and are trimmed by age and size. This one carries
//! groups of rows in one shard, its name changes with the era, and the snapshots decide what is kept. So it has a
//! handler of its own, which takes the same parameters.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_kernel::Budget;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::DbHttp;
use super::changes::{ChangePage, ChangeReader};
use super::feed_cursor::ChangeCursor;
use super::incoming::DatabasePath;
use crate::feeds::answers::{CURSOR, LAST_EVENT_ID, wants_events};
use crate::feeds::asked::{Asked, NOW};
use crate::feeds::events::{COME_AGAIN, KEEP_ALIVE, as_events};
use crate::problem::Problem;
use crate::problems;

/// Subscribers of all databases that a node has at once. Each one that waits reads the head every few seconds.
pub(super) const SUBSCRIBERS: usize = 100;

/// Changes of a page of events.
const PAGE: usize = 100;

/// When one for whom there is no room should come again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A subscriber's place among those there is room for.
struct Subscriber {
    reader: ChangeReader,
    closes: watch::Receiver<bool>,
    _seat: OwnedSemaphorePermit,
}

/// `GET /feeds/db/{name}`
pub(super) async fn feed(
    State(http): State<DbHttp>,
    path: DatabasePath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let database = http.database(path)?;
    let asked = Asked::read(query.as_deref())?.without_subjects()?;
    let Some(seat) = http.seat() else {
        let detail = format!(
            "this node has {SUBSCRIBERS} subscribers of databases, and no room for more; ask another node"
        );
        let full = Problem::new(problems::TOO_MANY_SUBSCRIBERS, detail);
        return Err(full.retry_after(RETRY_AFTER));
    };
    let reader = ChangeReader::new(database.store().clone(), http.intake().clone());
    let last_id = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    // A browser that comes again asks with the query it began with, and tells how far it has come since.
    let after = last_id.filter(|id| !id.is_empty()).or(asked.after.as_deref());
    let from = match after {
        None => reader.oldest().await?,
        Some(NOW) => reader.newest().await?,
        Some(text) => text
            .parse::<ChangeCursor>()
            .map_err(|error| Problem::new(problems::INVALID_CURSOR, error.to_string()))?,
    };
    let subscriber = Subscriber { reader, closes: http.closes(), _seat: seat };
    match wants_events(&headers) {
        true => subscriber.events(from).await,
        false => subscriber.page(from, &asked).await,
    }
}

impl Subscriber {
    /// Some changes, one a line.
    async fn page(mut self, from: ChangeCursor, asked: &Asked) -> Result<Response, Problem> {
        let reader = self.reader.clone();
        let page = tokio::select! {
            biased;
            page = reader.read(from, asked.limit, asked.wait) => page?,
            () = self.until_closed() => reader.read(from, asked.limit, Duration::ZERO).await?,
        };
        let (mut body, mut budget) = (String::new(), Budget::default());
        for line in page.groups.iter().flat_map(|group| &group.lines) {
            body.push_str(line);
            body.push('\n');
            budget.spend(line.len()).await;
        }
        let mut response = body.into_response();
        let headers = response.headers_mut();
        let ndjson = HeaderValue::from_static("application/x-ndjson");
        headers.insert(header::CONTENT_TYPE, ndjson);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(next) = HeaderValue::try_from(page.next.to_string()) {
            headers.insert(CURSOR, next);
        }
        Ok(response)
    }

    /// All changes behind `from`, for as long as the client stays.
    async fn events(self, from: ChangeCursor) -> Result<Response, Problem> {
        // What cannot be read from the beginning is told by the answer's status.
        let first = self.reader.read(from, PAGE, Duration::ZERO).await?;
        // An event without data, which sets the id: a client that is cut off before the first change comes again to
        // this very place.
        let hello = format!("retry: {COME_AGAIN}\nid: {from}\n\n{}", written(&first).await);
        let state = Some((self, first.next));
        let rest = stream::unfold(state, async |state| {
            let (subscriber, cursor) = state?;
            let (text, state) = subscriber.next(cursor).await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), state))
        });
        let whole = stream::StreamExt::chain(stream::iter([Ok(Bytes::from(hello))]), rest);
        Ok(as_events(Body::from_stream(whole)))
    }

    /// The next text of a stream of events, and how it goes on; none when the node stops.
    async fn next(
        mut self,
        cursor: ChangeCursor,
    ) -> Option<(String, Option<(Subscriber, ChangeCursor)>)> {
        let reader = self.reader.clone();
        let page = tokio::select! {
            biased;
            () = self.until_closed() => return None,
            page = reader.read(cursor, PAGE, KEEP_ALIVE) => page,
        };
        match page {
            Ok(page) => {
                let text = match page.next == cursor {
                    true => ": nothing new\n\n".to_owned(),
                    false => written(&page).await,
                };
                Some((text, Some((self, page.next))))
            }
            // The client comes again, with the id of the last group; if its place is gone, it is told so then.
            Err(problem) => {
                let reason = serde_json::json!({ "detail": problem.detail() });
                Some((format!("event: failed\ndata: {reason}\n\n"), None))
            }
        }
    }

    /// Waits until all subscriptions are to end.
    async fn until_closed(&mut self) {
        // Whoever closes is gone: there is nobody to serve for.
        let _ = self.closes.wait_for(|closed| *closed).await;
    }
}

/// The groups as events. The last event of a group has its id, so a client that was cut off within a group gets the
/// whole group again. Groups without changes of users end with an event without data, which sets the id.
async fn written(page: &ChangePage) -> String {
    let (mut text, mut budget) = (String::new(), Budget::default());
    let mut id = None;
    for group in &page.groups {
        for (n, line) in group.lines.iter().enumerate() {
            if n + 1 == group.lines.len() {
                text.push_str(&format!("id: {}\n", group.cursor));
                id = Some(group.cursor);
            }
            text.push_str(&format!("data: {line}\n\n"));
            budget.spend(line.len()).await;
        }
    }
    if id != Some(page.next) {
        text.push_str(&format!("id: {}\n\n", page.next));
    }
    text
}

#[cfg(test)]
mod tests {
    use consort_db::DbPosition;

    use super::*;
    use crate::db::changes::GroupLines;

    #[tokio::test]
    async fn only_the_end_of_a_group_is_a_place_to_come_back_to() {
        let cursor = |index| ChangeCursor { position: DbPosition { era: 1, index }, digest: None };
        let group = |index, lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            GroupLines { lines, cursor: cursor(index) }
        };
        for (groups, next, expected) in [
            (vec![], 3, "id: 1-3\n\n"),
            (
                vec![group(1, &["{1}", "{2}"]), group(2, &["{3}"])],
                2,
                "data: {1}\n\nid: 1-1\ndata: {2}\n\nid: 1-2\ndata: {3}\n\n",
            ),
            (vec![group(1, &["{1}"]), group(2, &[])], 2, "id: 1-1\ndata: {1}\n\nid: 1-2\n\n"),
        ] {
            let page = ChangePage { groups, next: cursor(next) };
            assert_eq!(written(&page).await, expected);
        }
    }
}
