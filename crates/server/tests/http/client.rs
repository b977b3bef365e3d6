//! A server on a free port and a client that writes raw bytes: what the time-outs and bounds are
//! tested with.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use consort_server::{
    Drained, Express, Handle, Limits, LongBodies, Metrics, Options, Probe, Server, TenantRoutes,
    Tokens, WebPolicy, axum,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Short enough for a test to sit out.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// No test waits this long unless something hangs.
const HANG: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) handle: Handle,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

pub(crate) fn options() -> Options {
    Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        limits: Limits::default(),
        tokens: Tokens::default(),
        web: WebPolicy::default(),
        probes: Vec::<Probe>::new(),
        metrics: Metrics::new("1.2.3"),
        express: Express::default(),
        long_bodies: LongBodies::default(),
        tenant_routes: TenantRoutes::default(),
        routes: Router::new()
            .route("/echo", post(|body: Bytes| async move { body }))
            .route("/ignore", post(|| async { "not read" }))
            .route("/panic", get(|| async { panic!("on purpose") as &'static str }))
            .route("/large", get(|| async { vec![b'x'; 64 * 1024 * 1024] })),
    }
}

pub(crate) fn limited(change: impl FnOnce(&mut Limits)) -> Options {
    let mut options = options();
    change(&mut options.limits);
    options
}

pub(crate) async fn start(options: Options) -> Running {
    let server = Server::bind(options).await.unwrap();
    let handle = server.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
    Running { handle, stop, ended }
}

impl Running {
    pub(crate) async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.handle.address()).await.unwrap())
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await
    }

    pub(crate) async fn metrics(&self) -> String {
        self.ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await.body
    }

    /// Asks for a stop without waiting for it.
    pub(crate) fn tell_to_stop(self) -> JoinHandle<Drained> {
        self.stop.send(()).unwrap();
        self.ended
    }

    pub(crate) async fn stop(self) -> Drained {
        within(self.tell_to_stop()).await.unwrap()
    }
}

pub(crate) struct Client(pub(crate) TcpStream);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next answer, by its content-length.
    pub(crate) async fn answer(&mut self) -> Answer {
        read_answer(&mut self.0).await
    }

    /// True when the server has closed without sending anything more.
    pub(crate) async fn closed_silently(&mut self) -> bool {
        let mut rest = Vec::new();
        within(self.0.read_to_end(&mut rest)).await.unwrap();
        rest.is_empty()
    }
}

/// The next answer of a connection, by its content-length.
pub(crate) async fn read_answer(reader: impl AsyncRead + Unpin) -> Answer {
    within(answer(reader)).await.expect("the connection was closed before an answer was complete")
}

async fn answer(mut reader: impl AsyncRead + Unpin) -> Option<Answer> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(reader.read_u8().await.ok()?);
    }
    let head = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
    let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some(Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() })
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The answer's problem kind and detail; panics when it is not a well-formed problem.
    pub(crate) fn problem(&self) -> (String, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(json["status"], self.status, "{self:?}");
        assert!(json["title"].is_string(), "{self:?}");
        let kind = json["type"].as_str().unwrap().strip_prefix("urn:consort:problem:").unwrap();
        (kind.to_owned(), json["detail"].as_str().unwrap().to_owned())
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("nothing happened for a long time")
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
