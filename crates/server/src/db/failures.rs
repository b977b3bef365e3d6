//! Failures of writes and reads as answers: each with its kind, and whether the write is stored.

use std::time::Duration;

use consort_db::read::ReadFailure;
use consort_db::sqlite::codes::code_name;
use consort_db::write::job::{JobError, JobErrorKind};
use consort_db::write::queue::WriteFailure;

use crate::problem::Problem;
use crate::problems::{self, ProblemKind};

/// When a request that no worker took may succeed: a new leader is there within about this time.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

const OUTCOME: &str = "outcome";
const NOT_STORED: &str = "not stored";
const UNKNOWN: &str = "unknown";

/// The same problem, of a request that certainly changed nothing.
pub(super) fn not_stored(problem: Problem) -> Problem {
    problem.with(OUTCOME, NOT_STORED)
}

/// A request that is malformed.
pub(super) fn refused(detail: impl Into<String>) -> Problem {
    not_stored(Problem::new(problems::DB_REQUEST, detail))
}

/// No worker took the request in time, or none could.
pub(super) fn no_worker(detail: impl Into<String>) -> Problem {
    not_stored(Problem::new(problems::DB_NO_WORKER, detail)).retry_after(RETRY_AFTER)
}

/// A forwarded request came to a node that cannot serve it any more. The node that forwarded it tries again.
pub(super) fn moved(detail: impl Into<String>) -> Problem {
    not_stored(Problem::new(problems::MOVED, detail)).retry_after(RETRY_AFTER)
}

/// Whether the write is stored is not known.
pub(super) fn unknown(detail: impl Into<String>) -> Problem {
    let problem = Problem::new(problems::DB_UNKNOWN_OUTCOME, detail).with(OUTCOME, UNKNOWN);
    problem.retry_after(RETRY_AFTER)
}

/// The answer to a job that took no effect.
pub(super) fn job_refused(error: &JobError) -> Problem {
    let problem = not_stored(Problem::new(kind_of(error.kind), error.message.clone()));
    let problem = match error.statement {
        Some(statement) => problem.with("statement", statement),
        None => problem,
    };
    match error.code.and_then(code_name) {
        Some(code) => problem.with("code", code),
        None => problem,
    }
}

fn kind_of(kind: JobErrorKind) -> &'static ProblemKind {
    match kind {
        JobErrorKind::Request => problems::DB_REQUEST,
        JobErrorKind::Constraint => problems::DB_CONSTRAINT,
        JobErrorKind::Expectation => problems::DB_EXPECTATION,
        JobErrorKind::TooLarge => problems::DB_TOO_LARGE,
        JobErrorKind::Schema => problems::DB_SCHEMA,
        JobErrorKind::KeyReused => problems::DB_KEY_REUSED,
        JobErrorKind::TimeLimit => problems::DB_TIME_LIMIT,
        JobErrorKind::AnswerTooLarge => problems::DB_ANSWER_TOO_LARGE,
        JobErrorKind::Full => problems::DB_FULL,
    }
}

/// The answer to a write that the leader of this node did not settle.
pub(super) fn write_failed(failure: &WriteFailure) -> Problem {
    let detail = failure.to_string();
    let kind = match failure {
        WriteFailure::Unknown => return unknown(detail),
        WriteFailure::NotLeader | WriteFailure::QueueFull | WriteFailure::NotTaken => {
            return no_worker(format!("{detail}; nothing was stored, send it again"));
        }
        WriteFailure::StoreFault => problems::STORE_FAILED,
        WriteFailure::Panicked(_) => problems::DB_WRITER,
        WriteFailure::File(_) => problems::DB_FULL,
        WriteFailure::Stopped(_) => problems::DB_STOPPED,
    };
    let problem = not_stored(Problem::new(kind, detail));
    match failure {
        WriteFailure::StoreFault => problem.retry_after(RETRY_AFTER),
        _ => problem,
    }
}

/// The answer to a read that no worker of this node served.
pub(super) fn read_failed(failure: &ReadFailure) -> Problem {
    let detail = failure.to_string();
    match failure {
        ReadFailure::Job(error) => job_refused(error),
        ReadFailure::NoWorker | ReadFailure::Behind(_) | ReadFailure::Busy => no_worker(detail),
        ReadFailure::OlderEra { .. } => not_stored(Problem::new(problems::DB_ERA, detail)),
        ReadFailure::StoreFault => {
            not_stored(Problem::new(problems::STORE_FAILED, detail)).retry_after(RETRY_AFTER)
        }
        ReadFailure::Stopped(_) => not_stored(Problem::new(problems::DB_STOPPED, detail)),
        ReadFailure::Panicked => not_stored(Problem::new(problems::DB_WRITER, detail)),
    }
}

/// Whether this problem says that the write is stored, as far as it says anything.
#[cfg(test)]
pub(super) fn outcome(problem: &Problem) -> Option<&str> {
    problem.member(OUTCOME)?.as_str()
}

#[cfg(test)]
mod tests {
    use consort_db::DbPosition;

    use super::*;

    #[test]
    fn each_error_of_a_job_is_a_kind_of_its_own_and_not_stored() {
        use JobErrorKind::*;
        for (kind, status, name) in [
            (Request, 400, "db-request"),
            (Constraint, 409, "db-constraint"),
            (Expectation, 409, "db-expectation"),
            (TooLarge, 413, "db-too-large"),
            (Schema, 422, "db-schema"),
            (KeyReused, 422, "db-key-reused"),
            (TimeLimit, 422, "db-time-limit"),
            (AnswerTooLarge, 422, "db-answer-too-large"),
            (Full, 507, "db-full"),
        ] {
            let problem = job_refused(&JobError::new(kind, "why"));
            assert_eq!((problem.status().as_u16(), problem.kind().name), (status, name));
            assert_eq!((outcome(&problem), problem.detail()), (Some(NOT_STORED), "why"));
            assert_eq!((problem.member("statement"), problem.member("code")), (None, None));
        }
    }

    #[test]
    fn an_error_names_its_statement_and_sqlites_code() {
        let error = JobError::new(JobErrorKind::Constraint, "taken");
        let problem = job_refused(&JobError { statement: Some(2), code: Some(2067), ..error });
        assert_eq!(problem.member("statement"), Some(&2.into()));
        assert_eq!(problem.member("code"), Some(&"SQLITE_CONSTRAINT_UNIQUE".into()));
    }

    #[test]
    fn each_failure_of_a_write_tells_its_outcome_and_whether_to_come_again() {
        use WriteFailure::*;
        for (failure, status, name, stored, retry) in [
            (NotLeader, 503, "db-no-worker", NOT_STORED, Some(1)),
            (QueueFull, 503, "db-no-worker", NOT_STORED, Some(1)),
            (NotTaken, 503, "db-no-worker", NOT_STORED, Some(1)),
            (StoreFault, 503, "store-failed", NOT_STORED, Some(1)),
            (Unknown, 503, "db-unknown-outcome", UNKNOWN, Some(1)),
            (Panicked("p".into()), 500, "db-writer", NOT_STORED, None),
            (File("f".into()), 507, "db-full", NOT_STORED, None),
            (Stopped("s".into()), 503, "db-stopped", NOT_STORED, None),
        ] {
            let problem = write_failed(&failure);
            assert_eq!((problem.status().as_u16(), problem.kind().name), (status, name));
            assert_eq!(outcome(&problem), Some(stored), "{failure:?}");
            assert_eq!(problem.retry_after_seconds(), retry, "{failure:?}");
        }
    }

    #[test]
    fn each_failure_of_a_read_has_its_kind() {
        let position = DbPosition { era: 1, index: 17 };
        for (failure, status, name) in [
            (ReadFailure::Job(JobError::new(JobErrorKind::Request, "no")), 400, "db-request"),
            (ReadFailure::NoWorker, 503, "db-no-worker"),
            (ReadFailure::Behind(position), 503, "db-no-worker"),
            (ReadFailure::OlderEra { asked: position, era: 2 }, 409, "db-era"),
            (ReadFailure::Busy, 503, "db-no-worker"),
            (ReadFailure::StoreFault, 503, "store-failed"),
        ] {
            let problem = read_failed(&failure);
            assert_eq!((problem.status().as_u16(), problem.kind().name), (status, name));
            assert_eq!(outcome(&problem), Some(NOT_STORED), "{failure:?}");
            assert_eq!(problem.retry_after_seconds().is_some(), status == 503, "{failure:?}");
        }
    }
}
