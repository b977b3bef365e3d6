//! Routes whose handlers take a body in bounded pieces, so that it may be of any length. The parts declare them: the
//! door must know before a handler reads the body.

use std::collections::BTreeMap;

use axum::http::HeaderMap;

/// Tells by a request's headers whether its handler takes the body in pieces.
pub type TakesPieces = fn(&HeaderMap) -> bool;

/// The routes of a node that take long bodies, by their paths with the fields in braces. All other bodies are
/// bounded by [`Limits::max_body`](crate::Limits::max_body).
#[derive(Clone, Debug, Default)]
pub struct LongBodies(BTreeMap<String, TakesPieces>);

impl LongBodies {
    /// The same with one more route. Its handler must count what it keeps of a body.
    pub fn with(mut self, path: impl Into<String>, takes_pieces: TakesPieces) -> LongBodies {
        self.0.insert(path.into(), takes_pieces);
        self
    }

    /// Adds the routes of another part.
    pub fn merge(&mut self, other: LongBodies) {
        self.0.extend(other.0);
    }

    /// Whether a request on this route may have a body of any length.
    pub(crate) fn allow(&self, route: &str, headers: &HeaderMap) -> bool {
        self.0.get(route).is_some_and(|takes_pieces| takes_pieces(headers))
    }
}
