//! The statements that begin and end transactions. Clients of Hrana send them; the writer maps them to savepoints,
//! because the transaction of its connection belongs to the whole group.

use super::job::{JobError, JobErrorKind};
use super::text::only_words;

/// The errors of SQLite for a control statement in the wrong place.
const WITHIN: &str = "cannot start a transaction within a transaction";
const NO_COMMIT: &str = "cannot commit - no transaction is active";
const NO_ROLLBACK: &str = "cannot rollback - no transaction is active";
const NO_SAVEPOINT: &str = "send BEGIN before SAVEPOINT";

/// Whether the text may change something, as far as its words tell. A control statement does not by itself.
pub fn may_write(sql: &str) -> bool {
    super::text::may_write(sql) && TransactionControl::parse(sql).is_none()
}

/// Whether the text changes the schema.
pub fn changes_schema(sql: &str) -> bool {
    super::text::is_schema_statement(sql)
}

/// A statement that controls a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionControl {
    /// `BEGIN`, in all its forms.
    Begin {
        /// `BEGIN TRANSACTION READONLY`: the client wants a snapshot.
        is_readonly: bool,
    },
    /// `COMMIT` or `END`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `SAVEPOINT`, with its name in upper case.
    Savepoint(String),
    /// `RELEASE`.
    Release(String),
    /// `ROLLBACK TO`.
    RollbackTo(String),
}

impl TransactionControl {
    /// The control statement in this text; `None` for every other text.
    pub fn parse(sql: &str) -> Option<Self> {
        let words = only_words(sql)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words.as_slice() {
            ["BEGIN", rest @ ..] => begin(rest)?,
            ["COMMIT" | "END"] | ["COMMIT" | "END", "TRANSACTION"] => TransactionControl::Commit,
            ["ROLLBACK"] | ["ROLLBACK", "TRANSACTION"] => TransactionControl::Rollback,
            ["SAVEPOINT", name] => TransactionControl::Savepoint((*name).to_owned()),
            ["RELEASE", name] | ["RELEASE", "SAVEPOINT", name] => {
                TransactionControl::Release((*name).to_owned())
            }
            ["ROLLBACK", "TRANSACTION", rest @ ..] | ["ROLLBACK", rest @ ..] => rollback_to(rest)?,
            _ => return None,
        })
    }
}

impl TransactionControl {
    /// Refuses the statement if it cannot stand within a transaction, or outside of one.
    pub(crate) fn check(&self, is_in_transaction: bool) -> Result<(), JobError> {
        use TransactionControl::{Begin, Commit, Release, Rollback, RollbackTo, Savepoint};
        match (self, is_in_transaction) {
            (Begin { .. }, true) => Err(control_error(WITHIN)),
            (Commit, false) => Err(control_error(NO_COMMIT)),
            (Rollback, false) => Err(control_error(NO_ROLLBACK)),
            (Savepoint(_), false) => Err(control_error(NO_SAVEPOINT)),
            (Release(name) | RollbackTo(name), false) => Err(no_savepoint(name)),
            (Begin { .. }, false) => Ok(()),
            (Commit | Rollback | Savepoint(_) | Release(_) | RollbackTo(_), true) => Ok(()),
        }
    }
}

/// There is no savepoint of this name.
pub(crate) fn no_savepoint(name: &str) -> JobError {
    control_error(&format!("no such savepoint: {name}"))
}

/// An error that SQLite itself has for such a statement.
pub(crate) fn control_error(message: &str) -> JobError {
    let code = Some(rusqlite::ffi::SQLITE_ERROR);
    JobError { code, ..JobError::new(JobErrorKind::Request, message) }
}

fn begin(rest: &[&str]) -> Option<TransactionControl> {
    let rest = match rest {
        ["DEFERRED" | "IMMEDIATE" | "EXCLUSIVE" | "CONCURRENT", rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        [] | ["TRANSACTION"] => Some(TransactionControl::Begin { is_readonly: false }),
        ["READONLY"] | ["TRANSACTION", "READONLY"] => {
            Some(TransactionControl::Begin { is_readonly: true })
        }
        _ => None,
    }
}

fn rollback_to(rest: &[&str]) -> Option<TransactionControl> {
    match rest {
        ["TO", name] | ["TO", "SAVEPOINT", name] => {
            Some(TransactionControl::RollbackTo((*name).to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_statements_are_recognised_and_nothing_else_is() {
        use TransactionControl::{Begin, Commit, Release, Rollback, RollbackTo, Savepoint};
        let (write, read) = (Begin { is_readonly: false }, Begin { is_readonly: true });
        let cases = [
            ("BEGIN", Some(write.clone())),
            (" begin immediate; -- now", Some(write.clone())),
            ("BEGIN DEFERRED TRANSACTION", Some(write.clone())),
            ("BEGIN EXCLUSIVE", Some(write)),
            ("BEGIN TRANSACTION READONLY", Some(read)),
            ("COMMIT", Some(Commit)),
            ("end transaction", Some(Commit)),
            ("ROLLBACK", Some(Rollback)),
            ("ROLLBACK TRANSACTION", Some(Rollback)),
            ("SAVEPOINT sp1", Some(Savepoint("SP1".into()))),
            ("RELEASE SAVEPOINT sp1", Some(Release("SP1".into()))),
            ("RELEASE sp1", Some(Release("SP1".into()))),
            ("ROLLBACK TO sp1", Some(RollbackTo("SP1".into()))),
            ("ROLLBACK TRANSACTION TO SAVEPOINT sp1", Some(RollbackTo("SP1".into()))),
            ("BEGIN NOW", None),
            ("BEGIN; SELECT 1", None),
            ("COMMIT 'x'", None),
            ("SAVEPOINT \"a b\"", None),
            ("SELECT 1", None),
            ("a b c d e f g h i j", None),
            ("", None),
        ];
        for (sql, expected) in cases {
            assert_eq!(TransactionControl::parse(sql), expected, "{sql}");
        }
    }
}
