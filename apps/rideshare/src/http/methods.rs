//! Methods that a path does not know, and paths that nobody knows.

use axum::routing::MethodRouter;

use super::problem::Problem;

/// The routes of one path, which knows these methods and answers 405 to every other one. axum would answer `HEAD`
/// wherever there is a `GET`.
pub(crate) fn only<S>(allow: &'static str, routes: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let refuse = move || async move { Problem::method_not_allowed(allow) };
    let routes = if allow.contains("GET") { routes.head(refuse) } else { routes };
    routes.fallback(refuse)
}

/// Answers on every path that has no routes.
pub(crate) async fn not_found() -> Problem {
    Problem::not_found()
}
