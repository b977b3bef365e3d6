//! `consort relay`: takes lines by UDP and TCP, stamps those that bring no time, and copies each to its targets.
//!
//! A sender with one address to send to reaches two nodes of Consort, or a node and a database. Each line gets its
//! time here, once, so that its copies are the same event. Lines are never held back for a target: each target has
//! a queue of its own, bounded, which lets go of its oldest lines.
//!
//! It keeps nothing: what is in its queues dies with it.

mod intake;
mod line;
mod metrics;
mod queue;
mod tcp;
mod to_http;
mod to_udp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use consort_server::axum::Router;
use consort_server::udp::{Drops, Socket, Source};
use consort_server::{Express, Limits, LongBodies, Metrics, Server, TenantRoutes, Tokens};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::relay::{Aim, RelayConfig, Target};
use intake::Intake;
use metrics::{Counts, TargetMetrics};
use queue::Queue;

/// How long a stop tries to deliver what waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// A relay with open sockets.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    udp: Option<Socket>,
    tcp: Option<TcpListener>,
    http: Server,
    counts: Counts,
}

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("cannot listen on {what} {address}: {source}")]
    Bind { what: &'static str, address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Http(#[from] consort_server::BindError),
}

/// A target's queue, while it is being filled and emptied.
#[derive(Clone, Debug)]
struct Outlet {
    queue: Arc<Queue>,
    metrics: TargetMetrics,
}

impl Relay {
    /// Opens all sockets. Must be called within a tokio runtime.
    pub async fn bind(config: RelayConfig) -> Result<Relay, RelayError> {
        let bind = |what, address| move |source| RelayError::Bind { what, address, source };
        let udp = match config.udp {
            Some(listen) => {
                let source = Source { listen, allow: Vec::new(), buffer: config.buffer };
                Some(Socket::bind("relay", &source).map_err(bind("udp", listen))?)
            }
            None => None,
        };
        let tcp = match config.tcp {
            Some(listen) => Some(TcpListener::bind(listen).await.map_err(bind("tcp", listen))?),
            None => None,
        };
        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let counts = Counts::register(metrics.registry());
        let http = Server::bind(consort_server::Options {
            listen: config.http,
            limits: Limits::default(),
            tokens: Tokens::default(),
            web: consort_server::WebPolicy::default(),
            probes: Vec::new(),
            metrics,
            express: Express::default(),
            long_bodies: LongBodies::default(),
            tenant_routes: TenantRoutes::default(),
            routes: Router::new(),
        })
        .await?;
        Ok(Relay { config, udp, tcp, http, counts })
    }

    /// Where datagrams come in.
    pub fn udp(&self) -> Option<SocketAddr> {
        self.udp.as_ref().and_then(|socket| socket.address().ok())
    }

    /// Where connections come in.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Where the counters are.
    pub fn http(&self) -> SocketAddr {
        self.http.handle().address()
    }

    /// Relays until it is stopped; then delivers what waits, within a bound.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Relay { config, udp, tcp, http, counts } = self;
        let (stopping, stopped) = watch::channel(false);
        let mut senders = JoinSet::new();
        let outlets: Vec<Outlet> = config
            .targets
            .iter()
            .map(|target| start(target, config.datagram, &counts, &mut senders))
            .collect();
        let intake = Arc::new(Intake::new(&config, outlets.clone(), counts.clone()));
        let mut receivers = JoinSet::new();
        if let Some(socket) = udp {
            let drops = Drops::of(socket.as_fd());
            receivers.spawn(intake::datagrams(Arc::clone(&intake), socket, drops, stopped.clone()));
        }
        if let Some(listener) = tcp {
            receivers.spawn(tcp::connections(Arc::clone(&intake), listener, stopped.clone()));
        }
        let http = tokio::spawn(http.run(until(stopped)));
        stop.await;
        stopping.send_replace(true);
        while receivers.join_next().await.is_some() {}
        for outlet in &outlets {
            outlet.queue.close();
        }
        let flushed = async { while senders.join_next().await.is_some() {} };
        if tokio::time::timeout(FLUSH_WITHIN, flushed).await.is_err() {
            for (target, outlet) in config.targets.iter().zip(&outlets) {
                let lines = outlet.queue.lines();
                if lines > 0 {
                    tracing::warn!(
                        target = target.name,
                        lines,
                        "stopped before these were delivered"
                    );
                }
            }
        }
        // It was told to stop with the others.
        let _ = http.await;
    }
}

/// Waits for the stop.
async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that nobody is left to say it, which is one.
    drop(stopped.wait_for(|stop| *stop).await);
}

/// Starts the task that empties a target's queue.
fn start(target: &Target, datagram: usize, counts: &Counts, senders: &mut JoinSet<()>) -> Outlet {
    let metrics = counts.of(&target.name);
    let queue = Arc::new(Queue::new(target.queue, metrics.clone()));
    let outlet = Outlet { queue, metrics };
    let (name, mine) = (target.name.clone(), outlet.clone());
    match &target.aim {
        Aim::Udp(address) => {
            senders.spawn(to_udp::deliver(name, address.clone(), datagram, mine));
        }
        Aim::Http { url, token } => {
            senders.spawn(to_http::deliver(name, url.clone(), token.clone(), mine));
        }
    }
    outlet
}
