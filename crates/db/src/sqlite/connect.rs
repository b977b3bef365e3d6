//! Opening a worker's file: pragmas, switches and limits of each kind of connection (H18, H19).

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

/// Statements that a connection keeps prepared.
const CACHED_STATEMENTS: usize = 128;
/// Memory for pages of one connection, as SQLite counts it: KiB, negative.
const CACHE_KIB: i64 = -16 * 1024;

/// Bytes of the WAL file that stay when the WAL is reset. A larger file then shows that it cannot be reset (H29).
const WAL_KEPT: i64 = 8 * 1024 * 1024;

/// The bounds on one connection, each with its unit in SQLite's manual.
const LIMITS: [(Limit, i32); 12] = [
    (Limit::SQLITE_LIMIT_LENGTH, 4 * 1024 * 1024),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 1024 * 1024),
    (Limit::SQLITE_LIMIT_COLUMN, 500),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_000),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 100),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// The worker's own tables. `_consort_local` says how far the file is and stays on this worker; the other
/// two travel with the database.
pub(crate) const OWN_TABLES: &str = "
    CREATE TABLE IF NOT EXISTS _consort_local (
        id INTEGER PRIMARY KEY CHECK (id = 1), era INTEGER NOT NULL, idx INTEGER NOT NULL,
        digest BLOB, chain BLOB NOT NULL, content BLOB NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS _consort_keys (
        key TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, answer BLOB, idx INTEGER NOT NULL,
        time INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS _consort_keys_time ON _consort_keys (time);
    CREATE TABLE IF NOT EXISTS _consort_schema (
        name TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL) STRICT;";

/// Opens the file for the leader's writer, which runs the statements of users. Hooks are installed by the
/// caller, before it records.
pub fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    prepare_file(&connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(connection)
}

/// Opens the file for a follower, which applies entries and runs no statement of a user but DDL that the
/// leader has accepted. Triggers and foreign keys have fired at the leader and must not fire again (T7);
/// `DEFENSIVE` would keep rows out of the tables behind `fts5` and `rtree` (T15).
pub fn open_apply(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    prepare_file(&connection)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    Ok(connection)
}

/// Opens the file for reads of users.
pub fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    for (limit, value) in LIMITS {
        connection.set_limit(limit, value)?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.pragma_update(None, "cache_size", CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}

/// Local durability is off: the store is durable, and a file from before a power loss is thrown away.
/// Checkpoints run on a thread of their own.
fn prepare_file(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "encoding", "UTF-8")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT, |_| Ok(()))?;
    connection.execute_batch(OWN_TABLES)
}
