//! Where the broker is and how to get in: the one place that knows the password.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use consort_kernel::Fault;
use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::timeout;

use super::faults::{access_refused, reason};
use super::socket::Socket;
use crate::address::printable;
use crate::open::OpenError;

/// For resolving, connecting, TLS and the AMQP handshake together.
pub(super) const DIAL_WITHIN: Duration = Duration::from_secs(5);

/// Seconds between heartbeats. A connection on which nothing arrives for twice as long is given up, so
/// that a reader on a broken line waits no longer than that.
const HEARTBEAT: u16 = 10;

/// A broker's address with its secrets.
pub(super) struct Target {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    address: String,
}

impl Target {
    /// Reads the address and the authority's file.
    pub(super) async fn parse(url: &str, tls_ca: Option<&Path>) -> Result<Target, OpenError> {
        let address = printable(url);
        // The parser's own message may quote the whole address, password included.
        let Ok(mut uri) = url.parse::<AMQPUri>() else {
            let reason = "write it as amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, with \
                          special characters percent-encoded (the virtual host / is %2f)";
            return Err(OpenError::Unusable { address, reason: reason.into() });
        };
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let mut tls = OwnedTLSConfig::default();
        if let Some(path) = tls_ca {
            let read = authorities(path).await;
            let read = read.map_err(|reason| OpenError::Unusable {
                address: path.display().to_string(),
                reason,
            });
            tls.cert_chain = Some(read?);
        }
        if uri.scheme == AMQPScheme::AMQPS {
            // The process may have one already; which one does not matter here.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Target { uri, tls, address })
    }

    /// Connects and logs in. The connection is named, for whoever looks at the broker.
    pub(super) async fn dial(&self, name: &str) -> Result<(Connection, Socket), Fault> {
        let socket = Socket::default();
        // Also if the caller drops this future half-way.
        let guard = socket.guard();
        match timeout(DIAL_WITHIN, self.connect(name, socket.clone())).await {
            Ok(Ok(connection)) => {
                guard.disarm();
                Ok((connection, socket))
            }
            Ok(Err(error)) if access_refused(&error) => Err(Fault::Fatal(reason(&error))),
            Ok(Err(error)) => Err(Fault::Retryable(reason(&error))),
            Err(_) => Err(Fault::Retryable(format!("no answer within {DIAL_WITHIN:?}"))),
        }
    }

    async fn connect(&self, name: &str, socket: Socket) -> lapin::Result<Connection> {
        // Recovery is ours: the library's own would resume every consumer at its original offset.
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let runtime = lapin::runtime::default_runtime()?;
        let tls = self.tls.clone();
        Connection::connector(
            self.uri.clone(),
            runtime,
            async move |uri, runtime| {
                let connecting = async {
                    let host = uri.authority.host.as_str();
                    let addresses = (host.to_owned(), uri.authority.port);
                    let addresses = runtime.to_socket_addrs(addresses);
                    let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        socket.hold(plain.get_ref())?;
                    }
                    match uri.scheme {
                        AMQPScheme::AMQP => Ok(stream),
                        AMQPScheme::AMQPS => stream.into_tls(host, tls.as_ref()).await,
                    }
                };
                // This runs on the library's thread, which a time-out around it all does not end.
                let connected = timeout(DIAL_WITHIN, connecting).await;
                Ok(connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?)
            },
            properties,
        )
        .await
    }

    pub(super) fn unusable(&self, reason: String) -> OpenError {
        OpenError::Unusable { address: self.address.clone(), reason }
    }

    pub(super) fn unreachable(&self, fault: Fault) -> OpenError {
        OpenError::Unreachable { address: self.address.clone(), reason: fault.to_string() }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// The file's text, if there is at least one certificate in it.
async fn authorities(path: &Path) -> Result<String, String> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| format!("the authority's file cannot be read: {error}"))?;
    let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes());
    match certificates.next() {
        Some(Ok(_)) => Ok(text),
        Some(Err(error)) => Err(format!("the authority's file is no PEM: {error}")),
        None => Err("the authority's file holds no certificate".into()),
    }
}
