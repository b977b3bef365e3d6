//! SQL from outside: every denied statement and every limit is refused with a reason, and the writer lives.

mod bed;

use bed::{Bed, job, statement};
use consort_db::write::job::{JobErrorKind, SqlValue};

fn bed_with_tables() -> Bed {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b)");
    bed.sql("CREATE TABLE k (a TEXT NOT NULL PRIMARY KEY, b)");
    bed.sql("CREATE TABLE s (a INTEGER PRIMARY KEY AUTOINCREMENT, b)");
    bed.sql("INSERT INTO t VALUES (1, 'x')");
    bed
}

#[test]
fn h19_each_denied_statement_is_refused_with_its_reason() {
    let cases = [
        ("ATTACH ':memory:' AS x", "ATTACH"),
        ("ATTACH '/etc/passwd' AS x", "ATTACH"),
        ("DETACH x", "ATTACH"),
        ("VACUUM", "VACUUM"),
        ("VACUUM INTO '/tmp/consort-stolen'", "VACUUM"),
        ("ANALYZE", "ANALYZE"),
        ("ANALYZE t", "ANALYZE"),
        ("REINDEX", "REINDEX"),
        ("REINDEX t", "REINDEX"),
        ("CREATE TEMP TABLE x (a)", "TEMP"),
        ("CREATE TEMP VIEW x AS SELECT 1", "TEMP"),
        ("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END", "TEMP"),
        ("CREATE TABLE temp.x (a)", "TEMP"),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT fts3_tokenizer('simple')", "fts3_tokenizer"),
        ("CREATE TABLE x AS SELECT 1", "INSERT … SELECT"),
        ("CREATE VIRTUAL TABLE x USING fts4(a)", "fts5 and rtree"),
        ("CREATE VIRTUAL TABLE x USING dbstat", "fts5 and rtree"),
        ("CREATE TABLE _consort_x (a)", "_consort"),
        ("CREATE INDEX _consort_i ON t (a)", "_consort"),
        ("ALTER TABLE t RENAME TO _consort_x", "_consort"),
        ("DROP TABLE _consort_keys", "_consort"),
        ("SELECT * FROM _consort_keys", "_consort"),
        ("DELETE FROM _consort_local", "_consort"),
        ("INSERT INTO _consort_schema VALUES ('a', x'')", "_consort"),
        ("CREATE TRIGGER x AFTER INSERT ON _consort_keys BEGIN SELECT 1; END", "_consort"),
        ("UPDATE sqlite_master SET sql = 'x'", "sqlite_master"),
        ("DELETE FROM sqlite_sequence", "sqlite_sequence"),
        ("INSERT INTO sqlite_sequence VALUES ('s', 9)", "sqlite_sequence"),
        ("BEGIN", "transaction"),
        ("COMMIT", "transaction"),
        ("END", "transaction"),
        ("ROLLBACK", "transaction"),
        ("SAVEPOINT x", "transaction"),
        ("RELEASE job", "transaction"),
        ("ROLLBACK TO job", "transaction"),
        ("PRAGMA journal_mode = DELETE", "journal_mode"),
        ("PRAGMA writable_schema = 1", "writable_schema"),
        ("PRAGMA foreign_keys = 0", "foreign_keys"),
        ("PRAGMA synchronous", "synchronous"),
        ("PRAGMA max_page_count = 1", "max_page_count"),
        ("PRAGMA page_size = 512", "page_size"),
        ("PRAGMA database_list", "database_list"),
        ("SELECT * FROM pragma_database_list", "database_list"),
        ("PRAGMA temp_store_directory = '/'", "temp_store_directory"),
        ("PRAGMA wal_checkpoint(TRUNCATE)", "wal_checkpoint"),
        ("SELECT rowid FROM k", "rowid"),
        ("SELECT 1; SELECT 2", "ultiple"),
        ("", "no statement"),
        ("-- nothing", "no statement"),
        ("SELEC 1", "syntax"),
        ("SELECT \"no column\" FROM t", "no such column"),
        ("SELECT * FROM missing", "no such table"),
    ];
    let mut bed = bed_with_tables();
    let content = bed.leader.state().content;
    for (sql, reason) in cases {
        let error = bed.refused(sql);
        assert!(error.message.contains(reason), "{sql}: {error}");
        assert_eq!(error.kind, JobErrorKind::Request, "{sql}: {error}");
    }
    assert_eq!(bed.leader.state().content, content);
    bed.sql("INSERT INTO t VALUES (2, 'y')");
    bed.assert_equal();
}

#[test]
fn h19_a_text_of_the_worker_s_own_is_refused_although_it_is_in_the_statement_cache() {
    let mut bed = bed_with_tables();
    bed.run(bed::keyed("k", 1, &["INSERT INTO t VALUES (7, 7)"])).unwrap();
    let own = "SELECT hash, answer, idx FROM _consort_keys WHERE key = ?1 AND time > ?2";
    let mut stolen = job(&[]);
    stolen.statements.push(statement(own, ["k".into(), 0.into()]));
    assert!(bed.run(stolen).unwrap_err().message.contains("_consort"));
    for sql in ["RELEASE job", "ROLLBACK TO job", "RELEASE flush"] {
        assert!(bed.refused(sql).message.contains("transaction"), "{sql}");
    }
}

#[test]
fn a_trigger_cannot_reach_the_tables_of_the_worker() {
    let mut bed = bed_with_tables();
    bed.sql("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM _consort_keys; END");
    assert!(bed.refused("INSERT INTO t VALUES (5, 5)").message.contains("_consort"));
    bed.sql("DROP TRIGGER x");
    bed.sql("INSERT INTO t VALUES (5, 5)");
    bed.assert_equal();
}

#[test]
fn every_statement_of_the_allow_list_is_accepted() {
    let mut bed = bed_with_tables();
    let allowed = [
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT * FROM n",
        "SELECT a, row_number() OVER (ORDER BY a) FROM t",
        "SELECT json_extract('{\"a\": 1}', '$.a'), value FROM json_each('[1, 2]')",
        "INSERT INTO t VALUES (9, 9) ON CONFLICT (a) DO UPDATE SET b = 1 RETURNING a",
        "CREATE INDEX i ON t (b)",
        "CREATE UNIQUE INDEX j ON k (b) WHERE b IS NOT NULL",
        "CREATE VIEW v AS SELECT a FROM t",
        "SELECT * FROM v",
        "DROP VIEW v",
        "DROP INDEX i",
        "ALTER TABLE t ADD COLUMN c",
        "ALTER TABLE t RENAME COLUMN c TO d",
        "ALTER TABLE t DROP COLUMN d",
        "ALTER TABLE s RENAME TO s2",
        "INSERT INTO s2 (b) VALUES (1)",
        "DROP TABLE s2",
        "PRAGMA table_info(t)",
        "PRAGMA foreign_key_check",
        "PRAGMA quick_check",
        "PRAGMA user_version",
        "SELECT name FROM sqlite_schema",
        "SELECT 1 -- with a comment",
        "SELECT 1;",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
    ];
    for sql in allowed {
        bed.sql(sql);
    }
    bed.assert_equal();
}

#[test]
fn h18_each_limit_refuses_and_the_writer_lives() {
    let mut bed = bed_with_tables();
    let columns = (0..501).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
    let cases = [
        format!("SELECT '{}'", "x".repeat(1024 * 1024)),
        format!("CREATE TABLE wide ({columns})"),
        format!("SELECT {}1", "1 + ".repeat(200)),
        format!("SELECT 1{}", " UNION SELECT 2".repeat(60)),
        format!("SELECT max({}1)", "1, ".repeat(150)),
        format!("SELECT b LIKE '{}' FROM t", "%x".repeat(600)),
        "SELECT ?32001".into(),
        "SELECT zeroblob(4194305)".into(),
        "SELECT printf('%.*c', 4194305, 'x')".into(),
        "SELECT replace(hex(zeroblob(1000000)), '0', '0123456789')".into(),
    ];
    for sql in cases {
        let start: String = sql.chars().take(40).collect();
        let error = bed.refused(&sql);
        assert!(!error.message.is_empty(), "{start}");
    }
    bed.sql("INSERT INTO t VALUES (2, 'y')");
    bed.assert_equal();
}

#[test]
fn h18_an_answer_above_its_bounds_is_refused() {
    let mut bed = bed_with_tables();
    bed.limits.max_rows = 10;
    bed.limits.max_answer = 1000;
    let many =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 11) SELECT x FROM n";
    assert_eq!(bed.refused(many).kind, JobErrorKind::AnswerTooLarge);
    assert_eq!(bed.refused("SELECT zeroblob(2000)").kind, JobErrorKind::AnswerTooLarge);
    bed.sql("SELECT 1");
}

#[test]
fn a_hundred_thousand_generated_statements_leave_all_workers_equal() {
    const WORDS: [&str; 64] = [
        "SELECT",
        "INSERT INTO",
        "UPDATE",
        "DELETE FROM",
        "REPLACE INTO",
        "t",
        "k",
        "s",
        "a",
        "b",
        "VALUES",
        "SET",
        "WHERE",
        "FROM",
        "(",
        ")",
        "(",
        ")",
        ",",
        ",",
        "=",
        "=",
        "*",
        "1",
        "2",
        "3",
        "'x'",
        "NULL",
        "x'00'",
        "-0.0",
        "9e999",
        "?",
        "ORDER BY",
        "LIMIT",
        "AND",
        "OR",
        "NOT",
        "IN",
        "OR ROLLBACK",
        "OR REPLACE",
        "OR IGNORE",
        "OR FAIL",
        "RETURNING",
        "WITH",
        "AS",
        "UNION",
        "PRAGMA",
        "ATTACH",
        "rowid",
        "_consort_keys",
        "sqlite_sequence",
        "sqlite_master",
        "DEFAULT VALUES",
        "ON CONFLICT",
        "DO NOTHING",
        "DO UPDATE",
        "random()",
        "count(*)",
        "zeroblob(9)",
        "ROLLBACK",
        "SAVEPOINT",
        ";",
        "--",
        "EXPLAIN",
    ];
    const SHAPES: [&str; 8] = [
        "INSERT INTO t VALUES (#, #)",
        "INSERT OR REPLACE INTO k VALUES ('#', #)",
        "INSERT INTO s (b) VALUES (#)",
        "UPDATE t SET a = a + #, b = # WHERE a > #",
        "DELETE FROM s WHERE a % 7 = #",
        "UPDATE k SET a = a || '#' WHERE b = #",
        "INSERT OR ROLLBACK INTO t VALUES (#, '#')",
        "DELETE FROM t",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut bed = bed_with_tables();
    let mut accepted = 0;
    for _ in 0..2_000 {
        let jobs: Vec<_> = (0..50)
            .map(|_| match next(4) {
                0 => {
                    let parts = SHAPES[next(8)].split('#').map(str::to_owned);
                    job(&[&parts
                        .reduce(|sql, part| format!("{sql}{}{part}", next(9)))
                        .unwrap_or_default()])
                }
                _ => {
                    let words: Vec<&str> = (0..1 + next(12)).map(|_| WORDS[next(64)]).collect();
                    job(&[&words.join(" ")])
                }
            })
            .collect();
        accepted += bed.group(&jobs).iter().filter(|outcome| outcome.is_ok()).count();
    }
    assert!(accepted > 10_000, "only {accepted} were accepted");
    bed.assert_equal();
}

#[test]
fn h20_a_text_of_a_hundred_thousand_statements_does_not_overflow_the_stack() {
    let mut bed = bed_with_tables();
    let trigger = "CREATE TRIGGER x AFTER INSERT ON t BEGIN ";
    let texts = [
        "SELECT 1;".repeat(100_000),
        ";".repeat(1_000_000),
        format!("{trigger}{}", "SELECT 1;".repeat(100_000)),
        format!("{trigger}SELECT 1; END;{}", "SELECT 1;".repeat(100)),
    ];
    for sql in texts {
        assert_eq!(bed.refused(&sql).kind, JobErrorKind::Request);
    }
    bed.sql("INSERT INTO t VALUES (2, 'y')");
}

#[test]
fn hostile_text_in_arguments_stays_a_value() {
    let mut bed = bed_with_tables();
    let text = "'); DROP TABLE t; --";
    let mut insert = job(&[]);
    insert.statements.push(statement("INSERT INTO t (b) VALUES (?)", [SqlValue::from(text)]));
    bed.run(insert).unwrap();
    let mut select = job(&[]);
    select.statements.push(statement("SELECT count(*) FROM t WHERE b = ?", [SqlValue::from(text)]));
    let answer = bed::results(bed.run(select).unwrap());
    assert_eq!(answer[0].rows, [[SqlValue::Integer(1)]]);
}
