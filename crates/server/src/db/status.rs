//! `GET /db`, `GET /db/{name}` and `GET /db/{name}/workers`: what a database is doing. They need no worker and count as
//! no read.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use consort_db::db::Database;
use consort_db::head::{DbHead, HeadState};
use consort_db::snapshot::manifest::Manifest;
use consort_db::view::DatabaseView;
use consort_db::worker::cell::WorkerCell;
use serde_json::{Value, json};

use super::DbHttp;
use super::incoming::DatabasePath;
use crate::problem::Problem;

/// How long a request waits for a look at the database that began after it came.
const LOOK_WITHIN: Duration = Duration::from_millis(500);

/// `GET /db`
pub(super) async fn list(State(http): State<DbHttp>) -> Json<Value> {
    let shown = http.databases().iter().map(|database| {
        let view = database.view().now();
        let mut shown = head_json(view.head.as_ref());
        shown["name"] = database.name().into();
        shown["path"] = format!("/db/{}", database.name()).into();
        shown["workers"] = view.workers.len().into();
        shown
    });
    Json(json!({ "databases": shown.collect::<Vec<_>>() }))
}

/// `GET /db/{name}`
pub(super) async fn show(
    State(http): State<DbHttp>,
    path: DatabasePath,
) -> Result<Json<Value>, Problem> {
    let database = http.database(path)?;
    let view = database.view().refreshed(LOOK_WITHIN).await;
    let snapshots = snapshots(&database).await;
    let mut shown = head_json(view.head.as_ref());
    shown["name"] = database.name().into();
    let leader = view.leader().map(|leader| json!({ "id": leader.id, "node": leader.node }));
    shown["leader"] = leader.into();
    shown["workers"] = workers(&database, &view).into();
    shown["wanted"] = wanted(&view).into();
    shown["size"] = size(&database, &snapshots).await.into();
    shown["max_size"] = database.settings().max_size.into();
    shown["reads"] = database.window_reads().await.into();
    shown["snapshots"] = snapshots.iter().map(snapshot_json).collect();
    shown["feed"] = format!("/feeds/db/{}", database.name()).into();
    Ok(Json(shown))
}

/// `GET /db/{name}/workers`
pub(super) async fn list_workers(
    State(http): State<DbHttp>,
    path: DatabasePath,
) -> Result<Json<Value>, Problem> {
    let database = http.database(path)?;
    let view = database.view().refreshed(LOOK_WITHIN).await;
    Ok(Json(json!({ "workers": workers(&database, &view), "wanted": wanted(&view) })))
}

/// What the head says. A database that has none yet is `creating`.
fn head_json(head: Option<&DbHead>) -> Value {
    let Some(head) = head else { return json!({ "state": "creating" }) };
    let (state, reason) = match &head.state {
        HeadState::Led => ("led", None),
        HeadState::Vacant { .. } => ("vacant", None),
        HeadState::Stopped { reason } => ("stopped", Some(reason)),
    };
    let mut shown = json!({
        "state": state,
        "position": head.position().to_string(),
        "era": head.era,
        "index": head.index,
        "epoch": head.epoch,
        "content": head.content.to_string(),
        "sqlite": sqlite_version(head.sqlite),
    });
    if let Some(reason) = reason {
        shown["reason"] = reason.as_str().into();
    }
    shown
}

/// As people write it: 3054001 is 3.54.1.
fn sqlite_version(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
}

/// The live workers, by id. Of those of this node their own words count, which are newer than their cells.
fn workers(database: &Database, view: &DatabaseView) -> Vec<Value> {
    let local = database.local_workers();
    let mut cells: Vec<&WorkerCell> = view.workers.iter().collect();
    cells.sort_by_key(|cell| cell.id);
    let shown = cells.into_iter().map(|cell| {
        let own = local.iter().find(|worker| worker.id() == cell.id).map(|worker| worker.status());
        let applied = own.as_ref().map_or(cell.applied, |status| status.applied);
        let leads = view.leads(cell.id);
        let index = match (&view.head, leads) {
            // The head is what the leader has written.
            (Some(head), true) => head.index.max(applied.index),
            _ => applied.index,
        };
        let lag = view.head.as_ref().map_or(0, |head| match applied.era == head.era {
            true => head.index.saturating_sub(index),
            false => head.index,
        });
        let state = own.as_ref().map_or(cell.state, |status| status.state);
        let mut shown = json!({
            "id": cell.id,
            "role": if leads { "leader" } else { "reader" },
            "node": cell.node,
            "state": state.as_str(),
            "index": index,
            "lag": if leads { 0 } else { lag },
        });
        if let Some(trouble) = own.and_then(|status| status.trouble) {
            shown["trouble"] = trouble.into();
        }
        shown
    });
    shown.collect()
}

/// How many workers there should be, the leader among them.
fn wanted(view: &DatabaseView) -> usize {
    view.wanted.as_ref().map_or(0, |wanted| wanted.slots.len())
}

/// The snapshots, newest first; none where they cannot be read.
async fn snapshots(database: &Database) -> Vec<Manifest> {
    let found = database.store().manifests().await.unwrap_or_default();
    let mut found: Vec<Manifest> = found.into_iter().flatten().collect();
    found.sort_by_key(|manifest| std::cmp::Reverse(manifest.position()));
    found
}

fn snapshot_json(manifest: &Manifest) -> Value {
    json!({ "position": manifest.position().to_string(), "size": manifest.file_bytes })
}

/// The size of a file of this node, or else of the newest snapshot.
async fn size(database: &Database, snapshots: &[Manifest]) -> Option<u64> {
    let path = database.local_workers().iter().find_map(|worker| worker.status().file);
    if let Some(path) = path.map(|file| file.path)
        && let Ok(metadata) = tokio::fs::metadata(&*path).await
    {
        return Some(metadata.len());
    }
    snapshots.first().map(|manifest| manifest.file_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_told_in_the_words_of_the_command_line() {
        assert_eq!(head_json(None), json!({ "state": "creating" }));
        let created = DbHead { index: 7, ..DbHead::created(1, 1, 3_054_001) };
        let told = |head: &DbHead| {
            let told = head_json(Some(head));
            (told["state"].clone(), told["position"].clone(), told["reason"].clone())
        };
        assert_eq!(told(&created), ("vacant".into(), "1-7".into(), Value::Null));
        let led = DbHead { state: HeadState::Led, ..created.clone() };
        assert_eq!(told(&led), ("led".into(), "1-7".into(), Value::Null));
        let reason = "the feed lost entry 7".to_owned();
        let stopped = DbHead { state: HeadState::Stopped { reason: reason.clone() }, ..created };
        assert_eq!(told(&stopped), ("stopped".into(), "1-7".into(), reason.into()));
        assert_eq!(head_json(Some(&stopped))["sqlite"], "3.54.1");
    }
}
