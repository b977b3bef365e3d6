//! The parameters of requests: known by name, each at most once, and read as what they mean.

use std::collections::BTreeMap;
use std::str::FromStr;

use consort_glue::reading::PAGE_ITEMS;

use crate::problem::Problem;
use crate::problems;

/// Items of a page, unless the request says how many.
const PAGE_DEFAULT: usize = 100;

/// The parameters of one request.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads a query. A parameter that is not `known` is most likely a slip, which would change what the request means.
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Parameters, Problem> {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let shown: String = name.chars().take(100).collect();
                let there = match known {
                    [] => "it takes none".to_owned(),
                    known => format!("it takes '{}'", known.join("', '")),
                };
                return Err(wrong(format!("this request has no parameter '{shown}'; {there}")));
            }
            if parameters.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(wrong(format!("the parameter '{name}' came twice")));
            }
        }
        Ok(Parameters(parameters))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(refused(name, "must be true or false", other)),
        }
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
            _ => Err(refused(name, "must be a whole number", text)),
        }
    }

    /// How many items a page has.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        match self.number("limit")? {
            None => Ok(PAGE_DEFAULT),
            Some(limit) if (1..=PAGE_ITEMS).contains(&limit) => Ok(limit),
            Some(other) => {
                let wanted = format!("must be from 1 to {PAGE_ITEMS}");
                Err(refused("limit", &wanted, &other.to_string()))
            }
        }
    }
}

pub(super) fn refused(name: &str, wanted: &str, given: &str) -> Problem {
    let given: String = given.chars().take(100).collect();
    wrong(format!("the parameter '{name}' {wanted}, not '{given}'"))
}

fn wrong(detail: String) -> Problem {
    Problem::new(problems::INVALID_QUERY, detail)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn slips_are_told_with_what_the_request_takes() {
        for (query, told) in [
            ("limt=1", "no parameter 'limt'; it takes 'limit', 'flag'"),
            ("limit=1&limit=2", "'limit' came twice"),
            ("limit=0", "must be from 1 to 1000, not '0'"),
            ("limit=+1", "must be a whole number"),
            ("flag=yes", "must be true or false, not 'yes'"),
        ] {
            let read = Parameters::read(Some(query), &["limit", "flag"]);
            let problem = read.and_then(|parameters| {
                parameters.limit()?;
                parameters.flag("flag")
            });
            let problem = problem.unwrap_err();
            assert_eq!(problem.status(), StatusCode::BAD_REQUEST);
            assert!(problem.detail().contains(told), "{query}: {}", problem.detail());
        }
        let none = Parameters::read(None, &[]).unwrap();
        assert_eq!((none.limit().unwrap(), none.flag("x").unwrap()), (PAGE_DEFAULT, false));
    }
}
