//! (a) The limit: a bare handler that reads the same path and body, and answers. It runs as a process of
//! its own, like every contestant.

use std::net::SocketAddr;

use anyhow::Result;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use tokio::net::TcpListener;

use super::ride::{Accepted, Body, Place, ROUTE};

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr) -> Result<()> {
    let router = Router::new().route(ROUTE, post(accept));
    Ok(axum::serve(TcpListener::bind(listen).await?, router).await?)
}

async fn accept(Path(place): Path<Place>, Json(body): Json<Body>) -> (StatusCode, Json<Accepted>) {
    // What was read must not be optimised away.
    std::hint::black_box((&place, &body));
    (StatusCode::CREATED, Json(Accepted { accepted: 1 }))
}
