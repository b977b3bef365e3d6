//! Cursors: a batch whose rows come as lines.

use axum::extract::{Request, State};
use axum::response::Response;

use super::pipeline::{CallForm, StreamCall, answered, arrive};
use super::request::{CursorBody, StreamRequest};
use crate::db::DbHttp;
use crate::db::incoming::DatabasePath;
use crate::peers::FORWARDED;

/// `POST /db/{name}/v3/cursor`
pub(super) async fn cursor(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Response {
    let is_forwarded = request.headers().contains_key(FORWARDED);
    let served = async {
        let (incoming, body) = arrive::<CursorBody>(&http, path, request).await?;
        let requests = vec![StreamRequest::Batch { batch: body.batch }];
        let call = StreamCall::new(&http, incoming, requests, CallForm::Cursor);
        call.serve(body.baton.as_deref()).await
    };
    answered(served.await, is_forwarded)
}
