//! A segment of a path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::problem::Problem;

/// The one variable segment of a path, without its percent code.
pub(crate) struct PathSegment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathSegment, Problem> {
        let segment = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) =
            segment.map_err(|_| Problem::bad_request("the path is not UTF-8 in percent code"))?;
        Ok(PathSegment(text))
    }
}
