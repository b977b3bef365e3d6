//! The origin that all contestants ask: it takes its time, answers the same to everybody, and counts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, header};
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::{ANSWER_BYTES, ORIGIN_TAKES};

/// What it has at a path. The contestants are told by their settings for how long it lasts.
pub(super) const ITEMS: &str = "/items/";
/// How often it was asked for a path.
pub(super) const CALLS: &str = "/calls/";

type Calls = Arc<Mutex<HashMap<String, u64>>>;

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr) -> Result<()> {
    let router = Router::new()
        .route("/items/{*path}", get(items))
        .route("/calls/{*path}", get(calls))
        .with_state(Calls::default());
    Ok(axum::serve(TcpListener::bind(listen).await?, router).await?)
}

async fn items(
    State(calls): State<Calls>,
    Path(path): Path<String>,
) -> ([(HeaderName, &'static str); 1], String) {
    *calls.lock().entry(path).or_default() += 1;
    tokio::time::sleep(ORIGIN_TAKES).await;
    ([(header::CONTENT_TYPE, "application/json")], answer())
}

async fn calls(State(calls): State<Calls>, Path(path): Path<String>) -> String {
    calls.lock().get(&path).copied().unwrap_or_default().to_string()
}

/// Some JSON of just so many bytes.
pub(super) fn answer() -> String {
    let around = "[\"\"]".len();
    format!("[\"{}\"]", "x".repeat(ANSWER_BYTES - around))
}
