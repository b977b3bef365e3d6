//! The parts of a node: one file each, and the one list of them.
//!
//! A part declares what it brings: its feeds, its roles and their work, its routes and metrics, its sources besides
//! HTTP, and how it stops. `node.rs` loops over the list and knows none of them.

mod db;
mod feeds;
mod glue;
#[cfg(test)]
mod guestbook;
mod once;
mod partition;
mod streams;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::{Agreed, Agreement, Part as Workload};
use consort_engines::OpenError;
use consort_feeds::FeedSpec;
use consort_server::axum::Router;
use consort_server::home::Link;
use consort_server::{Express, LongBodies, Metrics, Resolver, TenantRoutes};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::config::{Config, PartConfig, SecretUrl};
use crate::services::Services;

pub(crate) use partition::PartitionResolver;

/// The parts of every node.
pub fn standard() -> Vec<Arc<dyn Part>> {
    vec![
        Arc::new(streams::Streams),
        Arc::new(feeds::Feeds),
        Arc::new(glue::Glue),
        Arc::new(once::Once),
        Arc::new(db::Db),
        #[cfg(test)]
        Arc::new(guestbook::Guestbook),
    ]
}

/// What the parts of every node hand to the config.
pub(crate) fn configs() -> Vec<&'static PartConfig> {
    standard().iter().map(|part| part.config()).collect()
}

/// One part of the product, before a node runs it.
#[async_trait]
pub trait Part: Send + Sync + fmt::Debug {
    /// Its tables, its settings and its reserved paths.
    fn config(&self) -> &'static PartConfig;

    /// Adds the definitions that all nodes of a cluster must share.
    fn define(&self, _config: &Config, agreement: Agreement) -> Agreement {
        agreement
    }

    /// The feeds that the part fills.
    fn feeds(&self, _config: &Config) -> Result<Vec<FeedSpec>, PartError> {
        Ok(Vec::new())
    }

    /// Opens the part on an open engine. It takes no input and does no work yet.
    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError>;
}

/// What a part is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The node's settings.
    pub config: &'a Config,
    /// What every part builds on.
    pub services: &'a Services,
    /// The definitions of all parts, as all nodes of the cluster agree on them.
    pub agreed: &'a Agreed,
    /// The feeds that all parts fill.
    pub feeds: &'a [FeedSpec],
    /// Where the part registers its metrics.
    pub metrics: &'a mut Metrics,
}

/// What an open part brings.
#[derive(Debug)]
pub struct OpenPart {
    /// Its roles and their work.
    pub workloads: Vec<Arc<dyn Workload>>,
    /// How its stopped roles go on.
    pub resolver: Option<Arc<dyn Resolver>>,
    /// Its routes.
    pub routes: Router,
    /// Those of its routes that have the express way.
    pub express: Express,
    /// Those of its routes that take bodies of any length.
    pub long_bodies: LongBodies,
    /// Those of its routes that tenants may use.
    pub tenant_routes: TenantRoutes,
    /// Links to its pages, for `GET /`.
    pub links: Vec<Link>,
    /// What runs while the node runs.
    pub running: Box<dyn Running>,
}

impl Default for OpenPart {
    fn default() -> OpenPart {
        OpenPart {
            workloads: Vec::new(),
            resolver: None,
            routes: Router::new(),
            express: Express::default(),
            long_bodies: LongBodies::default(),
            tenant_routes: TenantRoutes::default(),
            links: Vec::new(),
            running: Box::new(Idle),
        }
    }
}

/// The phases of a node's stop, in their order. All parts finish one phase before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopPhase {
    /// Take no more input besides HTTP, and append what has arrived. Roles are handed over afterwards.
    Sources,
    /// End the subscribers: the server waits for their requests.
    Subscribers,
    /// Release what is still being computed, for other nodes to take over.
    Computations,
}

/// What of a part runs besides its roles. Dropping it ends it without waiting, as a crash would.
pub trait Running: Send + Sync + fmt::Debug {
    /// The node has joined its cluster: sources begin to read.
    fn joined(&mut self) {}

    /// Waits until the part can do its work. The future may be dropped at any time.
    fn ready(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    /// One phase of the node's stop. The future may be dropped if the engine fails meanwhile.
    fn stop(&mut self, _phase: StopPhase) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    /// Lines for the operator about where the part takes input.
    fn report(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Nothing runs besides roles and routes.
#[derive(Debug)]
struct Idle;

impl Running for Idle {}

/// A link for `GET /`.
fn link(path: impl Into<String>, about: &str) -> Link {
    Link { path: path.into(), about: about.to_owned() }
}

/// Why a part could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A server that the part needs cannot be used.
    #[error("the engine {url} could not be opened: {source}")]
    Engine {
        /// The server's address.
        url: SecretUrl,
        /// What went wrong.
        source: OpenError,
    },
    /// Anything else, in words for the operator.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl PartError {
    pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> PartError {
        PartError::Failed(Box::new(error))
    }
}

/// A part that only brings roles, for programs with work of their own.
pub struct RolesPart(MakeWorkloads);

/// Such a part has no settings.
static NO_CONFIG: PartConfig = PartConfig::new("roles");

type MakeWorkloads = Box<dyn Fn(&Services) -> Vec<Arc<dyn Workload>> + Send + Sync>;

impl RolesPart {
    /// The part whose workloads are made when the engine is open.
    pub fn new(
        workloads: impl Fn(&Services) -> Vec<Arc<dyn Workload>> + Send + Sync + 'static,
    ) -> RolesPart {
        RolesPart(Box::new(workloads))
    }
}

#[async_trait]
impl Part for RolesPart {
    fn config(&self) -> &'static PartConfig {
        &NO_CONFIG
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        Ok(OpenPart { workloads: (self.0)(opening.services), ..OpenPart::default() })
    }
}

impl fmt::Debug for RolesPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolesPart").finish_non_exhaustive()
    }
}
