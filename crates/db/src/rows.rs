//! The row changes of a group, for subscribers of the change stream.
//!
//! A changeset names tables, not columns, and the entries of a feed may be older than the present schema. So values come
//! with the places of their columns, as `PRAGMA table_xinfo` numbers them, and a change of the schema stands among the rows
//! where it happened. In a table without a primary key, place 0 is the rowid.

use bytes::Bytes;

use crate::entry::{EntryGroup, EntryPart};
use crate::hash::HashedValue;
use crate::sqlite::session::{RowChange, RowOperation, SessionError, walk};
use crate::write::job::SqlValue;

/// Names of the worker's own tables begin with this.
const OWN_TABLES: &str = "_consort";

/// One change of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupChange {
    /// A row.
    Row(ChangedRow),
    /// The schema, by this statement.
    Schema(String),
}

/// A row that was inserted, updated or deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow {
    /// Its table.
    pub table: String,
    /// What happened.
    pub operation: RowOperation,
    /// The values of its key.
    pub key: Vec<SqlValue>,
    /// The places of the columns in `old` and `new`: all of them, or those that an update changed.
    pub columns: Vec<usize>,
    /// The values before; empty for an insert.
    pub old: Vec<SqlValue>,
    /// The values after; empty for a delete.
    pub new: Vec<SqlValue>,
}

/// All changes of a group that users made, in order. Tables of the worker itself are left out.
pub fn group_changes(group: &EntryGroup) -> Result<Vec<GroupChange>, SessionError> {
    let mut changes = Vec::new();
    for part in &group.parts {
        match part {
            EntryPart::Rows(changeset) => walk(changeset, |change| {
                if !change.table.starts_with(OWN_TABLES) {
                    changes.push(GroupChange::Row(changed_row(change)));
                }
            })?,
            EntryPart::Ddl(text) => changes.push(GroupChange::Schema(text.clone())),
            EntryPart::Set(_) => {}
        }
    }
    Ok(changes)
}

fn changed_row(change: &RowChange<'_>) -> ChangedRow {
    let all = 0..change.key.len();
    let is_key = |column: &usize| change.key[*column] != 0;
    let value = |found: Option<HashedValue<'_>>| found.map_or(SqlValue::Null, |v| to_value(&v));
    let before = |column: &usize| value(change.old(*column));
    let after = |column: &usize| value(change.new_value(*column));
    let key = all.clone().filter(is_key);
    let is_changed = |column: &usize| change.new_value(*column).is_some();
    let (key, columns): (Vec<SqlValue>, Vec<usize>) = match change.operation {
        RowOperation::Insert => (key.map(|column| after(&column)).collect(), all.collect()),
        RowOperation::Delete => (key.map(|column| before(&column)).collect(), all.collect()),
        RowOperation::Update => {
            (key.map(|column| before(&column)).collect(), all.filter(is_changed).collect())
        }
    };
    let is = |operation: RowOperation| change.operation == operation;
    let old = if is(RowOperation::Insert) { vec![] } else { columns.iter().map(before).collect() };
    let new = if is(RowOperation::Delete) { vec![] } else { columns.iter().map(after).collect() };
    let table = change.table.to_owned();
    ChangedRow { table, operation: change.operation, key, columns, old, new }
}

fn to_value(value: &HashedValue<'_>) -> SqlValue {
    match value {
        HashedValue::Null => SqlValue::Null,
        HashedValue::Integer(number) => SqlValue::Integer(*number),
        HashedValue::Real(real) => SqlValue::Real(*real),
        HashedValue::Text(text) => SqlValue::Text(Bytes::copy_from_slice(text)),
        HashedValue::Blob(blob) => SqlValue::Blob(Bytes::copy_from_slice(blob)),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::entry::SetValues;
    use crate::entry::tests::group_with;
    use crate::sqlite::session::RecordedConnection;

    /// The changeset of these statements, on tables that the schema makes.
    fn recorded(schema: &str, statements: &str) -> EntryPart {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        let mut file = RecordedConnection::new(connection).unwrap();
        file.begin().unwrap();
        file.connection().execute_batch(statements).unwrap();
        EntryPart::Rows(file.changeset().unwrap())
    }

    fn row(
        operation: RowOperation,
        key: &[i64],
        columns: &[usize],
        old: Vec<SqlValue>,
        new: Vec<SqlValue>,
    ) -> GroupChange {
        let key = key.iter().map(|number| SqlValue::Integer(*number)).collect();
        let (table, columns) = ("t".to_owned(), columns.to_vec());
        GroupChange::Row(ChangedRow { table, operation, key, columns, old, new })
    }

    #[test]
    fn a_row_is_told_with_its_key_and_the_places_of_its_values() {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
            CREATE TABLE _consort_keys (key TEXT PRIMARY KEY);
            INSERT INTO t VALUES (1, 'x', 2.5), (2, 'y', NULL)";
        let statements = "INSERT INTO t VALUES (3, NULL, x'00');
            UPDATE t SET b = NULL WHERE id = 1;
            DELETE FROM t WHERE id = 2;
            INSERT INTO _consort_keys VALUES ('k')";
        let group = group_with(vec![recorded(schema, statements)]);
        let mut changes = group_changes(&group).unwrap();
        // A changeset is in no order that statements have.
        changes.sort_by_key(|change| format!("{change:?}").contains("Integer(3)"));
        let (real, blob) = (SqlValue::Real(2.5), SqlValue::Blob(Bytes::from_static(b"\0")));
        let integer = SqlValue::Integer;
        let expected = [
            row(RowOperation::Update, &[1], &[2], vec![real], vec![SqlValue::Null]),
            row(
                RowOperation::Delete,
                &[2],
                &[0, 1, 2],
                vec![integer(2), "y".into(), SqlValue::Null],
                vec![],
            ),
            row(
                RowOperation::Insert,
                &[3],
                &[0, 1, 2],
                vec![],
                vec![integer(3), SqlValue::Null, blob],
            ),
        ];
        assert_eq!(changes.len(), expected.len());
        expected.iter().for_each(|one| assert!(changes.contains(one), "{one:?} in {changes:?}"));
    }

    #[test]
    fn a_table_without_a_key_has_its_rowid_at_place_0() {
        let part = recorded("CREATE TABLE t (a)", "INSERT INTO t VALUES ('x')");
        let changes = group_changes(&group_with(vec![part])).unwrap();
        let values = vec![SqlValue::Integer(1), "x".into()];
        assert_eq!(changes, [row(RowOperation::Insert, &[1], &[0, 1], vec![], values)]);
    }

    #[test]
    fn a_change_of_the_schema_stands_among_the_rows() {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY)";
        let one = |id: i64| recorded(schema, &format!("INSERT INTO t VALUES ({id})"));
        let ddl = "ALTER TABLE t ADD COLUMN a".to_owned();
        let set = EntryPart::Set(SetValues::default());
        let parts = vec![one(1), EntryPart::Ddl(ddl.clone()), set, one(2)];
        let inserted =
            |id| row(RowOperation::Insert, &[id], &[0], vec![], vec![SqlValue::Integer(id)]);
        let changes = group_changes(&group_with(parts)).unwrap();
        assert_eq!(changes, [inserted(1), GroupChange::Schema(ddl), inserted(2)]);
    }

    #[test]
    fn a_damaged_changeset_is_an_error() {
        let part = EntryPart::Rows(Bytes::from_static(b"x"));
        assert!(group_changes(&group_with(vec![part])).is_err());
    }
}
