//! The tables of a file, as the rules of [`schema`](crate::schema) see them.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::schema::{ColumnShape, TableRefusal, TableShape, check_table, quoted};

/// The ordinary tables of a file: no views, no virtual tables and not the tables behind them, no tables of
/// SQLite and no tables of the worker.
pub fn tables(connection: &Connection) -> rusqlite::Result<Vec<TableShape>> {
    let sql = "SELECT name, wr, strict FROM pragma_table_list
        WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        AND name NOT LIKE '\\_consort%' ESCAPE '\\' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let listed = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let listed: Vec<(String, bool, bool)> = listed.collect::<Result<_, _>>()?;
    let shape = |(name, is_without_rowid, is_strict): (String, bool, bool)| {
        let mut table = TableShape { name, is_strict, is_without_rowid, ..TableShape::default() };
        table.columns = columns(connection, &table.name)?;
        let has_key = table.columns.iter().any(|column| column.key_place > 0);
        let collations = key_collations(connection, &table.name)?;
        // Only a key that is another name of the rowid has no index of its own.
        table.has_rowid_key = has_key && collations.is_none() && !table.is_without_rowid;
        for (column, collation) in collations.unwrap_or_default() {
            if let Some(shape) = table.columns.iter_mut().find(|shape| shape.name == column) {
                shape.key_collation = collation;
            }
        }
        Ok(table)
    };
    listed.into_iter().map(shape).collect()
}

/// Refuses a schema with a table that cannot be replicated (T1, T2, T8). The tables behind `fts5` and
/// `rtree` are exempt (T15).
pub fn check_schema(connection: &Connection) -> rusqlite::Result<Result<(), TableRefusal>> {
    Ok(tables(connection)?.iter().try_for_each(check_table))
}

/// Tables whose rowids differ between workers: they have another primary key. Users may not read the rowid
/// of these (T5). In lower case.
pub fn tables_with_hidden_rowid(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let is_hidden = |table: &TableShape| {
        let has_key = table.columns.iter().any(|column| column.key_place > 0);
        let is_column = table.columns.iter().any(|c| c.name.eq_ignore_ascii_case("rowid"));
        has_key && !table.has_rowid_key && !table.is_without_rowid && !is_column
    };
    let tables = tables(connection)?;
    Ok(tables.iter().filter(|t| is_hidden(t)).map(|t| t.name.to_ascii_lowercase()).collect())
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ColumnShape>> {
    let sql = "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1) ORDER BY cid";
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.query_map([table], |row| {
        Ok(ColumnShape {
            name: row.get(0)?,
            declared: row.get(1)?,
            is_not_null: row.get(2)?,
            key_place: row.get(3)?,
            key_collation: "BINARY".into(),
        })
    })?;
    columns.collect()
}

/// The columns of the primary key's index with their collations; `None` if there is no such index.
fn key_collations(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Option<Vec<(String, String)>>> {
    let sql = "SELECT name FROM pragma_index_list(?1) WHERE origin = 'pk'";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([table])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let index: String = row.get(0)?;
    let sql = "SELECT name, coll FROM pragma_index_xinfo(?1) WHERE key = 1 AND name IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.query_map([index], |row| Ok((row.get(0)?, row.get(1)?)))?;
    columns.collect::<Result<_, _>>().map(Some)
}

/// The name of a table as it stands in SQL of our own.
pub(crate) fn sql_name(name: &str) -> String {
    match quoted(name) {
        plain if plain == name => format!("\"{name}\""),
        quoted => quoted,
    }
}
