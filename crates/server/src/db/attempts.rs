//! The wait between two attempts at a request.

use std::time::Duration;

use consort_db::db::Database;
use tokio::time::Instant;

/// The least time between two attempts: a node looks at a database no more often.
const ATTEMPT_GAP: Duration = Duration::from_millis(10);

/// The most time between two attempts while nothing seems to change.
const ATTEMPT_MOST: Duration = Duration::from_millis(50);

/// Waits for another view of the database. False if the time to find a worker is over.
pub(super) async fn wait_for_change(database: &Database, take_by: Instant) -> bool {
    let mut views = database.view().views();
    views.mark_unchanged();
    database.view().refresh();
    let now = Instant::now();
    if now + ATTEMPT_GAP >= take_by {
        return false;
    }
    tokio::time::sleep(ATTEMPT_GAP).await;
    let until = take_by.min(now + ATTEMPT_MOST);
    // The view may never change: the next attempt looks again.
    let _ = tokio::time::timeout_at(until, views.changed()).await;
    Instant::now() < take_by
}
