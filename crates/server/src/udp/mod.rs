//! Datagrams of lines: a socket for each stream that has one, received in batches and appended. Nobody is told
//! what became of a datagram, so everything that is dropped is counted, with the reason.

mod drops;
mod inbox;
mod metrics;
mod receiver;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use consort_kernel::Store;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use drops::Drops;
pub use ipnet::IpNet;
pub use socket::{Datagram, Socket};

use crate::metrics::Metrics;
use crate::streams::Streams;
use metrics::Counts;
use receiver::Receiver;

/// Where a stream takes datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The address of the socket.
    pub listen: SocketAddr,
    /// Who may send; everybody who can, if it is empty.
    pub allow: Vec<IpNet>,
    /// What the kernel is asked to hold for it, in bytes.
    pub buffer: u64,
}

/// What the sockets need.
#[derive(Debug)]
pub struct Options<'a> {
    /// The streams' ways in.
    pub streams: &'a Streams,
    /// Where they take datagrams, by the streams' names.
    pub sources: BTreeMap<String, Source>,
    /// Where samples of what was malformed are noted.
    pub store: Arc<dyn Store>,
    /// Where the counts are shown.
    pub metrics: &'a mut Metrics,
}

/// A socket could not be had.
#[derive(Debug, thiserror::Error)]
#[error("'udp' of the stream '{stream}': cannot listen on {listen}: {source}")]
pub struct BindError {
    stream: String,
    listen: SocketAddr,
    source: io::Error,
}

/// Sockets that are open, and not yet read. The kernel keeps what comes.
pub struct Bound(Vec<Receiver>);

/// Sockets that are read. Dropping it ends the reading without waiting.
#[derive(Debug, Default)]
pub struct Receiving(Vec<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Bound {
    /// Opens a socket for each source. Must be called within a tokio runtime.
    pub fn open(options: Options<'_>) -> Result<Bound, BindError> {
        let Options { streams, sources, store, metrics } = options;
        let counts = Counts::register(metrics.registry());
        let mut receivers = Vec::new();
        for (stream, source) in sources {
            let Some(entrance) = streams.entrances().get(&stream) else { continue };
            let counts = counts.of(&stream);
            let socket = Socket::bind(&stream, &source).map_err(|error| BindError {
                stream: stream.clone(),
                listen: source.listen,
                source: error,
            })?;
            let entrance = Arc::clone(entrance);
            receivers.push(Receiver::new(
                entrance,
                socket,
                source.allow,
                Arc::clone(&store),
                counts,
            ));
        }
        Ok(Bound(receivers))
    }

    /// The streams and where they listen.
    pub fn addresses(&self) -> BTreeMap<String, SocketAddr> {
        self.0.iter().map(Receiver::address).collect()
    }

    /// Begins to read.
    pub fn run(self) -> Receiving {
        let start = |receiver: Receiver| {
            let (stop, stopped) = oneshot::channel::<()>();
            // Resolves when the stop is sent, and as well when the sender is dropped.
            (stop, tokio::spawn(receiver.run(async { drop(stopped.await) })))
        };
        Receiving(self.0.into_iter().map(start).collect())
    }
}

impl Receiving {
    /// Reads what has arrived, and returns when it is appended or given up.
    pub async fn stop(self) {
        let (stops, ended): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        for stop in stops {
            // An error means that it has ended already.
            let _ = stop.send(());
        }
        for ended in ended {
            if let Err(error) = ended.await {
                tracing::error!(
                    %error,
                    "the task of a UDP socket failed; this is a defect of Consort, please report it"
                );
            }
        }
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.addresses()).finish()
    }
}
