//! Files that operators bring: what becomes the contents of a database, and what is refused.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::hash::SchemaChain;
use crate::local::FileState;
use crate::snapshot::base::{BaseFile, RequestKeys};
use crate::snapshot::import::{ImportError, import};
use crate::sqlite::connect::open_apply;
use crate::sqlite::scan::content_hash;

const LIMIT: u64 = 64 * 1024 * 1024;

fn file(folder: &TempDir, sql: &str) -> PathBuf {
    let path = folder.path().join("brought");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

fn import_sql(sql: &str) -> Result<(), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    import(&file(&folder, sql), &folder.path().join("copy"), LIMIT)
}

fn refusal(sql: &str) -> String {
    match import_sql(sql) {
        Ok(()) => panic!("{sql}: was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_that_any_request_could_have_made_is_accepted() {
    let accepted = [
        "",
        "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b); INSERT INTO t (b) VALUES (1)",
        "CREATE TABLE t (a TEXT NOT NULL PRIMARY KEY, c AS (a || 'x') STORED); CREATE INDEX i ON t (c)",
        "CREATE VIEW v AS SELECT 1 AS a; CREATE TABLE log (a);
         CREATE TRIGGER r INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (new.a); END",
        "CREATE VIRTUAL TABLE f USING fts5 (a); INSERT INTO f VALUES ('hello');
         CREATE VIRTUAL TABLE r USING rtree (id, x0, x1)",
        "CREATE TABLE p (a INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (a));
         INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); PRAGMA user_version = 7",
        "CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1); ANALYZE",
        "PRAGMA page_size = 512; CREATE TABLE t (a)",
        "PRAGMA journal_mode = WAL; CREATE TABLE t (a)",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b); ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN c",
    ];
    for sql in accepted {
        import_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn what_no_request_could_have_made_is_refused_with_the_reason() {
    let refused = [
        ("CREATE TABLE t (a TEXT PRIMARY KEY)", "a TEXT NOT NULL PRIMARY KEY"),
        ("CREATE TABLE t (a TEXT NOT NULL COLLATE NOCASE PRIMARY KEY)", "collation"),
        ("CREATE VIRTUAL TABLE f USING fts4 (a)", "virtual tables of fts4 cannot be replicated"),
        ("CREATE TABLE _consort_x (a)", "reserved"),
        ("CREATE TABLE _consort_keys (key)", "reserved"),
        ("CREATE TABLE t (a); CREATE INDEX _consort_i ON t (a)", "reserved"),
        ("CREATE VIEW _consort_schema AS SELECT 1 AS name, 2 AS hash", "reserved"),
        ("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a)", "UTF-8"),
        (
            "PRAGMA foreign_keys = off; CREATE TABLE p (a INTEGER PRIMARY KEY);
             CREATE TABLE c (p REFERENCES p (a)); INSERT INTO c VALUES (1)",
            "table c refers to a row that is not there",
        ),
        ("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(5000000))", "above 4 MiB"),
    ];
    for (sql, reason) in refused {
        let refusal = refusal(sql);
        assert!(refusal.contains(reason), "{sql}: {refusal}");
    }
}

#[test]
fn a_trigger_on_a_table_of_consort_is_refused() {
    let own = crate::sqlite::connect::OWN_TABLES;
    assert!(import_sql(own).is_ok());
    let sql = format!(
        "{own} CREATE TABLE t (a);
        CREATE TRIGGER x AFTER INSERT ON _consort_keys BEGIN INSERT INTO t VALUES (1); END"
    );
    assert!(refusal(&sql).contains("reserved"));
}

#[test]
fn a_file_that_is_no_database_is_damaged_or_is_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| folder.path().join(name);
    std::fs::write(copy("text"), "hello".repeat(1000)).unwrap();
    assert!(import(&copy("text"), &copy("1"), LIMIT).is_err());
    assert!(import(&copy("absent"), &copy("2"), LIMIT).is_err());
    let fill = "CREATE TABLE t (a INTEGER PRIMARY KEY, b);
        WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000)
        INSERT INTO t SELECT x, hex(randomblob(100)) FROM n";
    let path = file(&folder, fill);
    let error = import(&path, &copy("3"), 100_000).unwrap_err();
    assert!(matches!(error, ImportError::TooLarge { limit: 100_000, .. }), "{error}");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[200_000..200_400].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let error = import(&path, &copy("4"), LIMIT).unwrap_err();
    assert!(matches!(error, ImportError::Damaged(_) | ImportError::Sqlite(_)), "{error}");
}

fn prepared(path: &Path, era: u64, keys: RequestKeys) -> (BaseFile, FileState) {
    let base = BaseFile::prepare(path, era, keys).unwrap();
    let connection = open_apply(path).unwrap();
    let state = FileState::read(&connection).unwrap().unwrap();
    assert_eq!(content_hash(&connection).unwrap(), state.content);
    (base, state)
}

#[test]
fn a_base_is_one_file_at_index_0_of_its_era() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    let (base, state) = prepared(&path, 3, RequestKeys::Forget);
    assert_eq!((state.era, state.index, state.digest), (3, 0, None));
    assert_eq!(
        (base.manifest.position(), base.manifest.content),
        (state.position(), state.content)
    );
    assert_ne!(state.chain, SchemaChain::START);
    assert_eq!(base.schema_files, vec![]);
    // Another try of the same restore, one era later.
    let (again, later) = prepared(&path, 4, RequestKeys::Forget);
    assert_eq!((later.era, later.chain, later.content), (4, state.chain, state.content));
    assert_ne!(again.manifest.chunks, base.manifest.chunks);
}

#[test]
fn h22_keys_are_forgotten_by_a_restore_and_kept_by_a_resolve() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let key = "INSERT INTO _consort_keys VALUES ('k', x'00', NULL, 77, 5)";
    let file_hash = "INSERT INTO _consort_schema VALUES ('1.sql', zeroblob(32))";
    open_apply(&path).unwrap().execute_batch(&format!("{key}; {file_hash}")).unwrap();
    let (base, _) = prepared(&path, 2, RequestKeys::Keep);
    assert_eq!(base.schema_files, vec![("1.sql".to_owned(), [0; 32])]);
    let index = |path: &Path| {
        let sql = "SELECT max(idx) FROM _consort_keys";
        open_apply(path).unwrap().query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).unwrap()
    };
    // Its position is the beginning of the new era, which has its effect.
    assert_eq!(index(&path), Some(0));
    prepared(&path, 2, RequestKeys::Forget);
    assert_eq!(index(&path), None);
}
