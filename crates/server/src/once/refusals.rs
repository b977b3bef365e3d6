//! Why there is no answer, in words for the client and with what to do.

use std::time::Duration;

use consort_once::{Failure, FailureKind, OnceError};

use super::asked::Unaskable;
use super::element::Missing;
use super::space::Space;
use super::template::Misfit;
use crate::problem::Problem;
use crate::problems;

/// When one who found no room, or no store, should come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How much of a name that does not exist is repeated.
const NAME_SHOWN: usize = 100;

/// There is no space of this name, but those that are `known`.
pub(super) fn no_such_space<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Problem {
    let known: Vec<String> = known.map(|name| format!("'{name}'")).collect();
    let shown: String = name.chars().take(NAME_SHOWN).collect();
    let detail = match known.is_empty() {
        true => format!("there is no [once.{shown}]: this node's config declares none"),
        false => format!("there is no [once.{shown}]; there are {}", known.join(", ")),
    };
    Problem::new(problems::NO_SUCH_ONCE, detail)
}

pub(super) fn unaskable(reason: &Unaskable) -> Problem {
    let kind = match reason {
        Unaskable::Position(_) | Unaskable::Positions => problems::POSITION,
        Unaskable::TooLong(_) => problems::KEY_TOO_LONG,
        _ => problems::PATH,
    };
    Problem::new(kind, reason.to_string())
}

pub(super) fn misfit(space: &Space, misfit: Misfit) -> Problem {
    let (kind, place) = match misfit {
        Misfit::Path => (problems::PATH, "{path}"),
        Misfit::Query => (problems::QUERY, "{query}"),
    };
    let part = kind.name;
    let name = &space.name;
    let detail = format!(
        "'{name}' takes no {part}: the upstream's address has no {place}; ask without it, or add {place} to \
         'upstream' in [once.{name}]"
    );
    Problem::new(kind, detail)
}

pub(super) fn missing(missing: &Missing, position: usize) -> Problem {
    match missing {
        Missing::NotAnArray => Problem::new(
            problems::NOT_AN_ARRAY,
            "'position' picks an element of a JSON array, and the answer is none; ask without it for the whole",
        ),
        Missing::Beyond(length) => {
            let detail = format!(
                "there is no position {position}: the array has {length} elements, numbered from 0"
            );
            Problem::new(problems::BEYOND_THE_END, detail)
        }
    }
}

pub(super) fn unanswered(space: &Space, error: OnceError) -> Problem {
    match error {
        OnceError::Failed { failure, retry_after } => {
            failed(space, &failure).retry_after(retry_after)
        }
        OnceError::Deadline => {
            let detail = format!(
                "no answer within {:?} ('wait' in [once.{}]); the computation goes on: ask again",
                space.terms.wait, space.name
            );
            let late = Problem::new(problems::DEADLINE, detail);
            late.retry_after(RETRY_AFTER)
        }
        OnceError::Crowded => {
            let detail = "too many requests wait on this node already ('waiters' and 'waiters_per_key' in [once]); \
                          ask another node, or again later";
            Problem::new(problems::TOO_MANY_WAITERS, detail).retry_after(RETRY_AFTER)
        }
        OnceError::Gone => {
            let detail = "that generation is not there any more; ask without 'Consort-Generation' for the one there is";
            Problem::new(problems::GENERATION_GONE, detail)
        }
        OnceError::Unavailable { reason, retryable: true } => {
            let detail =
                format!("the store cannot be asked: {reason}; nothing was kept, ask again");
            Problem::new(problems::STORE_FAILED, detail).retry_after(RETRY_AFTER)
        }
        OnceError::Unavailable { reason, retryable: false } => {
            let detail = format!("the store refused: {reason}; see the node's log");
            Problem::new(problems::STORE_FAILED, detail)
        }
    }
}

fn failed(space: &Space, failure: &Failure) -> Problem {
    let name = &space.name;
    let (kind, advice) = match failure.kind {
        FailureKind::TimedOut => (
            problems::UPSTREAM_TIMEOUT,
            format!("; ask again, or raise 'timeout' in [once.{name}]"),
        ),
        FailureKind::Unreachable => (
            problems::UPSTREAM_UNREACHABLE,
            format!("; see that it runs, or mend 'upstream' in [once.{name}]"),
        ),
        FailureKind::Refused(_) => (problems::UPSTREAM_REFUSED, String::new()),
        FailureKind::TooLarge => (
            problems::UPSTREAM_TOO_LARGE,
            format!("; raise 'max_value' in [once.{name}], or ask for less"),
        ),
        FailureKind::Malformed => (problems::UPSTREAM_MALFORMED, String::new()),
        FailureKind::Panicked => {
            (problems::DEFECT, "; this is a defect of Consort, please report it".to_owned())
        }
        FailureKind::Other => (problems::UPSTREAM_FAILED, String::new()),
    };
    Problem::new(kind, format!("{}{advice}", failure.reason))
}

#[cfg(test)]
mod tests {
    use super::super::template::Template;
    use super::*;

    #[test]
    fn each_reason_has_a_status_and_says_when_to_come_again() {
        let space = Space::new("x".parse().unwrap(), Template::parse("http://h/").unwrap());
        let failed = |kind| OnceError::Failed {
            failure: Failure::new(kind, "the reason"),
            retry_after: Duration::from_millis(1_500),
        };
        let unavailable =
            |retryable| OnceError::Unavailable { reason: "the reason".into(), retryable };
        for (error, status, retry_after, words) in [
            (failed(FailureKind::TimedOut), 504, Some(2), "raise 'timeout' in [once.x]"),
            (failed(FailureKind::Unreachable), 502, Some(2), "mend 'upstream' in [once.x]"),
            (failed(FailureKind::Refused(503)), 502, Some(2), "the reason"),
            (failed(FailureKind::TooLarge), 502, Some(2), "raise 'max_value' in [once.x]"),
            (failed(FailureKind::Malformed), 502, Some(2), "the reason"),
            (failed(FailureKind::Panicked), 500, Some(2), "a defect of Consort"),
            (failed(FailureKind::Other), 502, Some(2), "the reason"),
            (OnceError::Deadline, 504, Some(1), "'wait' in [once.x]"),
            (OnceError::Crowded, 503, Some(1), "ask another node, or again later"),
            (OnceError::Gone, 412, None, "ask without 'Consort-Generation'"),
            (unavailable(true), 503, Some(1), "the reason; nothing was kept, ask again"),
            (unavailable(false), 503, None, "the reason; see the node's log"),
        ] {
            let problem = unanswered(&space, error.clone());
            assert_eq!(problem.status().as_u16(), status, "{error:?}");
            assert_eq!(problem.retry_after_seconds(), retry_after, "{error:?}");
            assert!(problem.detail().contains(words), "{}", problem.detail());
        }
    }
}
