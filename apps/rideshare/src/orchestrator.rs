//! The database in the application's own words: its tables, and its workers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use clap::Args;
use consort_client::{DbClientError, WorkerEntry};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use crate::database::{ANSWER_WITHIN, Database, DatabaseArgs};
use crate::http::{HttpServer, Problem, only};
use crate::service::{EndArgs, serve, with_database};
use crate::start_error::StartError;
use crate::table_requests::{parse_read, parse_write};

/// The pause before the workers are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The settings of `rideshare orchestrator`.
#[derive(Args, Clone, Debug)]
pub(crate) struct OrchestratorArgs {
    /// Address to listen on
    #[arg(
        long,
        env = "RIDESHARE_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8003"
    )]
    listen: SocketAddr,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    end: EndArgs,
}

/// Runs the process until it is told to end.
pub(crate) async fn run(args: OrchestratorArgs) -> Result<(), StartError> {
    let server = HttpServer::bind(args.listen).await?;
    let database = Database::new(&args.database)?;
    let router = with_database(routes(database.clone()), database);
    serve("orchestrator", server, router, &args.end).await
}

/// The routes of its own.
pub(crate) fn routes(database: Database) -> Router {
    Router::new()
        .route("/api/v1/db/write", only("POST", post(write)))
        .route("/api/v1/db/read", only("POST", post(read)))
        .route("/api/v1/crash/master", only("POST", post(crash_master)))
        .route("/api/v1/crash/slave", only("POST", post(crash_slave)))
        .route("/api/v1/worker/list", only("GET", get(list_workers)))
        .with_state(database)
}

async fn write(State(database): State<Database>, body: Bytes) -> Result<Response, Problem> {
    database.write(parse_write(&body)?).await.map_err(refused)?;
    Ok((StatusCode::CREATED, Json(json!({}))).into_response())
}

async fn read(State(database): State<Database>, body: Bytes) -> Result<Response, Problem> {
    let query = parse_read(&body)?;
    let rows = database.read(query.statement).await.map_err(refused)?;
    let named = |row: Vec<Value>| -> Map<String, Value> {
        query.columns.iter().map(|column| (*column).to_owned()).zip(row).collect()
    };
    let rows: Vec<_> = rows.into_iter().map(named).collect();
    Ok(Json(rows).into_response())
}

/// The values of these requests are their clients'.
fn refused(error: DbClientError) -> Problem {
    match &error {
        DbClientError::Constraint(_) => Problem::bad_request(error.to_string()),
        // A value that no column can hold, or a deletion that is too much for one transaction.
        DbClientError::Refused(problem) if [400, 413].contains(&problem.status) => {
            Problem::bad_request(error.to_string())
        }
        _ => error.into(),
    }
}

async fn crash_master(State(database): State<Database>) -> Result<Response, Problem> {
    crash(&database, leader).await
}

async fn crash_slave(State(database): State<Database>) -> Result<Response, Problem> {
    crash(&database, newest_reader).await
}

async fn list_workers(State(database): State<Database>) -> Result<Response, Problem> {
    let mut ids: Vec<u64> =
        database.workers().await?.workers.iter().map(|worker| worker.id).collect();
    ids.sort_unstable();
    Ok(Json(ids).into_response())
}

/// Ends the worker that `choose` chooses, as soon as there is one.
async fn crash(
    database: &Database,
    choose: fn(&[WorkerEntry]) -> Option<u64>,
) -> Result<Response, Problem> {
    let none =
        |_| Err(Problem::unavailable(format!("there is no such worker within {ANSWER_WITHIN:?}")));
    let ended = timeout(ANSWER_WITHIN, crash_one(database, choose)).await.unwrap_or_else(none)?;
    Ok(Json([ended]).into_response())
}

async fn crash_one(
    database: &Database,
    choose: fn(&[WorkerEntry]) -> Option<u64>,
) -> Result<u64, Problem> {
    // The worker that was told to end, and whose answer is missing.
    let mut told = None;
    loop {
        let workers = database.workers().await?.workers;
        if let Some(id) = told.filter(|id| workers.iter().all(|worker| worker.id != *id)) {
            return Ok(id);
        }
        if let Some(id) = told.or_else(|| choose(&workers)) {
            match database.crash(id).await {
                Ok(()) => return Ok(id),
                Err(DbClientError::Unknown(_)) => told = Some(id),
                // It has ended by itself, or nothing was asked: look again.
                Err(DbClientError::NotFound(_) | DbClientError::Unavailable(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

fn leader(workers: &[WorkerEntry]) -> Option<u64> {
    workers.iter().find(|worker| worker.is_leader()).map(|worker| worker.id)
}

fn newest_reader(workers: &[WorkerEntry]) -> Option<u64> {
    workers.iter().filter(|worker| !worker.is_leader()).map(|worker| worker.id).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_the_master_and_the_newest_reader_the_slave() {
        for (workers, master, slave) in [
            (vec![], None, None),
            (vec![(1, "leader")], Some(1), None),
            (vec![(1, "reader"), (2, "reader")], None, Some(2)),
            (vec![(2, "reader"), (3, "leader"), (9, "reader")], Some(3), Some(9)),
            (vec![(2, "reader"), (9, "leader")], Some(9), Some(2)),
        ] {
            let worker = |(id, role): (u64, &str)| {
                let (role, node) = (role.to_owned(), "a".to_owned());
                WorkerEntry { id, role, node, index: 0, lag: 0 }
            };
            let workers: Vec<WorkerEntry> = workers.into_iter().map(worker).collect();
            assert_eq!((leader(&workers), newest_reader(&workers)), (master, slave));
        }
    }
}
