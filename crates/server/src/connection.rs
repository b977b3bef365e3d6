//! The life of one connection, from accepted to closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Response;
use futures::TryFutureExt as _;
use http_body::{Frame, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::express::connection::End;
use crate::express::{self, Way};
use crate::limits::{LINGER, LINGER_BYTES, Limits, MAX_BUFFER_BYTES, MAX_HEADER_BYTES};
use crate::metrics::HttpMetrics;
use crate::problem::Problem;
use crate::problems;
use crate::socket::{Lapse, Phase, Progress, Socket};

/// What all connections of a server share.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) way: Arc<Way>,
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    pub(crate) metrics: HttpMetrics,
}

/// Serves requests until the client leaves, a time-out strikes, or `stopping` turns true; in the
/// last case the request being answered is finished first.
pub(crate) async fn serve(
    service: Service,
    stream: TcpStream,
    mut stopping: watch::Receiver<bool>,
) {
    let progress = Progress::default();
    let mut socket = Socket::new(stream, service.limits.clone(), progress.clone());
    match express::connection::serve(&service.way, &mut socket, &progress, &stopping).await {
        End::Others(read) => socket.unread(read),
        End::Closed { at_rest: true } => return,
        End::Closed { at_rest: false } => {
            return close(socket, &service.limits, &service.metrics).await;
        }
    }
    let (way, router) = (service.way, service.router);
    let answer = {
        let progress = progress.clone();
        hyper::service::service_fn(move |request| -> Answering {
            progress.enter(Phase::Answering);
            let progress = progress.clone();
            match way.plain_of(&request) {
                Some(plain) => Box::pin(tell(plain.answer(request.into_body()), progress)),
                None => Box::pin(tell(router.clone().oneshot(request.map(Body::new)), progress)),
            }
        })
    };
    let mut connection = http1::Builder::new()
        // The socket watches the headers, see its room.
        .header_read_timeout(None)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES)
        // The socket watches for clients that leave.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), answer);

    let mut at_rest = false;
    // A server that is gone without having said stop counts as stopping.
    let told_to_stop = async { drop(stopping.wait_for(|stop| *stop).await) };
    let outcome = tokio::select! {
        // First what has been read already: it is answered, stop or not.
        biased;
        outcome = poll_fn(|cx| connection.poll_without_shutdown(cx)) => outcome,
        () = told_to_stop => {
            at_rest = matches!(progress.phase(), Phase::FirstByte | Phase::Idle);
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let socket = connection.into_parts().io.into_inner();
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
    // A connection that a stop finds at rest has nothing on its way in either direction.
    if !at_rest {
        close(socket, &service.limits, &service.metrics).await;
    }
}

/// Tells a client that there is no room for it, and closes.
pub(crate) async fn refuse(mut stream: TcpStream, max_connections: usize) {
    let problem = Problem::new(
        problems::TOO_MANY_CONNECTIONS,
        format!(
            "all {max_connections} connections of this node are in use ([http] max_connections); \
             try again, or ask another node"
        ),
    );
    if stream.write_all(&problem.to_http1()).await.is_ok() {
        linger(stream).await;
    }
}

/// A request that is being answered.
type Answering = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

/// An answer that tells its progress. No `async fn`: that would hold the answer twice.
fn tell(
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
    progress: Progress,
) -> impl Future<Output = Result<Response<AnswerBody>, Infallible>> {
    answer.map_ok(|response| response.map(|body| AnswerBody { inner: body, progress }))
}

async fn close(socket: Socket<TcpStream>, limits: &Limits, metrics: &HttpMetrics) {
    let lapse = socket.lapse();
    let mut stream = socket.into_inner();
    match lapse {
        Some(Lapse::Read(Phase::FirstByte)) => metrics.timed_out("first_byte"),
        Some(Lapse::Read(Phase::Idle)) => metrics.timed_out("keep_alive"),
        Some(Lapse::Read(Phase::Answering)) => {}
        Some(Lapse::Write) => metrics.timed_out("write"),
        Some(Lapse::Read(Phase::Head)) => {
            metrics.timed_out("header");
            let detail = format!(
                "the request's headers did not arrive within {:?} ([http] header_timeout)",
                limits.header
            );
            let problem = Problem::new(problems::HEADER_TIMEOUT, detail);
            if stream.write_all(&problem.to_http1()).await.is_ok() {
                linger(stream).await;
            }
        }
        None => linger(stream).await,
    }
}

/// Ends our side, then reads on for a moment: see [`LINGER`].
async fn linger(mut stream: TcpStream) {
    let discard = async {
        stream.shutdown().await?;
        let mut discarded = 0;
        let mut buffer = [0; 4096];
        while discarded < LINGER_BYTES {
            match stream.read(&mut buffer).await? {
                0 => break,
                length => discarded += length,
            }
        }
        std::io::Result::Ok(())
    };
    // Whether the client closed, failed or dallied, the connection is over.
    let _ = tokio::time::timeout(LINGER, discard).await;
}

/// An answer's body, which tells when it has been handed over whole (or given up).
struct AnswerBody {
    inner: Body,
    progress: Progress,
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.progress.enter(Phase::Idle);
    }
}
