//! SQL statements with their arguments, as nodes take them.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// One SQL statement with its positional arguments.
///
/// Arguments are bound, never written into the text. `null`, numbers, texts and booleans stand for themselves;
/// `{"blob": BASE64}` is a blob.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlStatement {
    sql: String,
    args: Vec<Value>,
    changes: Option<u64>,
}

/// What a read may be answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadConsistency {
    /// A committed prefix, at least as new as anything that this client has seen.
    Any,
    /// All that was committed before the read began.
    Strong,
}

impl SqlStatement {
    /// A statement without arguments.
    pub fn new(sql: impl Into<String>) -> SqlStatement {
        SqlStatement { sql: sql.into(), args: Vec::new(), changes: None }
    }

    /// The same with one more argument, for the next `?`.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> SqlStatement {
        self.args.push(value.into());
        self
    }

    /// The same, with the expectation that it changes so many rows. If it changes another number, the whole write is
    /// refused with [`DbClientError::Expectation`](super::DbClientError::Expectation).
    #[must_use]
    pub fn expect_changes(mut self, rows: u64) -> SqlStatement {
        self.changes = Some(rows);
        self
    }
}

/// A list of text and arguments; an object if there is an expectation.
impl Serialize for SqlStatement {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let SqlStatement { sql, args, changes } = self;
        let Some(changes) = changes else {
            let sql = Value::from(sql.as_str());
            return to.collect_seq(std::iter::once(&sql).chain(args));
        };
        let mut object = to.serialize_struct("SqlStatement", 3)?;
        object.serialize_field("sql", sql)?;
        object.serialize_field("args", args)?;
        object.serialize_field("changes", changes)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_as_nodes_read_it() {
        let insert = SqlStatement::new("INSERT INTO t VALUES (?, ?, ?, ?)");
        let bound = insert.bind("ann").bind(7).bind(Value::Null).bind(0.5);
        for (statement, written) in [
            (SqlStatement::new("SELECT 1"), r#"["SELECT 1"]"#),
            (bound, r#"["INSERT INTO t VALUES (?, ?, ?, ?)","ann",7,null,0.5]"#),
            (
                SqlStatement::new("DELETE FROM t WHERE a = ?").bind("\"").expect_changes(1),
                r#"{"sql":"DELETE FROM t WHERE a = ?","args":["\""],"changes":1}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&statement).unwrap(), written);
        }
    }

    #[test]
    fn consistencies_are_written_as_nodes_read_them() {
        assert_eq!(serde_json::to_string(&ReadConsistency::Any).unwrap(), "\"any\"");
        assert_eq!(serde_json::to_string(&ReadConsistency::Strong).unwrap(), "\"strong\"");
    }
}
