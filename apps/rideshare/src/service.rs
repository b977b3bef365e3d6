//! The parts that all processes share: health check, `db/clear`, limits, and how a process runs.

use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Args;
use serde_json::json;

use crate::clear::clear;
use crate::counter::{RequestCounter, count};
use crate::database::Database;
use crate::http::{HttpServer, Problem, not_found, only, read_body};
use crate::shutdown::shutdown;
use crate::start_error::StartError;

/// The path of health checks.
pub(crate) const HEALTH_PATH: &str = "/healthz";

/// The path that empties all tables.
pub(crate) const CLEAR_PATH: &str = "/api/v1/db/clear";

/// How a process ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct EndArgs {
    /// End when standard input ends: `rideshare up` holds the other end of it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// The routes of a service: its own, those of the database, and a counter around all of them.
pub(crate) fn counted(routes: Router, database: Database, counter: RequestCounter) -> Router {
    with_database(routes.merge(counter.routes()), database)
        .layer(from_fn_with_state(counter, count))
}

/// Adds the routes of a process that stands on the database, and the limits.
pub(crate) fn with_database(routes: Router, database: Database) -> Router {
    let own = Router::new()
        .route(HEALTH_PATH, only("GET", get(check_health)))
        .route(CLEAR_PATH, only("POST", post(clear_tables)))
        .with_state(database);
    routes.merge(own).fallback(not_found).layer(from_fn(read_body))
}

/// Serves until the process is told to end.
pub(crate) async fn serve(
    name: &str,
    server: HttpServer,
    router: Router,
    end: &EndArgs,
) -> Result<(), StartError> {
    let shutdown = shutdown(end.until_stdin_closes)?;
    tracing::info!("{name} listens on http://{}", server.address());
    server.run(router, shutdown).await;
    Ok(())
}

/// 200 with `{}`.
pub(crate) fn done() -> Response {
    Json(json!({})).into_response()
}

async fn check_health(State(database): State<Database>) -> Result<Response, Problem> {
    database.check().await?;
    Ok(done())
}

async fn clear_tables(State(database): State<Database>) -> Result<Response, Problem> {
    clear(&database).await?;
    Ok(done())
}
