//! The limit of the hot key: a bare handler that answers with the bytes and headers that Consort answers with. It
//! runs as a process of its own, like every contestant.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use tokio::net::TcpListener;

use super::origin;

/// Those of Consort's answers; hyper adds the length and the date to both.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    (
        HeaderName::from_static("consort-generation"),
        HeaderValue::from_static("0123456789abcdef0123456789abcdef"),
    ),
    (header::ETAG, HeaderValue::from_static("\"0123456789abcdef0123456789abcdef\"")),
    (header::AGE, HeaderValue::from_static("12")),
    (header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600")),
    (
        HeaderName::from_static("cache-status"),
        HeaderValue::from_static("consort; hit; detail=node"),
    ),
];

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr) -> Result<()> {
    let body = Bytes::from(origin::answer());
    let handler = async move || -> Response { (HEADERS, body).into_response() };
    let router = Router::new().route("/items/{*path}", get(handler));
    Ok(axum::serve(TcpListener::bind(listen).await?, router).await?)
}
