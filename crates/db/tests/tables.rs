//! Rules for tables and for changes of the schema: what a changeset cannot carry is refused, and the rest
//! reaches every worker.

mod bed;

use bed::{Bed, job, results, statement};
use consort_db::write::job::{JobErrorKind, SqlValue};

#[test]
fn t1_rows_of_a_table_without_primary_key_reach_the_followers() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a, b)");
    bed.sql("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL)");
    bed.sql("UPDATE t SET b = 'y' WHERE a = 2");
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM t"), 3);
    let error = bed.refused("CREATE TABLE u (a, _rowid_ TEXT)");
    assert_eq!(error.kind, JobErrorKind::Schema);
    assert!(error.message.contains("id INTEGER PRIMARY KEY"), "{error}");
}

#[test]
fn t2_a_key_that_may_be_null_is_refused_with_the_corrected_line() {
    let mut bed = Bed::new();
    let error = bed.refused("CREATE TABLE t (a TEXT PRIMARY KEY, b)");
    assert_eq!(error.kind, JobErrorKind::Schema);
    assert!(error.message.ends_with("a TEXT NOT NULL PRIMARY KEY"), "{error}");
    bed.sql("CREATE TABLE t (a TEXT NOT NULL PRIMARY KEY, b)");
    bed.sql("CREATE TABLE u (a TEXT PRIMARY KEY) STRICT");
    bed.sql("CREATE TABLE v (a TEXT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID");
    for table in ["t (a)", "u", "v (b, a)"] {
        let sql = format!(
            "INSERT INTO {table} VALUES (NULL{})",
            if table.starts_with('v') { ", 1" } else { "" }
        );
        assert_eq!(bed.refused(&sql).kind, JobErrorKind::Constraint, "{sql}");
    }
    bed.assert_equal();
}

#[test]
fn t3_a_delete_of_all_rows_from_the_statement_cache_reaches_the_followers() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    for _ in 0..3 {
        bed.sql("INSERT INTO t VALUES (1), (2)");
        assert_eq!(bed.sql("DELETE FROM t").changes, 2);
    }
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM t"), 0);
}

#[test]
fn t4_an_autoincrement_counter_goes_on_at_a_promoted_follower() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)");
    bed.sql("INSERT INTO t (a) VALUES (1)");
    let both = job(&["INSERT INTO t (a) VALUES (2)", "DELETE FROM t WHERE a = 2"]);
    bed.run(both).unwrap();
    bed.assert_equal();
    bed.promote();
    assert_eq!(bed.sql("INSERT INTO t (a) VALUES (3)").last_id, Some(3));
    for sql in ["UPDATE sqlite_sequence SET seq = 1", "DELETE FROM sqlite_sequence"] {
        assert!(bed.refused(sql).message.contains("sqlite_sequence"));
    }
}

#[test]
fn t5_a_rowid_that_differs_between_workers_cannot_be_read_and_is_no_last_id() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a TEXT NOT NULL PRIMARY KEY)");
    bed.sql("CREATE TABLE u (a)");
    for _ in 0..2 {
        assert_eq!(bed.sql("INSERT INTO t VALUES (hex(randomblob(8)))").last_id, None);
    }
    for name in ["rowid", "_rowid_", "oid", "t.ROWID"] {
        let error = bed.refused(&format!("SELECT {name} FROM t"));
        assert!(error.message.contains("rowid of t"), "{error}");
    }
    assert_eq!(bed.sql("INSERT INTO u VALUES ('x')").last_id, Some(1));
    assert_eq!(bed.sql("INSERT INTO u VALUES ('x')").last_id, Some(2));
    bed.sql("SELECT rowid FROM u");
    bed.assert_equal();
}

#[test]
fn t6_ddl_and_rows_of_one_request_are_applied_in_their_order() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    let migration = job(&[
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'd'",
        "UPDATE t SET b = 'x' WHERE a = 1",
        "CREATE TABLE u (a INTEGER PRIMARY KEY, b TEXT)",
        "INSERT INTO u SELECT a, b FROM t",
        "DROP TABLE t",
        "ALTER TABLE u RENAME TO t",
        "INSERT INTO t VALUES (3, 'y')",
    ]);
    bed.run(migration).unwrap();
    assert_eq!(bed.feed.len(), 2);
    bed.sql("INSERT INTO t VALUES (4, 'z')");
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM t WHERE b IS NOT NULL"), 4);
}

#[test]
fn t6_a_follower_with_another_schema_does_not_apply_an_entry() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    bed.follow().unwrap();
    bed.sql("CREATE TABLE u (a INTEGER PRIMARY KEY)");
    let lost = bed.feed.pop().unwrap();
    bed.sql_unchecked("INSERT INTO u VALUES (1)");
    let error = bed.follow().unwrap_err();
    assert!(error.to_string().contains("made on schema"), "{error}");
    let insert = bed.feed.pop().unwrap();
    bed.feed.extend([lost, insert]);
    bed.assert_equal();
}

#[test]
fn t7_triggers_and_cascades_do_not_fire_again_at_a_follower() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    bed.sql("CREATE TABLE log (n INTEGER PRIMARY KEY, a)");
    bed.sql("CREATE TABLE child (id INTEGER PRIMARY KEY, a REFERENCES t (a) ON DELETE CASCADE)");
    bed.sql("CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log (a) VALUES (new.a); END");
    bed.sql("INSERT INTO t VALUES (1), (2)");
    bed.sql("INSERT INTO child VALUES (1, 1), (2, 1), (3, 2)");
    bed.sql("DELETE FROM t WHERE a = 1");
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM log"), 2);
    assert_eq!(bed.at_follower("SELECT count(*) FROM child"), 1);
}

#[test]
fn t8_a_key_that_has_equal_values_of_two_forms_is_refused() {
    let mut bed = Bed::new();
    let cases = [
        "CREATE TABLE t (a TEXT COLLATE NOCASE NOT NULL PRIMARY KEY)",
        "CREATE TABLE t (a TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE t (a TEXT NOT NULL, PRIMARY KEY (a COLLATE NOCASE))",
        "CREATE TABLE t (a NOT NULL PRIMARY KEY)",
        "CREATE TABLE t (a ANY PRIMARY KEY) STRICT",
        "CREATE TABLE t (a BLOB NOT NULL PRIMARY KEY)",
    ];
    for sql in cases {
        let error = bed.refused(sql);
        assert_eq!(error.kind, JobErrorKind::Schema, "{sql}");
        assert!(
            error.message.ends_with("a TEXT NOT NULL PRIMARY KEY")
                || error.message.ends_with("a TEXT NOT NULL"),
            "{error}"
        );
    }
    bed.assert_equal();
}

#[test]
fn t9_create_table_as_select_is_refused() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a)");
    let error = bed.refused("CREATE TABLE u AS SELECT * FROM t");
    assert!(error.message.contains("INSERT … SELECT"), "{error}");
    bed.assert_equal();
}

#[test]
fn t10_dropping_a_parent_changes_no_row_at_the_leader_alone() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE p (a INTEGER PRIMARY KEY)");
    bed.sql("CREATE TABLE c (a INTEGER PRIMARY KEY, p REFERENCES p (a) ON DELETE SET NULL)");
    bed.sql("INSERT INTO p VALUES (1)");
    bed.sql("INSERT INTO c VALUES (1, 1)");
    let error = bed.refused("DROP TABLE p");
    assert_eq!(error.kind, JobErrorKind::Constraint);
    bed.assert_equal();
    let rebuilt = job(&[
        "CREATE TABLE q (a INTEGER PRIMARY KEY, b)",
        "INSERT INTO q (a) SELECT a FROM p",
        "DROP TABLE p",
        "ALTER TABLE q RENAME TO p",
    ]);
    bed.run(rebuilt).unwrap();
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT p FROM c"), 1);
    assert_eq!(bed.refused("INSERT INTO c VALUES (2, 9)").kind, JobErrorKind::Constraint);
}

#[test]
fn t13_the_user_version_reaches_the_followers() {
    let mut bed = Bed::new();
    bed.sql("PRAGMA user_version = 7");
    bed.assert_equal();
    assert_eq!(bed.at_follower("PRAGMA user_version"), 7);
    let both = job(&["CREATE TABLE t (a)", "PRAGMA user_version = 8"]);
    bed.run(both).unwrap();
    bed.assert_equal();
    assert_eq!(bed.at_follower("PRAGMA user_version"), 8);
}

#[test]
fn t14_a_cached_statement_shows_the_columns_that_the_table_has_now() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a)");
    bed.sql("INSERT INTO t VALUES (1)");
    assert_eq!(bed.sql("SELECT * FROM t").columns, ["a"]);
    bed.sql("ALTER TABLE t ADD COLUMN b DEFAULT 2");
    let result = bed.sql("SELECT * FROM t");
    assert_eq!(result.columns, ["a", "b"]);
    assert_eq!(result.rows, [[SqlValue::Integer(1), SqlValue::Integer(2)]]);
}

#[test]
fn t15_full_text_and_r_trees_reach_the_followers_and_other_modules_are_refused() {
    let mut bed = Bed::new();
    bed.sql("CREATE VIRTUAL TABLE ft USING fts5(body)");
    bed.sql("CREATE VIRTUAL TABLE rt USING rtree(id, x0, x1)");
    for n in 0..20 {
        bed.run(job(&[
            &format!("INSERT INTO ft VALUES ('word{n} common')"),
            &format!("INSERT INTO rt VALUES ({n}, {n}, {})", n + 1),
        ]))
        .unwrap();
    }
    bed.assert_equal();
    bed.sql("INSERT INTO ft VALUES ('alone')");
    bed.assert_equal();
    bed.run(job(&["CREATE TABLE z (a)", "INSERT INTO ft VALUES ('with ddl')"])).unwrap();
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM ft WHERE ft MATCH 'alone OR ddl'"), 2);
    bed.sql("DELETE FROM ft WHERE rowid = 3");
    bed.sql("UPDATE rt SET x1 = 99 WHERE id = 4");
    bed.assert_equal();
    assert_eq!(bed.at_follower("SELECT count(*) FROM ft WHERE ft MATCH 'common'"), 19);
    assert_eq!(bed.at_follower("SELECT count(*) FROM rt WHERE x1 > 50"), 1);
    let error = bed.refused("CREATE VIRTUAL TABLE f3 USING fts3(body)");
    assert!(error.message.contains("fts5 and rtree"), "{error}");
    assert!(bed.run(job(&["INSERT INTO ft_data VALUES (1, x'00')"])).is_err());
    bed.sql("DROP TABLE ft");
    bed.sql("DROP TABLE rt");
    bed.assert_equal();
}

#[test]
fn shapes_that_need_no_rule_reach_the_followers() {
    let setup = [
        "CREATE TABLE u (id INTEGER PRIMARY KEY, a UNIQUE, b)",
        "CREATE TABLE w (a TEXT, b INT, c, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "CREATE TABLE g (a INTEGER PRIMARY KEY, b, c AS (b || 'x') STORED, d AS (b || 'y'))",
        "CREATE TABLE r (a REAL NOT NULL PRIMARY KEY, b REAL)",
    ];
    let shapes = [
        "INSERT INTO u VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3)",
        "REPLACE INTO u VALUES (1, 'x', 9)",
        "REPLACE INTO u VALUES (1, 'y', 8)",
        "INSERT INTO u VALUES (4, 'z', 0) ON CONFLICT (a) DO UPDATE SET b = b + 10",
        "UPDATE u SET id = id + 100",
        "INSERT INTO w VALUES ('a', 1, 1), ('a', 2, 2), ('b', 1, 3)",
        "UPDATE w SET b = b + 10 WHERE a = 'a'",
        "INSERT INTO g (a, b) VALUES (1, 'v')",
        "UPDATE g SET b = 'w'",
        "INSERT INTO r VALUES (1, -0.0), (2.5, 9e999), (3, -9e999), (4, NULL)",
        "INSERT INTO u (a, b) VALUES ('nul' || char(0) || 'byte', CAST(x'ff' AS TEXT))",
        "INSERT INTO u (a, b) SELECT a || 'copy', b FROM u",
        "UPDATE r SET a = a * 2",
    ];
    let mut bed = Bed::new();
    setup.iter().for_each(|sql| {
        bed.sql(sql);
    });
    for sql in shapes {
        bed.sql(sql);
        bed.assert_equal();
    }
    let rotation = job(&[
        "UPDATE u SET a = 'none' WHERE a = 'y'",
        "UPDATE u SET a = 'y' WHERE a = 'z'",
        "UPDATE u SET a = 'z' WHERE a = 'none'",
    ]);
    bed.run(rotation).unwrap();
    bed.assert_equal();
    let swap = job(&["DELETE FROM u WHERE a = 'y'", "INSERT INTO u (id, a) VALUES (999, 'y')"]);
    bed.run(swap).unwrap();
    bed.assert_equal();
}

#[test]
fn hostile_values_travel_unchanged() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
    let values = [
        SqlValue::Null,
        SqlValue::Integer(i64::MIN),
        SqlValue::Real(f64::INFINITY),
        SqlValue::Real(-0.0),
        SqlValue::Text(b"\xff\0\xfe"[..].into()),
        SqlValue::Blob(b""[..].into()),
        SqlValue::Text(b""[..].into()),
    ];
    for value in values {
        let insert = statement("INSERT INTO t (v) VALUES (?) RETURNING v", [value.clone()]);
        let mut job = job(&[]);
        job.statements.push(insert);
        let answer = results(bed.run(job).unwrap());
        assert_eq!(answer[0].rows, [[value]]);
    }
    bed.assert_equal();
}
