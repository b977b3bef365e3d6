//! Bodies of requests: each is read whole before its request is handled.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::problem::Problem;

/// The largest body that is taken.
const MAX_BODY: usize = 1024 * 1024;

/// How much of a body is read. A client that sends more than [`MAX_BODY`] reads its answer only when it has sent all.
const MAX_READ: usize = 16 * MAX_BODY;

/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Reads the body of a request before the request is handled.
pub(crate) async fn read_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let read = timeout(BODY_WITHIN, read(body)).await;
    let late =
        |_| Err(Problem::too_slow(format!("the body did not arrive within {BODY_WITHIN:?}")));
    match read.unwrap_or_else(late) {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(problem) => problem.into_response(),
    }
}

async fn read(mut body: Body) -> Result<Bytes, Problem> {
    let (mut kept, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Problem::bad_request("the body ends early or is malformed"))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length <= MAX_BODY {
            kept.extend_from_slice(&data);
        } else if length > MAX_READ {
            break;
        }
    }
    if length > MAX_BODY {
        return Err(Problem::too_large(format!("the body is larger than {MAX_BODY} bytes")));
    }
    Ok(kept.freeze())
}
