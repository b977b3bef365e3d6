//! A database file as SQL text, which `sqlite3` reads back.
//!
//! It writes tables with their rows, then counters, indexes, triggers and views. Tables of the worker itself and of
//! `ANALYZE` are left out.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Why a file could not be written as text.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// SQLite cannot read it.
    #[error("the file cannot be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The text could not be written.
    #[error("the text cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// An object of the schema.
struct SchemaObject {
    kind: String,
    name: String,
    sql: String,
}

/// Writes the database in the file at `path` as SQL.
pub fn dump(path: &Path, to: &mut impl Write) -> Result<(), DumpError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    writeln!(to, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
    let objects = objects(&connection)?;
    let (tables, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object.kind == "table");
    let (modules, tables): (Vec<_>, Vec<_>) = tables.into_iter().partition(is_virtual);
    for table in &tables {
        writeln!(to, "{};", table.sql)?;
        dump_rows(&connection, &table.name, to)?;
    }
    dump_modules(&modules, to)?;
    dump_counters(&connection, to)?;
    for object in &others {
        writeln!(to, "{};", object.sql)?;
    }
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != 0 {
        writeln!(to, "PRAGMA user_version={version};")?;
    }
    writeln!(to, "COMMIT;")?;
    Ok(())
}

/// All objects that a user made, in the order in which they were made.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    let sql = "SELECT type, name, sql FROM sqlite_schema
        WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
            AND tbl_name NOT LIKE '\\_consort%' ESCAPE '\\'
        ORDER BY rowid";
    let mut statement = connection.prepare(sql)?;
    let object = |row: &rusqlite::Row<'_>| {
        Ok(SchemaObject { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? })
    };
    statement.query_map([], object)?.collect()
}

fn is_virtual(table: &SchemaObject) -> bool {
    let mut words = table.sql.split_whitespace();
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("create"))
        && words.next().is_some_and(|word| word.eq_ignore_ascii_case("virtual"))
}

fn dump_rows(connection: &Connection, table: &str, to: &mut impl Write) -> Result<(), DumpError> {
    let columns = stored_columns(connection, table)?;
    let list = columns.join(",");
    let table = quoted_name(table);
    let mut statement = connection.prepare(&format!("SELECT {list} FROM {table}"))?;
    let mut rows = statement.query([])?;
    let mut line = String::new();
    while let Some(row) = rows.next()? {
        line.clear();
        for n in 0..columns.len() {
            if n > 0 {
                line.push(',');
            }
            push_value(&mut line, row.get_ref(n)?);
        }
        writeln!(to, "INSERT INTO {table}({list}) VALUES({line});")?;
    }
    Ok(())
}

/// The columns that a statement can set: generated ones follow from them.
fn stored_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 ORDER BY cid";
    let mut statement = connection.prepare(sql)?;
    let name = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    statement.query_map([table], |row| Ok(quoted_name(&name(row)?)))?.collect()
}

/// Virtual tables keep their rows in tables that are written already, so their definition alone is put back.
fn dump_modules(tables: &[SchemaObject], to: &mut impl Write) -> Result<(), DumpError> {
    if tables.is_empty() {
        return Ok(());
    }
    writeln!(to, "PRAGMA writable_schema=ON;")?;
    for SchemaObject { name, sql, .. } in tables {
        let (name, sql) = (quoted_text(name), quoted_text(sql));
        writeln!(
            to,
            "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',{name},{name},0,{sql});"
        )?;
    }
    writeln!(to, "PRAGMA writable_schema=OFF;")?;
    Ok(())
}

fn dump_counters(connection: &Connection, to: &mut impl Write) -> Result<(), DumpError> {
    if !connection.table_exists(None::<&str>, "sqlite_sequence")? {
        return Ok(());
    }
    writeln!(to, "DELETE FROM sqlite_sequence;")?;
    let mut statement = connection.prepare("SELECT name, seq FROM sqlite_sequence")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (name, counter): (String, i64) = (row.get(0)?, row.get(1)?);
        let name = quoted_text(&name);
        writeln!(to, "INSERT INTO sqlite_sequence(name,seq) VALUES({name},{counter});")?;
    }
    Ok(())
}

/// A value as SQL writes it.
fn push_value(line: &mut String, value: ValueRef<'_>) {
    // Writing to a text cannot fail.
    let _ = match value {
        ValueRef::Null => write!(line, "NULL"),
        ValueRef::Integer(number) => write!(line, "{number}"),
        // SQL has no word for it; a number beyond all others becomes infinite.
        ValueRef::Real(real) if real.is_infinite() && real > 0.0 => write!(line, "9e999"),
        ValueRef::Real(real) if real.is_infinite() => write!(line, "-9e999"),
        ValueRef::Real(real) => write!(line, "{real:?}"),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) if !text.contains('\0') => write!(line, "{}", quoted_text(text)),
            _ => write!(line, "CAST({} AS TEXT)", hexadecimal(text)),
        },
        ValueRef::Blob(blob) => write!(line, "{}", hexadecimal(blob)),
    };
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len() + 3);
    text.push_str("X'");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    text
}

fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(path: &Path) -> String {
        let mut text = Vec::new();
        dump(path, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_dump_gives_the_same_database_again() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1.db"), folder.path().join("2.db"));
        let made = Connection::open(&first).unwrap();
        made.execute_batch(
            "CREATE TABLE _consort_keys (key TEXT PRIMARY KEY);
            CREATE TABLE \"odd \"\"name\" (id INTEGER PRIMARY KEY AUTOINCREMENT, \"a b\", g AS (id * 2));
            CREATE TABLE pairs (a INTEGER NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;
            CREATE INDEX i ON pairs (b);
            CREATE VIEW v AS SELECT b FROM pairs;
            CREATE TRIGGER t AFTER DELETE ON pairs BEGIN INSERT INTO pairs VALUES (old.a + 1, 'again'); END;
            CREATE VIRTUAL TABLE words USING fts5(text);
            INSERT INTO words VALUES ('hello world');
            INSERT INTO pairs VALUES (1, 'it''s'), (2, x'ff00');
            INSERT INTO \"odd \"\"name\" (\"a b\") VALUES (NULL), (0.1), (-9e999), (9e999), (1e16), (-5), (x'00ff'),
                (CAST(x'610062' AS TEXT)), (CAST(x'ff' AS TEXT)), ('line\nend');
            DELETE FROM \"odd \"\"name\" WHERE id > 9;
            PRAGMA user_version = 7;
            ANALYZE",
        )
        .unwrap();
        drop(made);
        let text = dumped(&first);
        assert!(!text.contains("_consort") && !text.contains("sqlite_stat"), "{text}");
        let read_back = Connection::open(&second).unwrap();
        read_back.execute_batch(&text).unwrap();
        drop(read_back);
        assert_eq!(dumped(&second), text);
        let read_back = Connection::open(&second).unwrap();
        let one = |sql: &str| read_back.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(one("SELECT count(*) FROM words WHERE words MATCH 'world'"), 1);
        assert_eq!(one("SELECT seq FROM sqlite_sequence"), 10);
        assert_eq!(one("PRAGMA user_version"), 7);
        assert_eq!(
            one("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
            1
        );
    }
}
