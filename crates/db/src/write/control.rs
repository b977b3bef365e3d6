//! The statements that begin and end transactions. Clients of Hrana send them; the writer maps them to savepoints,
//! because the transaction of its connection belongs to the whole group.

use super::text::only_words;

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
