//! Who carries out an operator's decision on a role that stopped for a loss: the part that brings it.

use std::fmt;
use std::sync::Arc;

use consort_cluster::Role;
use consort_cluster::worker::{ResolveError, Resume};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;

/// Knows which pipelines a role has, and makes them go on.
pub trait Resolver: Send + Sync + fmt::Debug {
    /// Makes `role` go on at `from`; `None` if it is no role of this one's. Nothing is done before the
    /// future is awaited; should it be dropped on the way, the same call can be made again.
    fn resolve(&self, role: &Role, from: Resume) -> Option<Resolving>;
}

/// A decision on its way.
pub type Resolving = BoxFuture<'static, Result<Resolved, ResolveError>>;

/// A decision that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The number of decisions so far.
    pub era: u64,
    /// The first frame that is applied.
    pub offset: u64,
}

/// The resolvers of a node. Parts add theirs; the first that knows a role has it. All clones are of the
/// same list.
#[derive(Clone, Debug, Default)]
pub struct Resolvers(Arc<Mutex<Vec<Arc<dyn Resolver>>>>);

impl Resolvers {
    /// Adds one behind those that are there.
    pub fn add(&self, resolver: Arc<dyn Resolver>) {
        self.0.lock().push(resolver);
    }

    pub(super) fn resolve(&self, role: &Role, from: Resume) -> Option<Resolving> {
        self.0.lock().iter().find_map(|resolver| resolver.resolve(role, from))
    }
}
