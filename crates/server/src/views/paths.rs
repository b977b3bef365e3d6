//! The paths of declared routes, as the router takes them.

use std::collections::BTreeMap;

use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use consort_views::Route;

use crate::problem::Problem;
use crate::problems;

/// Paths by their shape. The router knows one path of each shape: two routes that name their fields
/// differently share it, and take the fields by their order.
#[derive(Debug, Default)]
pub struct Paths(BTreeMap<String, String>);

impl Paths {
    /// The path to register this route under.
    pub fn of(&mut self, route: &Route) -> &str {
        let parts = route.path.split('/');
        let shape: Vec<&str> =
            parts.map(|part| if part.starts_with('{') { "{}" } else { part }).collect();
        self.0.entry(shape.join("/")).or_insert_with(|| route.path.clone())
    }
}

impl Paths {
    /// All that are registered.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.values().cloned().collect()
    }
}

/// The fields of a path; a problem if one is no text.
pub(crate) fn path_fields(
    given: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<RawPathParams, Problem> {
    given.map_err(|rejection| {
        let detail = format!("the path cannot be read: {rejection}");
        Problem::new(problems::PATH, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_one_shape_share_a_path() {
        let mut paths = Paths::default();
        let route = |text: &str| text.parse::<Route>().unwrap();
        assert_eq!(paths.of(&route("POST /a/{x}/b")), "/a/{x}/b");
        assert_eq!(paths.of(&route("GET /a/{y}/b")), "/a/{x}/b");
        assert_eq!(paths.of(&route("GET /a/{y}/c")), "/a/{y}/c");
    }
}
