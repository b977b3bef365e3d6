//! The limits: bare handlers that answer with the bytes and headers that Consort answers with, one at once, and one
//! that lets all who ask for a key wait for one pause, as long as the origin takes. They know no origin, keep nothing
//! and outlive nothing; they run as a process of their own, like every contestant.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

use super::{ORIGIN_TAKES, origin};

/// What stands before the keys of the one that lets wait.
pub(super) const WAITS: &str = "/waits/";

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
    let waited = body.clone();
    let keys = Arc::<Mutex<HashMap<String, Arc<OnceCell<()>>>>>::default();
    let at_once = async move || -> Response { (HEADERS, body).into_response() };
    let waits = async move |Path(path): Path<String>| -> Response {
        let cell = Arc::clone(keys.lock().entry(path).or_default());
        cell.get_or_init(|| tokio::time::sleep(ORIGIN_TAKES)).await;
        (HEADERS, waited).into_response()
    };
    let router =
        Router::new().route("/items/{*path}", get(at_once)).route("/waits/{*path}", get(waits));
    Ok(axum::serve(TcpListener::bind(listen).await?, router).await?)
}
