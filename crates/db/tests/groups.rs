//! Groups: one bad job costs the others nothing, and no answer rests on a write that is not stored.

mod bed;

use bed::{Bed, job, keyed, results, statement};
use consort_db::write::group::GroupRun;
use consort_db::write::job::{JobAnswer, JobArgs, JobErrorKind, SqlValue, WriteJob};
use std::time::Duration;

fn bed_with_table() -> Bed {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b INT CHECK (b >= 0))");
    bed.sql("INSERT INTO t VALUES (1, 10), (2, 0)");
    bed
}

#[test]
fn a_job_that_fails_is_undone_whole_and_the_others_stay() {
    let mut bed = bed_with_table();
    let outcomes = bed.group(&[
        job(&["INSERT INTO t VALUES (3, 1)"]),
        job(&["INSERT INTO t VALUES (4, 1)", "INSERT INTO t VALUES (1, 1)"]),
        job(&["INSERT INTO t VALUES (5, 1)"]),
    ]);
    let error = outcomes[1].as_ref().unwrap_err();
    assert_eq!((error.kind, error.statement), (JobErrorKind::Constraint, Some(1)));
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert_eq!(bed.sql("SELECT a FROM t").rows.len(), 4);
    bed.assert_equal();
}

#[test]
fn h24_a_statement_that_changes_another_number_of_rows_undoes_its_job() {
    let mut bed = bed_with_table();
    let mut transfer = job(&[
        "UPDATE t SET b = b - 5 WHERE a = 2 AND b >= 5",
        "UPDATE t SET b = b + 5 WHERE a = 1",
    ]);
    transfer.statements[0].changes = Some(1);
    let error = bed.run(transfer).unwrap_err();
    assert_eq!((error.kind, error.statement), (JobErrorKind::Expectation, Some(0)));
    assert_eq!(bed.sql("SELECT sum(b) FROM t").rows, [[SqlValue::Integer(10)]]);
}

#[test]
fn h37_a_deferred_foreign_key_undoes_its_job_before_the_store_has_it() {
    let mut bed = bed_with_table();
    bed.sql("CREATE TABLE c (a REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)");
    let outcomes = bed.group(&[
        job(&["INSERT INTO c VALUES (9)"]),
        job(&["INSERT INTO c VALUES (8)", "INSERT INTO t VALUES (8, 1)"]),
    ]);
    assert_eq!(outcomes[0].as_ref().unwrap_err().kind, JobErrorKind::Constraint);
    assert!(outcomes[1].is_ok());
    bed.assert_equal();
}

#[test]
fn h38_a_job_does_not_see_the_id_of_another_client_s_row() {
    let mut bed = bed_with_table();
    let outcomes =
        bed.group(&[job(&["INSERT INTO t VALUES (77, 1)"]), job(&["SELECT last_insert_rowid()"])]);
    let second = results(outcomes[1].clone().unwrap());
    assert_eq!(second[0].rows, [[SqlValue::Integer(0)]]);
}

#[test]
fn t11_a_job_that_ends_the_transaction_costs_the_others_nothing() {
    let mut bed = bed_with_table();
    bed.sql(
        "CREATE TRIGGER tr BEFORE INSERT ON t WHEN new.b = 13
         BEGIN SELECT RAISE(ROLLBACK, 'unlucky'); END",
    );
    let good = |n: i64| job(&[&format!("INSERT INTO t VALUES ({n}, 1)")]);
    let outcomes = bed.group(&[
        good(3),
        job(&["INSERT OR ROLLBACK INTO t VALUES (1, 1)"]),
        good(4),
        job(&["INSERT INTO t VALUES (5, 13)"]),
        good(6),
    ]);
    let is_ok: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false, true, false, true]);
    assert!(outcomes[3].as_ref().unwrap_err().message.contains("unlucky"));
    bed.assert_equal();
    let culprits: Vec<WriteJob> = (0..6)
        .flat_map(|n| [good(10 + n), job(&["INSERT OR ROLLBACK INTO t VALUES (1, 1)"])])
        .collect();
    let is_ok: Vec<bool> = bed.group(&culprits).iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false].repeat(6));
    bed.assert_equal();
}

#[test]
fn h17_a_statement_that_runs_for_ever_is_ended_and_costs_the_others_nothing() {
    let mut bed = bed_with_table();
    bed.limits.write_time = Duration::from_millis(50);
    let endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        INSERT INTO t SELECT x + 100, sum(x) FROM n";
    let outcomes = bed.group(&[job(&["INSERT INTO t VALUES (3, 1)"]), job(&[endless])]);
    assert!(outcomes[0].is_ok());
    assert_eq!(outcomes[1].as_ref().unwrap_err().kind, JobErrorKind::TimeLimit);
    bed.sql("INSERT INTO t VALUES (4, 1)");
    bed.assert_equal();
}

#[test]
fn h22_a_repeat_under_a_key_takes_effect_once_also_at_the_next_leader() {
    let mut bed = bed_with_table();
    let first = keyed("k", 1, &["UPDATE t SET b = b + 1 WHERE a = 1 RETURNING b"]);
    let mut results = results(bed.run(first.clone()).unwrap());
    assert_eq!(results[0].types[0].take().as_deref(), Some("INT"));
    let known = JobAnswer::Known { index: 3, results: Some(results) };
    assert_eq!(bed.run(first.clone()), Ok(known.clone()));
    bed.promote();
    assert_eq!(bed.run(first.clone()), Ok(known));
    assert_eq!(bed.run(keyed("k", 2, &["SELECT 1"])).unwrap_err().kind, JobErrorKind::KeyReused);
    bed.time += 3_600_000;
    assert!(matches!(bed.run(first), Ok(JobAnswer::New(_))));
    let outcomes = bed.group(&[
        keyed("two", 1, &["UPDATE t SET b = b + 1 WHERE a = 2"]),
        keyed("two", 1, &["UPDATE t SET b = b + 1 WHERE a = 2"]),
    ]);
    assert!(matches!(outcomes[1], Ok(JobAnswer::Known { .. })));
    assert_eq!(bed.sql("SELECT b FROM t WHERE a = 2").rows, [[SqlValue::Integer(1)]]);
}

#[test]
fn h22_a_refused_write_is_not_remembered_and_a_large_answer_not_kept() {
    let mut bed = bed_with_table();
    let insert = keyed("k", 1, &["INSERT INTO t VALUES (3, -1)"]);
    assert_eq!(bed.run(insert.clone()).unwrap_err().kind, JobErrorKind::Constraint);
    assert!(matches!(
        bed.run(keyed("k", 2, &["INSERT INTO t VALUES (3, 1)"])),
        Ok(JobAnswer::New(_))
    ));
    let large = keyed("l", 1, &["UPDATE t SET b = 1 WHERE a = 1 RETURNING hex(zeroblob(40000))"]);
    bed.run(large.clone()).unwrap();
    assert!(matches!(bed.run(large), Ok(JobAnswer::Known { results: None, .. })));
}

#[test]
fn h9_a_group_that_changes_nothing_has_no_entry() {
    let mut bed = bed_with_table();
    let group = bed.open(&[job(&["UPDATE t SET b = 1 WHERE a = 99"]), job(&["SELECT 1"])]);
    assert!(group.entries.is_empty() && group.end.is_none());
    bed.leader.commit().unwrap();
    bed.assert_equal();
}

#[test]
fn a_group_that_the_store_refuses_leaves_no_trace() {
    let mut bed = bed_with_table();
    let before = *bed.leader.state();
    let group = bed.open(&[job(&["INSERT INTO t VALUES (3, 1)"])]);
    assert_eq!(group.end.map(|end| end.entries), Some(1));
    bed.leader.roll_back().unwrap();
    assert_eq!(*bed.leader.state(), before);
    bed.open(&[job(&["CREATE TABLE u (a)"])]);
    bed.leader.roll_back().unwrap();
    assert!(bed.refused("SELECT * FROM u").message.contains("no such table"));
    bed.assert_equal();
}

#[test]
fn h14_a_large_transaction_is_several_entries_and_a_larger_one_is_refused() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE b (id INTEGER PRIMARY KEY, v BLOB)");
    let insert = "INSERT INTO b (v) VALUES (randomblob(2500000))";
    bed.run(job(&[insert, insert])).unwrap();
    assert_eq!(bed.feed.len(), 3);
    bed.assert_equal();
    let error = bed.run(job(&[insert; 6])).unwrap_err();
    assert_eq!(error.kind, JobErrorKind::TooLarge);
    let outcomes = bed.group(&[job(&[insert; 4]), job(&[insert; 4])]);
    assert!(outcomes.iter().all(Result::is_ok));
    bed.assert_equal();
}

#[test]
fn h15_a_value_above_4_mib_is_refused_with_the_reason() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE b (v BLOB)");
    let error = bed.refused("INSERT INTO b VALUES (zeroblob(5000000))");
    assert_eq!(error.kind, JobErrorKind::TooLarge);
    assert!(error.message.contains("object store"), "{error}");
}

#[test]
fn c7_a_request_with_ddl_shares_no_group() {
    let mut bed = bed_with_table();
    let jobs = [job(&["INSERT INTO t VALUES (3, 1)"]), job(&["CREATE TABLE u (a)"])];
    let terms = bed.terms();
    assert!(matches!(bed.leader.run(&jobs, &terms), Ok(GroupRun::RunAlone)));
    assert!(bed.group(&jobs).iter().all(Result::is_ok));
    bed.assert_equal();
}

#[test]
fn arguments_are_bound_by_place_and_by_name() {
    let mut bed = bed_with_table();
    let mut by_name = job(&["INSERT INTO t VALUES (:id, @b)"]);
    let named = vec![("id".into(), SqlValue::Integer(3)), ("@b".into(), SqlValue::Integer(4))];
    by_name.statements[0].args = JobArgs::Named(named);
    bed.run(by_name).unwrap();
    let mut by_place = job(&[]);
    by_place.statements.push(statement("INSERT INTO t VALUES (?, ?)", [4.into(), 5.into()]));
    bed.run(by_place).unwrap();
    let mut too_few = job(&[]);
    too_few.statements.push(statement("INSERT INTO t VALUES (?, ?)", [4.into()]));
    assert!(bed.run(too_few).unwrap_err().message.contains("2 parameters"));
    bed.assert_equal();
}
