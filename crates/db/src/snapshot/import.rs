//! Checks a file that an operator brings, before it becomes the contents of a database: it must be sound, and
//! everything in it must be allowed in a request, too.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::make::copy_pages;
use crate::schema::TableRefusal;
use crate::sqlite::authorizer::{SqlGuard, SqlScope};
use crate::sqlite::connect::{OWN_TABLES, open_reader};
use crate::sqlite::shape::check_schema;

/// Findings of SQLite's integrity check that a message names.
const FINDINGS: u32 = 5;

/// Why a file cannot become the contents of a database.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file could not be copied.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// SQLite cannot read it.
    #[error("SQLite cannot read the file: {0}")]
    Sqlite(rusqlite::Error),
    /// It is damaged.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// A row refers to one that is not there.
    #[error(
        "a row of table {0} refers to a row that is not there: mend it, as `PRAGMA foreign_key_check` shows"
    )]
    ForeignKey(String),
    /// A table cannot be replicated.
    #[error(transparent)]
    Table(#[from] TableRefusal),
    /// A part of its schema is refused.
    #[error("{kind} {name} is refused: {reason}")]
    Schema {
        /// A table, index, trigger or view.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Its texts have another encoding than those of all databases.
    #[error("its texts are {0}: make a copy whose texts are UTF-8")]
    Encoding(String),
    /// It has more bytes than the database may have.
    #[error("it has {size} bytes, and the database may have {limit} (max_size)")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A value is larger than a value may be.
    #[error("it has a value above 4 MiB: keep such values in an object store")]
    LargeValue,
}

impl From<rusqlite::Error> for ImportError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => ImportError::LargeValue,
            _ => ImportError::Sqlite(error),
        }
    }
}

/// An entry of `sqlite_schema`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SchemaObject {
    kind: String,
    name: String,
    table: String,
    sql: Option<String>,
}

impl SchemaObject {
    fn refused(self, reason: impl Into<String>) -> ImportError {
        ImportError::Schema { kind: self.kind, name: self.name, reason: reason.into() }
    }

    fn is_consorts(&self) -> bool {
        [&self.name, &self.table].iter().any(|name| is_reserved(name))
    }
}

/// Copies `file` to `copy`, where no file may be, and checks the copy. `file` is not changed.
pub(crate) fn import(file: &Path, copy: &Path, max_size: u64) -> Result<(), ImportError> {
    let size = std::fs::metadata(file)?.len();
    if size > max_size {
        return Err(ImportError::TooLarge { size, limit: max_size });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    copy_pages(&Connection::open_with_flags(file, flags)?, copy)?;
    check(copy)
}

fn check(copy: &Path) -> Result<(), ImportError> {
    let connection = open_reader(copy)?;
    let encoding: String = connection.query_row("PRAGMA encoding", [], |row| row.get(0))?;
    if encoding != "UTF-8" {
        return Err(ImportError::Encoding(encoding));
    }
    // The schema comes first: a check of the whole file runs the modules of its virtual tables.
    check_objects(&connection)?;
    check_schema(&connection)??;
    check_integrity(&connection)?;
    let mut violations = connection.prepare("PRAGMA foreign_key_check")?;
    match violations.query([])?.next()? {
        Some(row) => Err(ImportError::ForeignKey(row.get(0)?)),
        None => Ok(()),
    }
}

fn check_integrity(connection: &Connection) -> Result<(), ImportError> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({FINDINGS})"))?;
    let findings = statement.query_map([], |row| row.get(0))?;
    let findings: Vec<String> = findings.collect::<rusqlite::Result<_>>()?;
    match findings.iter().all(|finding| finding == "ok") {
        true => Ok(()),
        false => Err(ImportError::Damaged(findings.join("; "))),
    }
}

/// Makes each object of the schema in an empty database, under the rules for the DDL of users.
fn check_objects(connection: &Connection) -> Result<(), ImportError> {
    let own = own_objects()?;
    let behind_modules = shadow_tables(connection)?;
    let mut empty = Connection::open_in_memory()?;
    let guard = SqlGuard::install(&mut empty)?;
    for object in objects(connection)? {
        if object.is_consorts() {
            match own.contains(&object) {
                true => continue,
                false => return Err(object.refused("names that begin with _consort are reserved")),
            }
        }
        // SQLite and its modules make these by themselves.
        let is_made = object.name.to_ascii_lowercase().starts_with("sqlite_")
            || behind_modules.contains(&object.table);
        let Some(sql) = object.sql.clone().filter(|_| !is_made) else { continue };
        guard.prepare(SqlScope::Schema);
        let made = empty.prepare(&sql).and_then(|mut statement| {
            guard.run();
            statement.raw_execute()
        });
        if let Err(error) = made {
            return Err(object.refused(guard.take_denial().unwrap_or(error.to_string())));
        }
    }
    Ok(())
}

/// The schema in an order in which it can be made: triggers need their tables and views.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY
        CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(SchemaObject {
            kind: row.get(0)?,
            name: row.get(1)?,
            table: row.get(2)?,
            sql: row.get(3)?,
        })
    })?;
    rows.collect()
}

/// The objects that Consort makes itself.
fn own_objects() -> rusqlite::Result<BTreeSet<SchemaObject>> {
    let empty = Connection::open_in_memory()?;
    empty.execute_batch(OWN_TABLES)?;
    Ok(objects(&empty)?.into_iter().collect())
}

/// The tables behind `fts5` and `rtree`.
fn shadow_tables(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

fn is_reserved(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("_consort")
}
