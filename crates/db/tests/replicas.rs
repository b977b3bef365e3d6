//! Random jobs at a leader, their entries at two followers: the contents are equal by a full scan, whatever
//! the groups, the batches of entries and the refusals of the store.

mod bed;

use bed::{Bed, job};
use consort_db::write::job::WriteJob;
use proptest::prelude::*;

const TABLES: [&str; 8] = [
    "CREATE TABLE t0 (a, b)",
    "CREATE TABLE t1 (a INTEGER PRIMARY KEY, b UNIQUE)",
    "CREATE TABLE t2 (a TEXT NOT NULL, b REAL NOT NULL, PRIMARY KEY (b, a))",
    "CREATE TABLE t3 (a TEXT, b INT, PRIMARY KEY (a)) WITHOUT ROWID",
    "CREATE TABLE t4 (a INTEGER PRIMARY KEY AUTOINCREMENT, b)",
    "CREATE TABLE t5 (a BLOB PRIMARY KEY, b ANY) STRICT",
    "CREATE TABLE t6 (a NUMERIC NOT NULL PRIMARY KEY, b, c AS (a + 1) STORED)",
    "CREATE TABLE t7 (a INTEGER PRIMARY KEY, b REFERENCES t1 (a) ON DELETE CASCADE ON UPDATE CASCADE)",
];
const TRIGGER: &str =
    "CREATE TRIGGER tr AFTER UPDATE ON t1 BEGIN INSERT INTO t0 VALUES (old.a, new.b); END";
const DDL: [&str; 6] = [
    "ALTER TABLE t0 ADD COLUMN c DEFAULT 5",
    "CREATE INDEX IF NOT EXISTS i ON t0 (b)",
    "DROP INDEX IF EXISTS i",
    "DROP TABLE IF EXISTS t4",
    "CREATE TABLE IF NOT EXISTS t4 (a INTEGER PRIMARY KEY AUTOINCREMENT, b)",
    "PRAGMA user_version = 4",
];

#[derive(Clone, Debug)]
enum Step {
    Group(Vec<WriteJob>, bool),
    Ddl(&'static str),
    Follow,
    Promote,
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (-3i64..6).prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "NULL",
            "'x'",
            "'X'",
            "''",
            "1.0",
            "0.5",
            "-0.0",
            "9e999",
            "x''",
            "x'00ff'",
            "'1'",
            "9223372036854775807",
            "'a' || char(0)",
            "CAST(x'ff' AS TEXT)",
            "randomblob(3)",
        ])
        .prop_map(str::to_owned),
    ]
}

fn sql() -> impl Strategy<Value = String> {
    (0..8usize, 0..8usize, value(), value(), value()).prop_map(
        |(table, kind, x, y, z)| match kind {
            0 => format!("INSERT INTO t{table} (a, b) VALUES ({x}, {y})"),
            1 => format!("REPLACE INTO t{table} (a, b) VALUES ({x}, {y})"),
            2 => format!("UPDATE t{table} SET b = {x} WHERE a = {y}"),
            3 => format!("UPDATE OR REPLACE t{table} SET a = {x} WHERE a > {y} OR b = {z}"),
            4 => format!("DELETE FROM t{table} WHERE b IS {x} OR a = {y}"),
            5 => format!(
                "INSERT OR IGNORE INTO t{table} (a, b) VALUES ({x}, {y}), ({z}, {x}), ({y}, {z})"
            ),
            6 => format!(
                "INSERT OR ROLLBACK INTO t{table} (a, b) SELECT b, a FROM t{}",
                (table + 1) % 8
            ),
            _ => format!("DELETE FROM t{table}"),
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let jobs = prop::collection::vec(prop::collection::vec(sql(), 1..4), 1..6);
    let group = (jobs, prop::bool::weighted(0.85)).prop_map(|(jobs, is_stored)| {
        let job = |sql: Vec<String>| job(&sql.iter().map(String::as_str).collect::<Vec<_>>());
        Step::Group(jobs.into_iter().map(job).collect(), is_stored)
    });
    let step = prop_oneof![
        12 => group,
        1 => prop::sample::select(DDL.to_vec()).prop_map(Step::Ddl),
        2 => Just(Step::Follow),
        1 => Just(Step::Promote),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn followers_have_the_contents_of_the_leader(steps in steps()) {
        let mut bed = Bed::new();
        TABLES.iter().chain([&TRIGGER]).for_each(|sql| { bed.sql(sql); });
        for step in steps {
            match step {
                Step::Group(jobs, true) => { bed.group(&jobs); }
                Step::Group(jobs, false) => {
                    // The store refuses it.
                    let terms = bed.terms();
                    let _ = bed.leader.run(&jobs, &terms).unwrap();
                    bed.leader.roll_back().unwrap();
                }
                Step::Ddl(sql) => { let _ = bed.run(job(&[sql])); }
                Step::Follow => bed.follow().unwrap(),
                Step::Promote if bed.followers.len() > 1 => bed.promote(),
                Step::Promote => {}
            }
        }
        bed.assert_equal();
    }
}
