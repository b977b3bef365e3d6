//! The views over HTTP: queries by name and by the views' own routes, and how far they are behind.

mod answers;
mod metrics;
mod paths;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use consort_cluster::Runtime;
use consort_kernel::Store;
use consort_views::{Definitions, View};

use crate::ingress::Ingresses;
use crate::metrics::Metrics;
pub use paths::Paths;
pub(crate) use paths::path_fields;

/// How long a query waits for its position: as long as the slowest answer that is still worth having.
pub(crate) const AFTER_WITHIN: Duration = Duration::from_secs(10);

/// What the queries need.
#[derive(Debug)]
pub struct Options<'a> {
    /// The views.
    pub definitions: Arc<Definitions>,
    /// Where they are kept.
    pub store: Arc<dyn Store>,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
    /// Which know how far each stream is behind.
    pub ingresses: Ingresses,
    /// Where the figures of the views are shown.
    pub metrics: &'a mut Metrics,
}

/// The views over HTTP; all clones are of the same ones.
#[derive(Clone)]
pub struct Views(Arc<Shared>);

struct Shared {
    views: BTreeMap<String, Arc<View>>,
    definitions: Arc<Definitions>,
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    ingresses: Ingresses,
}

impl Views {
    /// The queries of these views.
    pub fn new(options: Options<'_>) -> Views {
        let Options { definitions, store, runtime, ingresses, metrics } = options;
        let views = definitions.views.iter().map(|view| (view.name.to_string(), Arc::clone(view)));
        let views = views.collect();
        metrics::register(metrics, &definitions, &store, &ingresses);
        Views(Arc::new(Shared { views, definitions, store, runtime, ingresses }))
    }

    /// `/views`, what is below it, and the views' own routes.
    pub fn routes(&self, paths: &mut Paths) -> Router {
        let mut routes = Router::new()
            .route("/views", get(answers::list))
            .route("/views/{view}", get(answers::by_name))
            .route("/views/{view}/rejects", get(answers::rejects))
            .route("/views/{view}/late", get(answers::late))
            .route("/streams/{stream}/rejects", get(answers::refused_messages))
            .with_state(self.clone());
        for view in self.0.views.values() {
            for (at, route) in view.routes.iter().enumerate() {
                let state = answers::Routed { views: self.clone(), view: Arc::clone(view), at };
                routes = routes.route(paths.of(route), get(answers::by_route).with_state(state));
            }
        }
        routes
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.views.keys()).finish()
    }
}
