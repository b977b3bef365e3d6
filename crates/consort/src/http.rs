//! The HTTP server of a node, from its settings to its end.

use std::net::SocketAddr;
use std::time::Duration;

use consort_server::axum::Router;
use consort_server::{
    BindError, Drained, Express, Handle, Limits, LongBodies, Metrics, Probe, Server, TenantRoutes,
    WebPolicy,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::HttpConfig;

/// How long a stop waits for running requests. Roles are handed over before, which may take ten seconds
/// and a lease; all of it must fit the 30 s that container platforms wait before they kill.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(15);

/// The routes of a node, and those among them that are served in another way.
#[derive(Debug, Default)]
pub(crate) struct HttpRoutes {
    pub(crate) router: Router,
    pub(crate) express: Express,
    pub(crate) long_bodies: LongBodies,
    pub(crate) tenant_routes: TenantRoutes,
}

/// A server that runs. Dropping it stops it without waiting.
#[derive(Debug)]
pub(crate) struct Http {
    handle: Handle,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

impl Http {
    /// The server answers from here on, and says that it is not ready until the node has joined.
    pub(crate) async fn start(
        config: &HttpConfig,
        probes: Vec<Probe>,
        routes: HttpRoutes,
        metrics: Metrics,
    ) -> Result<Http, BindError> {
        let HttpRoutes { router, express, long_bodies, tenant_routes } = routes;
        let server = Server::bind(consort_server::Options {
            listen: config.listen,
            limits: limits(config),
            tokens: config.tokens.clone(),
            probes,
            metrics,
            express,
            long_bodies,
            tenant_routes,
            routes: router,
            web: WebPolicy {
                advertised: config.advertise.clone(),
                hosts: config.hosts.clone(),
                origins: config.origins.clone(),
            },
        })
        .await?;
        let handle = server.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        // Resolves when the stop is sent, and as well when the node is dropped.
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        Ok(Http { handle, stop, ended })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    /// Stops accepting, finishes the running requests within a bound, and ends.
    pub(crate) async fn stop(self) -> Drained {
        // An error means that the server has ended already, which is what was asked for.
        let _ = self.stop.send(());
        self.ended.await.unwrap_or_else(|error| {
            tracing::error!(
                %error,
                "the HTTP server's task failed; this is a defect of Consort, please report it"
            );
            Drained { unfinished: 0 }
        })
    }
}

fn limits(config: &HttpConfig) -> Limits {
    Limits {
        first_byte: config.first_byte_timeout,
        header: config.header_timeout,
        body: config.body_timeout,
        max_body: config.max_body,
        max_connections: config.max_connections,
        stop_within: REQUESTS_END_WITHIN,
        ..Limits::default()
    }
}
