//! The accept loop: takes connections up to a bound, and ends them gracefully.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::long_paths::ShortPaths;
use crate::start_error::StartError;

/// The largest head of a request. Beyond it: 431.
pub(super) const MAX_HEAD: usize = 256 * 1024;

/// How much of a connection is held in memory: more than a head, since the first bytes of a body may come with it.
const MAX_BUFFER: usize = MAX_HEAD + 64 * 1024;

/// The most headers of a request. Beyond it: 431.
const MAX_HEADERS: usize = 1024;

/// How long a connection may be without a whole head, between two requests as well.
const HEAD_WITHIN: Duration = Duration::from_secs(60);

/// Connections at one time; further ones wait until another ends.
const MAX_CONNECTIONS: usize = 4096;

/// The pause after a failed `accept` (usually: out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long requests that are under way may take after the process was told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How long, and for how many bytes, a closed connection still reads: closing a socket with unread input makes the
/// kernel send a reset, which can destroy the answer (431, 413) on its way.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

/// A server that is bound and does not accept yet.
#[derive(Debug)]
pub(crate) struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpServer {
    /// Binds an address. Port 0 takes a free port.
    pub(crate) async fn bind(address: SocketAddr) -> Result<HttpServer, StartError> {
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(HttpServer { listener, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves, then finishes the requests that are under way.
    pub(crate) async fn run(self, router: Router, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = watch::channel(false);
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            // The semaphore is never closed, so this gives a place or waits.
            let accepted = async {
                let place = Arc::clone(&room).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => {
                        let served = serve(stream, router.clone(), stopping.clone());
                        connections.spawn(async move {
                            served.await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        stop.send_replace(true);
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if timeout(STOP_WITHIN, all_ended).await.is_err() {
            connections.shutdown().await;
        }
    }
}

/// Serves one connection until the client leaves or the process stops.
async fn serve(stream: TcpStream, router: Router, mut stopping: watch::Receiver<bool>) {
    // Answers are written whole; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let stream = ShortPaths::new(stream);
    let begins = stream.begins();
    let answer = service_fn(move |request: Request<Incoming>| {
        let (answer, begins) = (router.clone().oneshot(request.map(Body::new)), begins.clone());
        Box::pin(async move {
            let answer = answer.await;
            begins.set();
            answer
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_header_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        // A client may end its sending side and still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), answer);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(ended),
        _ = stopping.wait_for(|stop| *stop) => None,
    };
    let served = match ended {
        Some(served) => served,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
    linger(connection.into_parts().io.into_inner().into_inner()).await;
}

/// Ends the sending side, then reads on for a moment.
async fn linger(mut stream: TcpStream) {
    let discard = async {
        stream.shutdown().await?;
        let (mut discarded, mut buffer) = (0, [0; 4096]);
        while discarded < LINGER_BYTES {
            match stream.read(&mut buffer).await? {
                0 => break,
                length => discarded += length,
            }
        }
        std::io::Result::Ok(())
    };
    // Whatever comes of it, the connection is over.
    let _ = timeout(LINGER, discard).await;
}
