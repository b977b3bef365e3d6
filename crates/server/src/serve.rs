//! The accept loop: binds, takes connections up to the bound, and stops gracefully.
//!
//! Beyond `max_connections` a connection is accepted, told 503 without being read, and closed. The
//! other choice, to leave it in the kernel's backlog, looks kinder but is not: the client cannot
//! tell a full node from a dead network, its load balancer keeps sending, and what it queued is
//! answered long after it gave up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::connection::{self, Service};
use crate::door::Door;
use crate::express::{Express, Way};
use crate::health::Probe;
use crate::limits::{ACCEPT_PAUSE, Limits, REFUSALS_AT_ONCE};
use crate::long_bodies::LongBodies;
use crate::memory::BodyMemory;
use crate::metrics::{HttpMetrics, Metrics};
use crate::routes;
use crate::tenants::TenantRoutes;
use crate::tokens::Tokens;
use crate::web::{WebGuard, WebPolicy};

/// What a server is made of.
#[derive(Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one, which [`Handle::address`] tells.
    pub listen: SocketAddr,
    pub limits: Limits,
    /// Required for an address that other machines can reach.
    pub tokens: Tokens,
    /// Which hosts name the node, and which web pages may use it.
    pub web: WebPolicy,
    /// What `/readyz` asks.
    pub probes: Vec<Probe>,
    pub metrics: Metrics,
    /// The routes among them that have a short way.
    pub express: Express,
    /// The routes among them that take bodies of any length.
    pub long_bodies: LongBodies,
    /// The routes among them that tenants may use.
    pub tenant_routes: TenantRoutes,
    /// The parts' routes. `/healthz`, `/readyz` and `/metrics` are the server's own.
    pub routes: Router,
}

/// A bound server that does not accept yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Service,
    handle: Handle,
}

/// Tells about a server, whether it has begun to run or not.
#[derive(Debug, Clone)]
pub struct Handle {
    address: SocketAddr,
    metrics: HttpMetrics,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections whose requests were still running when the time for stopping was over.
    pub unfinished: usize,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{0} is reachable from other machines, and without access tokens their users could \
         use this node; set [http] tokens (or tokens_file), or listen on 127.0.0.1"
    )]
    NeedsTokens(SocketAddr),
    #[error(
        "{0} is in use by another process; stop that one, or choose another address \
         with --listen or [http] listen"
    )]
    InUse(SocketAddr),
    #[error(
        "cannot listen on {address}: {source}; choose another address with --listen or [http] listen"
    )]
    Refused { address: SocketAddr, source: io::Error },
}

impl Server {
    pub async fn bind(options: Options) -> Result<Server, BindError> {
        let Options {
            listen,
            limits,
            tokens,
            web,
            probes,
            metrics,
            express,
            long_bodies,
            tenant_routes,
            routes,
        } = options;
        if !listen.ip().is_loopback() && tokens.is_empty() {
            return Err(BindError::NeedsTokens(listen));
        }
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse(listen),
            _ => BindError::Refused { address: listen, source },
        };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;

        let http = metrics.http();
        let web = WebGuard::new(web, address.to_string(), !tokens.is_empty());
        let most = limits.max_bodies.max(usize::try_from(limits.max_body).unwrap_or(usize::MAX));
        let memory = BodyMemory::new(most);
        let door = Arc::new(Door {
            tokens,
            web,
            limits: limits.clone(),
            long_bodies,
            tenant_routes,
            memory,
            metrics: http.clone(),
        });
        let router = routes::assemble(routes, probes, metrics, Arc::clone(&door));
        let way = Arc::new(Way::new(express, door));
        let service = Service { way, router, limits, metrics: http.clone() };
        Ok(Server { listener, service, handle: Handle { address, metrics: http } })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until `shutdown` resolves, then stops accepting, finishes the running requests within
    /// `limits.stop_within`, and closes what is left.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Drained {
        let Server { listener, service, .. } = self;
        let (stop, stopping) = watch::channel(false);
        let mut accepting = Accepting::new(service, stopping);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = accepting.connections.join_next() => note_defect(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => accepting.take(stream),
                    Err(error) => accepting.pause(&error).await,
                },
            }
        }
        drop(listener);
        stop.send_replace(true);
        accepting.drain().await
    }
}

impl Handle {
    /// The address the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn open_connections(&self) -> usize {
        self.metrics.open_connections()
    }
}

/// The loop's state: the connections it has taken, and the room for more.
struct Accepting {
    service: Service,
    stopping: watch::Receiver<bool>,
    room: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    connections: JoinSet<()>,
}

impl Accepting {
    fn new(service: Service, stopping: watch::Receiver<bool>) -> Accepting {
        Accepting {
            room: Arc::new(Semaphore::new(service.limits.max_connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS_AT_ONCE)),
            connections: JoinSet::new(),
            service,
            stopping,
        }
    }

    fn take(&mut self, stream: TcpStream) {
        // Answers are small and written whole; waiting to fill a packet would only delay them. A
        // socket that cannot be told so has failed already, and its first read will say it.
        let _ = stream.set_nodelay(true);
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(place) => {
                let open = self.service.metrics.opened();
                let served = connection::serve(self.service.clone(), stream, self.stopping.clone());
                self.connections.spawn(async move {
                    served.await;
                    drop((place, open));
                });
            }
            Err(_) => self.refuse(stream),
        }
    }

    fn refuse(&mut self, stream: TcpStream) {
        self.service.metrics.refused("limit");
        if let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() {
            let max = self.service.limits.max_connections;
            self.connections.spawn(async move {
                connection::refuse(stream, max).await;
                drop(place);
            });
        }
    }

    async fn pause(&self, error: &io::Error) {
        self.service.metrics.refused("accept_failed");
        tracing::warn!(
            %error,
            "a connection could not be accepted; if this persists, raise the limit of open files"
        );
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    async fn drain(mut self) -> Drained {
        let all_ended = async {
            while let Some(ended) = self.connections.join_next().await {
                note_defect(ended);
            }
        };
        let in_time =
            tokio::time::timeout(self.service.limits.stop_within, all_ended).await.is_ok();
        let unfinished = if in_time { 0 } else { self.connections.len() };
        self.connections.shutdown().await;
        Drained { unfinished }
    }
}

fn note_defect(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(
            %error,
            "a connection's task failed; this is a defect of Consort, please report it"
        );
    }
}
