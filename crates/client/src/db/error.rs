//! Why a call about a database did not give what was asked for.

use std::fmt;

use serde::Deserialize;

use crate::connection::Reply;

/// How much of an answer that is not understood is shown.
const SHOWN: usize = 200;

/// How a call can fail, by what its caller can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DbClientError {
    /// A constraint of the schema forbids the write; [`DbProblem::code`] names it. Nothing is stored.
    #[error("{0}")]
    Constraint(DbProblem),
    /// A statement changed another number of rows than it expects. Nothing is stored.
    #[error("{0}")]
    Expectation(DbProblem),
    /// The read asked for a position of an era that a restore has ended. This client has forgotten the position: the
    /// next read succeeds, and what was seen before the restore may be gone.
    #[error("{0}")]
    EraEnded(DbProblem),
    /// There is no such database or worker.
    #[error("{0}")]
    NotFound(DbProblem),
    /// The same request would fail again. Nothing is stored.
    #[error("{0}")]
    Refused(DbProblem),
    /// No worker could take the request, or no node could be reached. Nothing is stored; the same request may succeed
    /// later.
    #[error("{0}")]
    Unavailable(DbProblem),
    /// The write may have been stored, or may be stored later. A repeat with the same key settles it.
    #[error("{0}")]
    Unknown(DbProblem),
    /// The write is stored, but its results are lost. A repeat with the same key gives them.
    #[error("{0}")]
    Stored(DbProblem),
    /// What answered is no Consort node, or one of another release.
    #[error("{url} gave an answer that is not Consort's: {reason}")]
    Unreadable {
        /// The node's address.
        url: String,
        /// What does not fit.
        reason: String,
    },
}

/// What is known about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DbProblem {
    /// The HTTP status; 0 if no node answered.
    #[serde(default)]
    pub status: u16,
    /// The problem's name for programs, such as `db-constraint`; empty if there is none.
    #[serde(default, rename = "type", deserialize_with = "short_kind")]
    pub kind: String,
    /// What happened, in words.
    pub detail: String,
    /// Whether the write is stored, if the node says so.
    #[serde(default)]
    pub outcome: Option<DbWriteState>,
    /// The statement that is to blame, from 0.
    #[serde(default)]
    pub statement: Option<usize>,
    /// SQLite's name of the error, such as `SQLITE_CONSTRAINT_UNIQUE`.
    #[serde(default)]
    pub code: Option<String>,
}

/// Whether a write that failed is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum DbWriteState {
    /// It is.
    #[serde(rename = "stored")]
    Stored,
    /// It is not, and will not be.
    #[serde(rename = "not stored")]
    NotStored,
    /// It is not known.
    #[serde(rename = "unknown")]
    Unknown,
}

impl DbClientError {
    /// Whether the same request may succeed later. A write that has no key must not be repeated after
    /// [`Unknown`](Self::Unknown) or [`Stored`](Self::Stored).
    pub fn is_retryable(&self) -> bool {
        match self {
            DbClientError::Unavailable(_)
            | DbClientError::Unknown(_)
            | DbClientError::Stored(_) => true,
            DbClientError::Constraint(_)
            | DbClientError::Expectation(_)
            | DbClientError::EraEnded(_)
            | DbClientError::NotFound(_)
            | DbClientError::Refused(_)
            | DbClientError::Unreadable { .. } => false,
        }
    }

    /// What is known about the failure, unless the answer was not Consort's.
    pub fn problem(&self) -> Option<&DbProblem> {
        match self {
            DbClientError::Constraint(problem)
            | DbClientError::Expectation(problem)
            | DbClientError::EraEnded(problem)
            | DbClientError::NotFound(problem)
            | DbClientError::Refused(problem)
            | DbClientError::Unavailable(problem)
            | DbClientError::Unknown(problem)
            | DbClientError::Stored(problem) => Some(problem),
            DbClientError::Unreadable { .. } => None,
        }
    }

    /// The error that an answer other than a success stands for.
    pub(super) fn from_reply(url: &str, reply: &Reply, changes_state: bool) -> DbClientError {
        match serde_json::from_slice(&reply.body) {
            Ok(problem) => {
                let problem = DbProblem { status: reply.status.as_u16(), ..problem };
                DbClientError::from_problem(problem, changes_state)
            }
            Err(_) => {
                let reason = format!("status {}", reply.status);
                DbClientError::unreadable(url, &reason, &reply.body)
            }
        }
    }

    fn from_problem(problem: DbProblem, changes_state: bool) -> DbClientError {
        use DbWriteState::{NotStored, Stored};
        match (problem.status, &*problem.kind, problem.outcome) {
            (_, "db-constraint", _) => DbClientError::Constraint(problem),
            (_, "db-expectation", _) => DbClientError::Expectation(problem),
            (_, "db-era", _) => DbClientError::EraEnded(problem),
            (_, "db-not-found", _) => DbClientError::NotFound(problem),
            // The request made the writer fail, and would again.
            (_, "db-writer", Some(NotStored)) => DbClientError::Refused(problem),
            (_, _, Some(Stored)) => DbClientError::Stored(problem),
            (429, _, _) | (500.., _, Some(NotStored)) => DbClientError::Unavailable(problem),
            // An error of the server that does not say whether the write is stored.
            (500.., _, _) if changes_state => DbClientError::Unknown(problem),
            (500.., _, _) => DbClientError::Unavailable(problem),
            _ => DbClientError::Refused(problem),
        }
    }

    /// Nothing was sent, or nothing that matters.
    pub(super) fn unavailable(detail: impl fmt::Display) -> DbClientError {
        let detail = detail.to_string();
        DbClientError::Unavailable(DbProblem { detail, ..DbProblem::default() })
    }

    /// A write was sent, and its answer is missing.
    pub(super) fn unknown(detail: impl fmt::Display) -> DbClientError {
        let detail = detail.to_string();
        DbClientError::Unknown(DbProblem { detail, ..DbProblem::default() })
    }

    pub(super) fn unreadable(url: &str, reason: &dyn fmt::Display, body: &[u8]) -> DbClientError {
        let text = String::from_utf8_lossy(body);
        let shown: String = text.chars().take(SHOWN).collect();
        let reason = format!("{reason} in '{}'", shown.trim());
        DbClientError::Unreadable { url: url.to_owned(), reason }
    }
}

impl fmt::Display for DbProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// The last part of `urn:consort:problem:KIND`.
fn short_kind<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let kind = String::deserialize(from)?;
    Ok(kind.rsplit(':').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use hyper::header::HeaderMap;
    use serde_json::json;

    use super::*;

    fn error(status: u16, kind: &str, outcome: Option<&str>, changes_state: bool) -> DbClientError {
        let mut body = json!({ "type": format!("urn:consort:problem:{kind}"), "detail": "why" });
        if let Some(outcome) = outcome {
            body["outcome"] = outcome.into();
        }
        let status = StatusCode::from_u16(status).unwrap();
        let reply = Reply { status, headers: HeaderMap::new(), body: body.to_string().into() };
        DbClientError::from_reply("http://h", &reply, changes_state)
    }

    #[test]
    fn each_problem_of_a_write_is_the_error_that_its_caller_acts_on() {
        let not_stored = Some("not stored");
        for (status, kind, outcome, expected, retryable) in [
            (400, "db-request", not_stored, "Refused", false),
            (401, "token", None, "Refused", false),
            (404, "db-not-found", not_stored, "NotFound", false),
            (409, "db-constraint", not_stored, "Constraint", false),
            (409, "db-expectation", not_stored, "Expectation", false),
            (409, "db-era", not_stored, "EraEnded", false),
            (413, "db-too-large", not_stored, "Refused", false),
            (422, "db-key-reused", not_stored, "Refused", false),
            (429, "busy", None, "Unavailable", true),
            (500, "db-writer", not_stored, "Refused", false),
            (500, "db-writer", Some("unknown"), "Unknown", true),
            (500, "db-writer", Some("stored"), "Stored", true),
            (503, "db-no-worker", not_stored, "Unavailable", true),
            (503, "db-stopped", not_stored, "Unavailable", true),
            (503, "db-unknown-outcome", Some("unknown"), "Unknown", true),
            (503, "too-many-connections", None, "Unknown", true),
            (507, "db-full", not_stored, "Unavailable", true),
        ] {
            let error = error(status, kind, outcome, true);
            assert!(format!("{error:?}").starts_with(expected), "{error:?}");
            assert_eq!(error.is_retryable(), retryable, "{error:?}");
            assert_eq!(error.problem().map(|problem| &*problem.kind), Some(kind));
            assert_eq!(error.to_string(), "why");
        }
    }

    #[test]
    fn a_read_leaves_nothing_unknown() {
        let error = error(503, "too-many-connections", None, false);
        assert!(matches!(error, DbClientError::Unavailable(_)), "{error:?}");
    }

    #[test]
    fn the_statement_to_blame_and_the_code_are_told() {
        let text = r#"{"type": "urn:consort:problem:db-constraint", "detail": "taken", "outcome": "not stored",
            "statement": 1, "code": "SQLITE_CONSTRAINT_UNIQUE", "later": true}"#;
        let problem: DbProblem = serde_json::from_str(text).unwrap();
        assert_eq!(problem.outcome, Some(DbWriteState::NotStored));
        assert_eq!(
            (problem.statement, problem.code.as_deref()),
            (Some(1), Some("SQLITE_CONSTRAINT_UNIQUE"))
        );
    }

    #[test]
    fn an_answer_of_something_else_is_told_apart() {
        let headers = HeaderMap::new();
        let reply = Reply { status: StatusCode::BAD_GATEWAY, headers, body: "<html>".into() };
        let error = DbClientError::from_reply("http://h", &reply, true);
        assert!(matches!(error, DbClientError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains("'<html>'"), "{error}");
    }
}
