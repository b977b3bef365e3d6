//! What a subscriber asks for: the parameters of `GET /feeds/{path}`.

use std::time::Duration;

use axum::http::HeaderMap;
use consort_feeds::{FeedSelection, FeedSpec, NoSubjects, SendMode, Subject};

use super::answers::short;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::{Caller, TenantScope};

/// Changes in a page, unless it is said how many, and at most.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 1_000;

/// The longest wait for a change, in seconds: below the time after which most proxies give up.
const WAIT_MOST: u64 = 30;

/// Stands for the cursor behind the newest change.
pub(crate) const NOW: &str = "now";

/// How a feed is to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
    pub(crate) wait: Duration,
    /// The document, of a feed that has documents.
    id: Option<String>,
    /// None if it was not said.
    send: Option<SendMode>,
}

impl Asked {
    pub(crate) fn read(query: Option<&str>) -> Result<Asked, Problem> {
        let mut asked =
            Asked { after: None, limit: LIMIT, wait: Duration::ZERO, id: None, send: None };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let number = value.parse::<u64>().ok();
            match (&*name, number) {
                ("after", _) => asked.after = Some(value.into_owned()).filter(|v| !v.is_empty()),
                ("limit", Some(limit @ 1..)) => {
                    asked.limit = usize::try_from(limit).unwrap_or(LIMIT_MOST).min(LIMIT_MOST);
                }
                ("wait", Some(wait)) => asked.wait = Duration::from_secs(wait.min(WAIT_MOST)),
                ("limit", _) => return Err(bad("'limit' must be a number of changes, from 1")),
                ("wait", _) => return Err(bad("'wait' must be a number of seconds")),
                ("id", _) if value.is_empty() => return Err(bad("'id' must name a document")),
                ("id", _) => asked.id = Some(value.into_owned()),
                ("send", _) => {
                    asked.send = match &*value {
                        "pieces" => Some(SendMode::Pieces),
                        "states" => Some(SendMode::States),
                        _ => return Err(bad("'send' must be pieces or states")),
                    }
                }
                _ => {
                    let known = "a feed takes 'after', 'limit' and 'wait', a feed of documents also 'id' and 'send'";
                    return Err(bad(format!("unknown parameter '{}'; {known}", short(&name))));
                }
            }
        }
        Ok(asked)
    }

    /// Refuses parameters that only feeds of documents take.
    pub(crate) fn without_subjects(self) -> Result<Asked, Problem> {
        match (&self.id, self.send) {
            (None, None) => Ok(self),
            _ => Err(bad(NoSubjects.to_string())),
        }
    }

    /// The part of the feed that this caller reads. A feed without subjects has no tenants.
    pub(super) fn selection(
        &self,
        feed: &FeedSpec,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<FeedSelection, Problem> {
        if feed.payload.subjects().is_none() {
            return match (&self.id, self.send) {
                (None, None) => Ok(FeedSelection::default()),
                _ => Err(bad(NoSubjects.to_string())),
            };
        }
        let tenant = match caller.scope(headers)? {
            TenantScope::All => None,
            TenantScope::One(tenant) => Some(tenant.to_string()),
        };
        let subject = match &self.id {
            None => None,
            Some(id) => {
                let tenant = caller.tenant(headers)?.to_string();
                Some(Subject { tenant, id: id.clone() })
            }
        };
        Ok(FeedSelection { tenant, subject, send: self.send.unwrap_or_default() })
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(problems::INVALID_QUERY, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_within_bounds() {
        let asked = |query| Asked::read(Some(query)).map_err(|problem| problem.detail().to_owned());
        let default =
            || Asked { after: None, limit: LIMIT, wait: Duration::ZERO, id: None, send: None };
        assert_eq!(asked(""), Ok(default()));
        let wait = Duration::from_secs(2);
        let given = Asked { after: Some("now".into()), limit: 7, wait, ..default() };
        assert_eq!(asked("after=now&limit=7&wait=2"), Ok(given));
        let wait = Duration::from_secs(WAIT_MOST);
        let most = Asked { limit: LIMIT_MOST, wait, ..default() };
        assert_eq!(asked("after=&limit=99999999999&wait=9999"), Ok(most));
        let send = Some(SendMode::States);
        let given = Asked { id: Some("crid://a/1".into()), send, ..default() };
        assert_eq!(asked("id=crid%3A%2F%2Fa%2F1&send=states"), Ok(given));
        for (query, words) in [
            ("limit=0", "'limit' must be"),
            ("limit=x", "'limit' must be"),
            ("wait=-1", "'wait' must be"),
            ("id=", "'id' must name"),
            ("send=all", "'send' must be pieces or states"),
            ("from=1", "unknown parameter 'from'"),
        ] {
            assert!(asked(query).unwrap_err().contains(words), "{query}");
        }
    }
}
