//! The content hash of a file: by a scan of all rows, or by the changes of a changeset.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::session::{RowChange, RowOperation, SessionError, is_replicated, walk};
use super::shape::sql_name;
use crate::hash::{ContentHash, HashedValue, RowKeyHash};

/// Adds up all cells of all replicated tables. In a read transaction the result belongs to one index.
pub fn content_hash(connection: &Connection) -> rusqlite::Result<ContentHash> {
    let sql = "SELECT name, wr FROM pragma_table_list
        WHERE schema = 'main' AND type IN ('table', 'shadow') ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let tables: Vec<(String, bool)> = tables.collect::<Result<_, _>>()?;
    let mut content = ContentHash::EMPTY;
    for (table, _) in tables.iter().filter(|(table, _)| is_replicated(table.as_bytes())) {
        add_table(connection, table, &mut content)?;
    }
    Ok(content)
}

/// Updates the sum by the changes of a changeset.
pub fn add_changes(content: &mut ContentHash, changeset: &[u8]) -> Result<(), SessionError> {
    walk(changeset, |change| add_change(content, change))
}

/// A row has the columns of a changeset: in a table without primary key, the rowid stands before them.
fn add_table(
    connection: &Connection,
    table: &str,
    content: &mut ContentHash,
) -> rusqlite::Result<()> {
    let sql = "SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid";
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut columns: Vec<(String, u32)> = columns.collect::<Result<_, _>>()?;
    if columns.iter().all(|(_, pk)| *pk == 0) {
        columns.insert(0, ("_rowid_".into(), 1));
    }
    let names: Vec<String> = columns.iter().map(|(name, _)| sql_name(name)).collect();
    let sql = format!("SELECT {} FROM {}", names.join(", "), sql_name(table));
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values: Vec<HashedValue<'_>> = (0..columns.len())
            .map(|n| row.get_ref(n).map(hashed))
            .collect::<rusqlite::Result<_>>()?;
        let key = columns.iter().zip(&values).filter(|((_, pk), _)| *pk > 0);
        let row_key = RowKeyHash::new(table, key.map(|(_, value)| *value));
        for (n, value) in values.iter().enumerate() {
            content.add(row_key, n as u16, *value);
        }
    }
    Ok(())
}

fn add_change(content: &mut ContentHash, change: &RowChange<'_>) {
    let columns = 0..change.key.len();
    let key_value = |n: usize| match change.operation {
        RowOperation::Insert => change.new_value(n),
        RowOperation::Update | RowOperation::Delete => change.old(n),
    };
    let key_columns = columns.clone().filter(|n| change.key[*n] != 0);
    let row = RowKeyHash::new(change.table, key_columns.filter_map(key_value));
    for n in columns {
        // An update names the key's old value only, which it keeps.
        let is_kept_key = change.operation == RowOperation::Update && change.key[n] != 0;
        if is_kept_key {
            continue;
        }
        // An update of a column names both its values, or neither.
        if let Some(old) = change.old(n) {
            content.remove(row, n as u16, old);
        }
        if let Some(new) = change.new_value(n) {
            content.add(row, n as u16, new);
        }
    }
}

fn hashed(value: ValueRef<'_>) -> HashedValue<'_> {
    match value {
        ValueRef::Null => HashedValue::Null,
        ValueRef::Integer(number) => HashedValue::Integer(number),
        ValueRef::Real(real) => HashedValue::Real(real),
        ValueRef::Text(text) => HashedValue::Text(text),
        ValueRef::Blob(blob) => HashedValue::Blob(blob),
    }
}
