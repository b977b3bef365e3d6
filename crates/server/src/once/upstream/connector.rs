//! Connections to upstreams: TCP, and TLS for `https`, each made within a bound.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use futures::future::BoxFuture;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Makes connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    /// To resolve the host and to connect, TLS included.
    pub(super) within: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconnected {
    #[error("no connection within {0:?}")]
    Slow(Duration),
    #[error("{0}")]
    Refused(String),
}

impl tower::Service<Uri> for Connector {
    type Response = Link;
    type Error = Unconnected;
    type Future = BoxFuture<'static, Result<Link, Unconnected>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let within = self.within;
        Box::pin(async move {
            match timeout(within, connect(&uri)).await {
                Ok(connected) => connected.map_err(Unconnected::Refused),
                Err(_) => Err(Unconnected::Slow(within)),
            }
        })
    }
}

async fn connect(uri: &Uri) -> Result<Link, String> {
    let host = uri.host().ok_or("the address has no host")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((bare, port)).await.map_err(|error| error.to_string())?;
    // A request is written in one piece, and nothing is to be gained by holding its end back.
    let _ = stream.set_nodelay(true);
    if !secure {
        return Ok(Link(TokioIo::new(Box::new(stream))));
    }
    let name = ServerName::try_from(bare.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(consort_feeds::tls()?);
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    Ok(Link(TokioIo::new(Box::new(stream))))
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, plain or over TLS.
pub(super) struct Link(TokioIo<Box<dyn Stream>>);

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
