//! Routes of streams and views: each must be one of its own. The server's router would panic on two that
//! are the same, so that is found out here, with the same matcher.

use std::collections::BTreeMap;
use std::ops::Range;

use consort_views::{Method, Route};

use super::problem::Problem;
use super::reader::{Reader, Spanned};
use super::spot::Spots;

/// What the server's own paths begin with, today's and those to come.
const RESERVED: [&str; 16] = [
    "healthz", "readyz", "metrics", "cluster", "streams", "views", "feeds", "sinks", "write",
    "query", "ping", "api", "once", "glue", "db", "console",
];

/// All routes of a config.
#[derive(Default)]
pub(super) struct Routes(Vec<Declared>);

struct Declared {
    route: Route,
    span: Range<usize>,
    /// The table in which it stands.
    table: String,
}

/// Reads a route of streams (`POST`) or views (`GET`).
pub(super) fn read_route(
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
    if RESERVED.contains(&first) {
        let wrong = format!("cannot begin with '/{first}': such paths are Consort's own");
        reader.wrong("route", text.span, wrong);
        return None;
    }
    Some(route)
}

impl Routes {
    pub(super) fn add(&mut self, reader: &Reader<'_>, route: &Route, span: &Range<usize>) {
        let table = reader.table().to_owned();
        self.0.push(Declared { route: route.clone(), span: span.clone(), table });
    }

    /// Tells which routes are in the way of one before them.
    pub(super) fn check(mut self, spots: &Spots<'_>, problems: &mut Vec<Problem>) {
        self.0.sort_by_key(|declared| declared.span.start);
        let mut taken: BTreeMap<(&str, String), &Declared> = BTreeMap::new();
        let mut router = matchit::Router::new();
        for declared in &self.0 {
            let Declared { route, span, table } = declared;
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
