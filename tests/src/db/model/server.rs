//! The model's HTTP server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Model;

/// A model that is served.
#[derive(Debug)]
pub(super) struct ModelServer {
    pub(super) address: SocketAddr,
    pub(super) model: Arc<Mutex<Model>>,
    accepting: JoinHandle<()>,
}

impl ModelServer {
    pub(super) async fn start(model: Model) -> ModelServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of 127.0.0.1 is free");
        let address = listener.local_addr().expect("a listener has an address");
        let model = Arc::new(Mutex::new(model));
        let served = Arc::clone(&model);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let model = Arc::clone(&served);
                let service = service_fn(move |request| answer(Arc::clone(&model), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        ModelServer { address, model, accepting }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    model: Arc<Mutex<Model>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let key = request.headers().get("idempotency-key");
    let key = key.map(|key| key.to_str().expect("a key is text").to_owned());
    let is_write = request.uri().path().ends_with("/write");
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("a body is JSON");
    let (status, answered) = match is_write {
        true => model.lock().write(&body, key),
        false => model.lock().read(&body),
    };
    let mut response = Response::builder().status(status).header("retry-after", "1");
    if let Some(position) = answered["position"].as_str() {
        response = response.header("consort-position", position);
    }
    let body = Full::new(Bytes::from(answered.to_string()));
    Ok(response.body(body).expect("a response"))
}
