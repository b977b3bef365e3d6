//! Where a space asks: a URL with places for the request's path and query.
//!
//! Scheme, host and port are the config's alone. What a request brings is put into its place in canonical form,
//! in which every byte but letters, digits, `-`, `.`, `_` and `~` is in percent code: there is nothing in it that
//! could end the place.

use std::fmt;

use axum::http::Uri;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use url::Url;

use super::asked::Asked;

/// Stand for the places while the URL is parsed; no host, port or scheme can have them.
const PATH_MARK: &str = "~consort~path~";
const QUERY_MARK: &str = "~consort~query~";

/// `http://host/items/{path}?{query}`
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    scheme: Scheme,
    authority: Authority,
    path: Part,
    query: Option<Part>,
}

/// A text that may have a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Fixed(String),
    With { before: String, after: String },
}

/// Why a request does not fit a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It has a path, and the template has no place for one.
    Path,
    /// The same of its query.
    Query,
}

impl Template {
    /// Reads it. The error says what it must be, as the end of a sentence, and never repeats it.
    pub fn parse(text: &str) -> Result<Template, String> {
        for (at, _) in text.match_indices('{') {
            let name = text[at + 1..].split_once('}').map(|(name, _)| name);
            if !name.is_some_and(|name| ["path", "query"].contains(&name)) {
                let name = name.map_or(String::new(), |name| format!(" {{{name}}}"));
                return Err(format!(
                    "has an unknown place{name}; there are {{path}} and {{query}}"
                ));
            }
        }
        let marked = text.replace("{path}", PATH_MARK).replace("{query}", QUERY_MARK);
        let wanted = "must be an http:// or https:// address, such as \"http://127.0.0.1:9000/items/{path}?{query}\"";
        let url = Url::parse(&marked).map_err(|_| wanted.to_owned())?;
        let scheme = match url.scheme() {
            "http" => Scheme::HTTP,
            "https" => Scheme::HTTPS,
            _ => return Err(wanted.into()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must be without user and password".into());
        }
        if url.fragment().is_some() {
            return Err("must be without '#': what follows it is never sent".into());
        }
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        if authority.contains('~') {
            return Err("must have {path} and {query} behind the host".into());
        }
        let authority = authority.parse().map_err(|_| wanted.to_owned())?;
        let path = part(url.path(), PATH_MARK, QUERY_MARK, "/", "/").map_err(|()| {
            "must have {path} once, between '/' and '/', '?' or its end, and {query} behind '?'"
        })?;
        let query = url.query().map(|query| part(query, QUERY_MARK, PATH_MARK, "&", "&"));
        let query = query.transpose().map_err(
            |()| "must have {query} once, between '?' or '&' and '&' or its end, and {path} before '?'",
        )?;
        Ok(Template { scheme, authority, path, query })
    }

    /// Scheme, host and port: what may be shown of it.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Whether there is a place for everything that the request brings.
    pub(super) fn fits(&self, asked: &Asked) -> Result<(), Misfit> {
        if !asked.path.is_empty() && !self.path.has_place() {
            return Err(Misfit::Path);
        }
        if !asked.query.is_empty() && !self.query.as_ref().is_some_and(Part::has_place) {
            return Err(Misfit::Query);
        }
        Ok(())
    }

    /// Where to ask for a request that fits.
    pub(super) fn fill(&self, path: &str, query: &str) -> Result<Uri, String> {
        let mut target = String::new();
        match &self.path {
            Part::Fixed(fixed) => target.push_str(fixed),
            Part::With { before, after } => target.extend([before, path, after.as_str()]),
        }
        let query = match &self.query {
            None => String::new(),
            Some(Part::Fixed(fixed)) => fixed.clone(),
            // Without a query its place goes, and an '&' with it.
            Some(Part::With { before, after }) if query.is_empty() => {
                let parts = [before.trim_end_matches('&'), after.trim_start_matches('&')];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&")
            }
            Some(Part::With { before, after }) => format!("{before}{query}{after}"),
        };
        if !query.is_empty() {
            target.push('?');
            target.push_str(&query);
        }
        let path = PathAndQuery::try_from(target)
            .map_err(|error| format!("the request cannot be put into the address: {error}"))?;
        let mut parts = axum::http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|error| error.to_string())
    }
}

impl Part {
    fn has_place(&self) -> bool {
        matches!(self, Part::With { .. })
    }
}

/// Splits a text at its mark, which must stand alone between `left` and `right` or the ends; the text may not have
/// the `other` mark.
fn part(text: &str, mark: &str, other: &str, left: &str, right: &str) -> Result<Part, ()> {
    if text.contains(other) {
        return Err(());
    }
    let Some((before, after)) = text.split_once(mark) else { return Ok(Part::Fixed(text.into())) };
    let alone = (before.is_empty() || before.ends_with(left))
        && (after.is_empty() || after.starts_with(right))
        && !after.contains(mark);
    match alone {
        true => Ok(Part::With { before: before.into(), after: after.into() }),
        false => Err(()),
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, part: &Part, place: &str| match part {
            Part::Fixed(fixed) => f.write_str(fixed),
            Part::With { before, after } => write!(f, "{before}{place}{after}"),
        };
        f.write_str(&self.origin())?;
        write(f, &self.path, "{path}")?;
        match &self.query {
            Some(query) => {
                f.write_str("?")?;
                write(f, query, "{query}")
            }
            None => Ok(()),
        }
    }
}

/// A query may hold a key of the upstream's, so it is left out.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, path: &str, query: &str) -> String {
        Template::parse(template).unwrap().fill(path, query).unwrap().to_string()
    }

    #[test]
    fn path_and_query_are_put_into_their_places() {
        let plain = "http://h:9/items/{path}?{query}";
        for (template, path, query, expected) in [
            (plain, "a/b", "x=1&y=2", "http://h:9/items/a/b?x=1&y=2"),
            (plain, "a", "", "http://h:9/items/a"),
            (plain, "", "", "http://h:9/items/"),
            ("https://h/{path}/full?k=1&{query}&z=2", "a", "q=1", "https://h/a/full?k=1&q=1&z=2"),
            ("https://h/{path}/full?k=1&{query}&z=2", "a", "", "https://h/a/full?k=1&z=2"),
            ("http://h/{path}?k=1&{query}", "a", "", "http://h/a?k=1"),
            ("http://h/fixed?k=1", "", "", "http://h/fixed?k=1"),
            ("http://h/fixed", "", "", "http://h/fixed"),
            ("http://[::1]:80/{path}", "a", "", "http://[::1]/a"),
        ] {
            assert_eq!(filled(template, path, query), expected, "{template}");
        }
    }

    #[test]
    fn a_template_is_an_http_address_with_places_behind_its_host() {
        for (template, words) in [
            ("ftp://h/{path}", "http:// or https://"),
            ("h/{path}", "http:// or https://"),
            ("/items/{path}", "http:// or https://"),
            ("http://{path}/", "behind the host"),
            ("http://h{path}/", "behind the host"),
            ("http://h.{query}/", "behind the host"),
            ("http://u:p@h/{path}", "without user and password"),
            ("http://{path}@h/", "without user and password"),
            ("http://h/{path}#x", "without '#'"),
            ("http://h/x{path}", "{path} once"),
            ("http://h/{path}x", "{path} once"),
            ("http://h/{path}/{path}", "{path} once"),
            ("http://h/{query}", "{query} behind '?'"),
            ("http://h/{path}?a={query}", "{query} once"),
            ("http://h/{path}?{query}&{query}", "{query} once"),
            ("http://h/?{path}", "{path} before '?'"),
            ("http://h/{pth}", "unknown place {pth}; there are"),
            ("http://h/{path", "unknown place; there are"),
        ] {
            let reason = Template::parse(template).unwrap_err();
            assert!(reason.contains(words), "{template}: {reason}");
        }
    }

    #[test]
    fn a_request_fits_only_where_there_is_a_place_for_it() {
        let asked = |path: &str, query: &str| Asked::of(path, query).unwrap();
        let fixed = Template::parse("http://h/list").unwrap();
        assert_eq!(fixed.fits(&asked("", "")), Ok(()));
        assert_eq!(fixed.fits(&asked("", "position=1")), Ok(()));
        assert_eq!(fixed.fits(&asked("a", "")), Err(Misfit::Path));
        assert_eq!(fixed.fits(&asked("", "a=1")), Err(Misfit::Query));
        let path = Template::parse("http://h/{path}?k=1").unwrap();
        assert_eq!(path.fits(&asked("a", "")), Ok(()));
        assert_eq!(path.fits(&asked("a", "b=1")), Err(Misfit::Query));
    }

    #[test]
    fn what_is_shown_for_debugging_has_no_query() {
        let template = Template::parse("http://h/a?key=s3cret&{query}").unwrap();
        assert!(!format!("{template:?}").contains("s3cret"));
    }
}
