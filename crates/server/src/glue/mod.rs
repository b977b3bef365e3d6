//! Collections over HTTP: pieces come in, documents and their histories go out.
//!
//! The ingress refuses bodies, and the log judges pieces: before its append a piece is refused only for what it is by
//! itself, for its tenant's quota and for overload. All else is decided by the fold, in the order of the log, and heard
//! from the outcome feed.

mod applied;
mod bulk;
mod bulk_answer;
mod bulk_line;
mod conditions;
mod decisions;
mod diff;
mod documents;
mod dry_run;
mod faults;
mod line_ranges;
mod listing;
mod metrics;
mod open;
mod outcome_answers;
mod overview;
mod parameters;
mod piece_request;
mod piece_sender;
mod pieces;
mod queue;
mod queue_admission;
mod quota;
mod quotas;
mod rejects;
mod versions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, header};
use axum::routing::{get, post, put};
use consort_cluster::{Appender, Runtime};
use consort_feeds::Subscription;
use consort_glue::Collection;
use consort_kernel::{Log, Name, NameError, Store};

use crate::cluster::Cluster;
use crate::gate::GateKind;
use crate::ingress::Ingresses;
use crate::long_bodies::LongBodies;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::{TenantName, TenantRoutes};
pub use dry_run::PlanOf;
pub use metrics::UNDECLARED_TENANT;
use open::OpenCollection;
pub use queue::PieceJudge;
pub use queue_admission::PieceAdmission;

/// `live`, `halted` or `releasing`.
const STATE: HeaderName = HeaderName::from_static("consort-state");

/// The piece came before, and this is its first outcome.
const REPEAT: HeaderName = HeaderName::from_static("consort-repeat");

/// What a reader waits for.
const AFTER: HeaderName = HeaderName::from_static("consort-after");

/// A cursor of the feed that was taken before a list was read.
const CURSOR: HeaderName = HeaderName::from_static("consort-cursor");

const COLLECTION: &str = "/glue/{collection}";
const DOCUMENT: &str = "/glue/{collection}/{id}";

/// What the collections need.
#[derive(Debug)]
pub struct Options<'a> {
    /// The collections.
    pub collections: Vec<CollectionOptions>,
    /// The declared tenants: metrics show the others together.
    pub tenants: Vec<TenantName>,
    /// Where the collections get their ingress.
    pub ingresses: &'a Ingresses,
    /// Where documents are.
    pub store: Arc<dyn Store>,
    /// Where pieces are.
    pub log: Arc<dyn Log>,
    /// Timers, and the tasks of the quotas and outcomes.
    pub runtime: Arc<dyn Runtime>,
    /// Where bodies that are not small are checked, and old versions are made: threads that other requests do not share.
    pub intake: Arc<dyn Runtime>,
    /// Appends the words of operators.
    pub appender: Arc<Appender>,
    /// How many nodes share the quotas.
    pub cluster: Cluster,
    /// The pipeline that folds the collections.
    pub pipeline: Name,
    /// Where the counters are shown.
    pub metrics: &'a mut Metrics,
}

/// One collection.
#[derive(Debug)]
pub struct CollectionOptions {
    /// Its definition.
    pub definition: Arc<Collection>,
    /// How its gate meets overload.
    pub gate: GateKind,
    /// Its feed, for cursors of lists.
    pub feed: Subscription,
    /// What its pieces do, for dry runs.
    pub plan: PlanOf,
    /// The queues that fill it.
    pub queues: Vec<String>,
}

/// The collections over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Glue(Arc<Shared>);

struct Shared {
    collections: BTreeMap<String, Arc<OpenCollection>>,
    tenants: Vec<TenantName>,
}

impl Glue {
    /// Opens the collections.
    ///
    /// # Errors
    /// If the name of a collection is none.
    pub fn new(mut options: Options<'_>) -> Result<Glue, NameError> {
        let mut collections = BTreeMap::new();
        for collection in std::mem::take(&mut options.collections) {
            let name = collection.definition.name.clone();
            collections.insert(name, Arc::new(OpenCollection::open(collection, &options)?));
        }
        let glue = Glue(Arc::new(Shared { collections, tenants: options.tenants.clone() }));
        metrics::register(options.metrics, &glue);
        Ok(glue)
    }

    /// `/glue` and what is below it.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/glue", get(overview::all))
            .route(COLLECTION, get(listing::list).post(bulk::post))
            .route("/glue/{collection}/rejects", get(rejects::list).merge(reserved()))
            .route(
                DOCUMENT,
                get(documents::read).put(pieces::put).patch(pieces::patch).delete(pieces::delete),
            )
            .route("/glue/{collection}/{id}/versions", get(versions::list))
            .route("/glue/{collection}/{id}/diff", get(diff::between))
            .route("/glue/{collection}/{id}/retry", post(decisions::retry))
            .route("/glue/{collection}/{id}/discard", post(decisions::discard))
            .with_state(self.clone())
    }

    /// The routes that tenants may use: all of them keep each tenant to its own documents.
    pub fn tenant_routes(&self) -> TenantRoutes {
        let below = ["rejects", "{id}", "{id}/versions", "{id}/diff", "{id}/retry", "{id}/discard"];
        let below = below.iter().map(|path| format!("{COLLECTION}/{path}"));
        let routes = TenantRoutes::default().with("/glue").with(COLLECTION);
        below.fold(routes, TenantRoutes::with)
    }

    /// The routes that take pieces of any number.
    pub fn long_bodies(&self) -> LongBodies {
        LongBodies::default().with(COLLECTION, is_bulk)
    }

    /// What a queue needs to fill a collection with the pieces of a tenant.
    pub fn judge(&self, collection: &str, tenant: &TenantName) -> Option<PieceJudge> {
        let collection = self.0.collections.get(collection)?;
        Some(PieceJudge::new(Arc::clone(collection), tenant.clone()))
    }

    /// Admits the pieces of a queue by the quota of its tenant.
    pub fn admission(&self, collection: &str, tenant: &TenantName) -> Option<PieceAdmission> {
        let collection = self.0.collections.get(collection)?;
        Some(PieceAdmission::new(Arc::clone(collection), tenant.clone()))
    }

    fn collection(&self, name: &str) -> Result<&Arc<OpenCollection>, Problem> {
        self.0.collections.get(name).ok_or_else(|| {
            let known: Vec<_> = self.0.collections.keys().map(|name| format!("'{name}'")).collect();
            let shown: String = name.chars().take(100).collect();
            let detail = match known.is_empty() {
                true => {
                    format!("there is no collection '{shown}': this node's config declares none")
                }
                false => {
                    format!("there is no collection '{shown}'; there are {}", known.join(", "))
                }
            };
            Problem::new(problems::NO_SUCH_COLLECTION, detail)
        })
    }
}

/// The reject list has the place of a document with that id.
fn reserved() -> axum::routing::MethodRouter<Glue> {
    async fn refuse() -> Problem {
        let detail =
            "the id 'rejects' is reserved: GET /glue/COLLECTION/rejects is the reject list";
        Problem::new(problems::INVALID_ID, detail)
    }
    put(refuse).patch(refuse).delete(refuse)
}

fn is_bulk(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|given| {
        let name = given.split(';').next().unwrap_or_default().trim();
        bulk::TYPES.iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}

impl fmt::Debug for Glue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.collections.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
