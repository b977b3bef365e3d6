//! What the tests share: processes on sockets of their own, within the test's process.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response};
use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};

use crate::database::{Database, DatabaseArgs};
use crate::http::{HttpClient, HttpFailure, HttpServer, ServiceUrl};

/// Longer than any answer takes; it measures nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server of this program with any routes. It ends with the test.
pub(crate) struct TestServer {
    pub(crate) url: ServiceUrl,
    pub(crate) address: SocketAddr,
    running: JoinHandle<()>,
}

/// A socket on which nothing is served yet: its address is known.
pub(crate) struct TestSocket {
    pub(crate) url: ServiceUrl,
    server: HttpServer,
}

impl TestSocket {
    pub(crate) async fn bind() -> TestSocket {
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let url = format!("http://{}", server.address()).parse().unwrap();
        TestSocket { url, server }
    }

    pub(crate) fn serve(self, router: Router) -> TestServer {
        let (url, address) = (self.url, self.server.address());
        let running = tokio::spawn(self.server.run(router, std::future::pending()));
        TestServer { url, address, running }
    }
}

impl TestServer {
    pub(crate) async fn start(router: Router) -> TestServer {
        TestSocket::bind().await.serve(router)
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Response<Bytes> {
        self.send(method, path, body).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Response<Bytes>, HttpFailure> {
        let request = Request::builder().method(method).uri(self.url.join(path));
        let request = request.body(Bytes::from(body.to_owned())).unwrap();
        HttpClient::new().send(request, PATIENCE).await
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// An address where no process listens.
pub(crate) async fn nowhere() -> ServiceUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap()).parse().unwrap()
}

/// An address where connections are taken, and closed when the first bytes of a request have come.
pub(crate) async fn hangs_up() -> (ServiceUrl, HungUp) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.readable().await.unwrap();
        }
    });
    (url, HungUp(task.abort_handle()))
}

/// Ends with the test.
pub(crate) struct HungUp(AbortHandle);

impl Drop for HungUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A database that does not exist: for requests that do not come so far.
pub(crate) async fn no_database() -> Database {
    Database::new(&DatabaseArgs::at(nowhere().await.to_string())).unwrap()
}

/// The body of an answer.
pub(crate) fn json(answer: &Response<Bytes>) -> Value {
    serde_json::from_slice(answer.body()).unwrap()
}

/// Checks that an answer is a problem with this status.
#[track_caller]
pub(crate) fn assert_problem(answer: &Response<Bytes>, status: u16) {
    assert_eq!(answer.status(), status, "{answer:?}");
    assert_eq!(answer.headers()["content-type"], "application/problem+json", "{answer:?}");
    assert_eq!(json(answer)["status"], status);
}
