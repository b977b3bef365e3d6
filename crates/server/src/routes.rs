//! Puts the node's routes together: what was handed in, health, metrics, and the answers for
//! everything else.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;

use crate::door::{self, Door};
use crate::health::{self, Probe};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::problems;

/// How much of an unknown path an answer repeats.
const PATH_SHOWN: usize = 200;

pub(crate) fn assemble(
    routes: Router,
    probes: Vec<Probe>,
    metrics: Metrics,
    door: Arc<Door>,
) -> Router {
    // The fallback for methods reaches only routes that are there already, and layers only what
    // stands above them.
    routes
        .merge(health::routes(probes))
        .merge(metrics.routes())
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(door, door::pass))
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(
        problems::NOT_FOUND,
        format!("nothing is served at '{}'; GET / lists what this node serves", shown(&uri)),
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let detail =
        format!("'{}' does not take {method}; the header 'Allow' lists what it takes", shown(&uri));
    Problem::new(problems::METHOD_NOT_ALLOWED, detail)
}

fn shown(uri: &Uri) -> String {
    let path = uri.path();
    match path.char_indices().nth(PATH_SHOWN) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}
