//! Hrana over HTTP, versions 2 and 3 with JSON: the protocol of libSQL's clients.
//!
//! A pipeline runs on one node: on the leader's if it may write, else on one with a worker. A stream with state is
//! held by the node that ran its first pipeline; its baton names that node, and any other node forwards to it.

mod answer;
mod batch;
mod cursor;
mod errors;
mod executor;
mod pipeline;
mod relay;
mod request;
mod stream;
mod value;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::DbHttp;
use super::failures::not_stored;
use super::incoming::DatabasePath;
use crate::problem::Problem;
use crate::problems;
pub(super) use stream::Streams;

/// What is below `/db/{name}/` for these clients, and the paths to which a URL without its last slash leads.
pub(super) fn routes() -> Router<DbHttp> {
    Router::new()
        .route("/db/{name}/v2", get(is_here))
        .route("/db/{name}/v3", get(is_here))
        .route("/db/{name}/v2/pipeline", post(pipeline::pipeline))
        .route("/db/{name}/v3/pipeline", post(pipeline::pipeline))
        .route("/db/{name}/v3/cursor", post(cursor::cursor))
        .route("/db/v2", get(without_slash))
        .route("/db/v3", get(without_slash))
        .route("/db/v2/pipeline", post(without_slash))
        .route("/db/v3/pipeline", post(without_slash))
        .route("/db/v3/cursor", post(without_slash))
}

/// `GET /db/{name}/v2`, `/v3`: this version is spoken here.
async fn is_here(State(http): State<DbHttp>, path: DatabasePath) -> Response {
    match http.database(path) {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => errors::answer(&problem),
    }
}

/// Clients resolve `v2/pipeline` against their URL, and drop its last part if it has no slash behind it.
async fn without_slash(uri: Uri) -> Response {
    let detail = format!(
        "'{}' is not below a database: the client's URL must end with a slash, as in http://HOST:PORT/db/NAME/",
        uri.path()
    );
    errors::answer(&not_stored(Problem::new(problems::DB_NOT_FOUND, detail)))
}
