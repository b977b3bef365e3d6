//! Routes that a config declares. Each must differ from all others: the server's router would panic on two that are
//! the same, so the same matcher checks them here.

use std::collections::BTreeMap;
use std::ops::Range;

use consort_views::{Method, Route};

use super::catalog::Catalog;
use super::problem::Problem;
use super::reader::{Reader, Spanned};
use super::spot::Spots;

/// All routes of a config.
pub(crate) struct Routes {
    /// Knows which paths are the server's own and those of parts.
    catalog: Catalog,
    declared: Vec<DeclaredRoute>,
}

struct DeclaredRoute {
    route: Route,
    span: Range<usize>,
    /// The table in which it stands.
    table: String,
}

impl Routes {
    pub(crate) fn new(catalog: &Catalog) -> Routes {
        Routes { catalog: catalog.clone(), declared: Vec::new() }
    }

    /// Reads a route of a stream (`POST`) or a view (`GET`).
    pub(crate) fn read(
        &self,
        reader: &mut Reader<'_>,
        text: &Spanned<'_>,
        method: Method,
    ) -> Option<Route> {
        let route: Route = match text.text.parse() {
            Ok(route) => route,
            Err(error) => {
                reader.explain("route", text.span, error.to_string());
                return None;
            }
        };
        if route.method != method {
            let what = match method {
                Method::Post => "a stream takes events",
                Method::Get => "a view is asked",
            };
            let (wanted, given) = (method.as_str(), route.method.as_str());
            let wrong = format!("must begin with {wanted}, not {given}: {what}");
            reader.wrong("route", text.span, wrong);
            return None;
        }
        let first = route.path.split('/').nth(1).unwrap_or_default();
        if self.catalog.reserves(first) {
            let wrong = format!("cannot begin with '/{first}': such paths are Consort's own");
            reader.wrong("route", text.span, wrong);
            return None;
        }
        Some(route)
    }

    pub(crate) fn add(&mut self, reader: &Reader<'_>, route: &Route, span: &Range<usize>) {
        let table = reader.table().to_owned();
        self.declared.push(DeclaredRoute { route: route.clone(), span: span.clone(), table });
    }

    /// Tells which routes conflict with one before them.
    pub(crate) fn check(mut self, spots: &Spots<'_>, problems: &mut Vec<Problem>) {
        self.declared.sort_by_key(|declared| declared.span.start);
        let mut taken: BTreeMap<(&str, String), &DeclaredRoute> = BTreeMap::new();
        let mut router = matchit::Router::new();
        for declared in &self.declared {
            let DeclaredRoute { route, span, table } = declared;
            let mut tell = |reason: String| {
                let message = format!("'route' in [{table}]: {reason}");
                problems.push(Problem::new(spots.place(span), message));
            };
            let shape = shape(route);
            if let Some(first) = taken.get(&(route.method.as_str(), shape.clone())) {
                let same = if first.route.path == route.path { "" } else { ", which is the same" };
                tell(format!("[{}] has '{}' already{same}", first.table, first.route));
                continue;
            }
            let known = taken.keys().any(|(_, known)| *known == shape);
            taken.insert((route.method.as_str(), shape), declared);
            // The server takes all routes of a shape under the path of one of them.
            if !known && let Err(error) = router.insert(route.path.clone(), ()) {
                tell(format!("'{route}' and another route are in each other's way: {error}"));
            }
        }
    }
}

/// The path with numbers for names: paths that differ only in the names of their fields are the same.
fn shape(route: &Route) -> String {
    let mut fields = 0;
    let parts = route.path.split('/').map(|part| {
        if !part.starts_with('{') {
            return part.to_owned();
        }
        fields += 1;
        format!("{{{fields}}}")
    });
    parts.collect::<Vec<_>>().join("/")
}
