//! Batches and interactive transactions on the writer: what a client's transaction leaves behind, and in which
//! entries.

mod bed;

use std::time::Duration;

use bed::{Bed, statement};
use consort_db::write::batch::{BatchCondition, BatchJob, BatchOutcome, BatchStep, StepOutcome};
use consort_db::write::batch_run::TransactionRun;
use consort_db::write::job::{JobErrorKind, SqlValue};

fn step(sql: &str) -> BatchStep {
    BatchStep { statement: statement(sql, []), condition: None }
}

fn batch(steps: &[&str]) -> BatchJob {
    BatchJob { steps: steps.iter().map(|sql| step(sql)).collect() }
}

/// The batch that clients send: each statement only if the one before it succeeded.
fn atomic(statements: &[&str]) -> BatchJob {
    let ok = |step| Some(BatchCondition::Ok(step));
    let mut steps = vec![step("BEGIN IMMEDIATE")];
    for (n, sql) in statements.iter().enumerate() {
        steps.push(BatchStep { condition: ok(n), ..step(sql) });
    }
    let last = statements.len();
    steps.push(BatchStep { condition: ok(last), ..step("COMMIT") });
    let failed = BatchCondition::Not(Box::new(BatchCondition::Ok(last + 1)));
    steps.push(BatchStep { condition: Some(failed), ..step("ROLLBACK") });
    BatchJob { steps }
}

/// The migration that clients send.
fn migration(statements: &[&str]) -> BatchJob {
    let shift = |condition| match condition {
        BatchCondition::Ok(step) => BatchCondition::Ok(step + 1),
        BatchCondition::Not(_) => {
            BatchCondition::Not(Box::new(BatchCondition::Ok(statements.len() + 2)))
        }
        other => other,
    };
    let inner = atomic(statements).steps.into_iter();
    let inner = inner.map(|step| BatchStep { condition: step.condition.map(shift), ..step });
    let steps = [step("PRAGMA foreign_keys=off")].into_iter().chain(inner);
    BatchJob { steps: steps.chain([step("PRAGMA foreign_keys=on")]).collect() }
}

/// One letter for each step: done, failed or skipped.
fn letters(outcome: &BatchOutcome) -> String {
    match outcome {
        Err(error) => format!("{:?}", error.kind),
        Ok(steps) => steps.iter().map(letter).collect(),
    }
}

fn letter(step: &StepOutcome) -> char {
    match step {
        StepOutcome::Done(_) => 'd',
        StepOutcome::Failed(_) => 'f',
        StepOutcome::Skipped => 's',
    }
}

fn error_of(outcome: &BatchOutcome) -> String {
    let failed = |step: &StepOutcome| match step {
        StepOutcome::Failed(error) => Some(error.to_string()),
        _ => None,
    };
    match outcome {
        Err(error) => error.to_string(),
        Ok(steps) => steps.iter().find_map(failed).unwrap_or_default(),
    }
}

fn bed_with_table() -> Bed {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b INT CHECK (b >= 0))");
    bed.sql("CREATE TABLE c (a REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)");
    bed.sql("INSERT INTO t VALUES (1, 10)");
    bed
}

/// Runs a batch to its end and counts its entries.
fn run(bed: &mut Bed, job: &BatchJob) -> (BatchOutcome, usize) {
    let terms = bed.terms();
    let open = bed.leader.run_batch(job, &terms).unwrap();
    let entries = open.entries.len();
    assert_eq!(open.end.map_or(0, |end| end.entries), entries as u64);
    bed.feed.extend(open.entries);
    bed.leader.commit().unwrap();
    bed.assert_equal();
    (open.outcome, entries)
}

fn rows(bed: &mut Bed) -> Vec<i64> {
    let number = |row: Vec<SqlValue>| match row[0] {
        SqlValue::Integer(number) => number,
        ref other => panic!("{other:?}"),
    };
    bed.sql("SELECT a FROM t ORDER BY a").rows.into_iter().map(number).collect()
}

#[test]
fn each_shape_of_a_batch_leaves_the_rows_that_it_promised() {
    let endless = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        INSERT INTO t SELECT x + 100, sum(x) FROM n";
    let insert =
        |n: usize| ["", "", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)"][n];
    let (two, three) = (insert(2), insert(3));
    let taken = "INSERT INTO t VALUES (1, 1)";
    let ends = "INSERT OR ROLLBACK INTO t VALUES (1, 1)";
    let orphan = "INSERT INTO c VALUES (99)";
    let cases: &[(&str, BatchJob, &str, &[i64])] = &[
        ("a transaction", atomic(&[two, three]), "dddds", &[1, 2, 3]),
        ("one of its statements fails", atomic(&[two, taken, three]), "ddfssd", &[1]),
        ("an orphan fails at the commit", atomic(&[two, orphan]), "dddfd", &[1]),
        ("steps by themselves", batch(&[two, taken, three]), "dfd", &[1, 2, 3]),
        ("an orphan by itself", batch(&[two, orphan, three]), "dfd", &[1, 2, 3]),
        ("a transaction left open", batch(&[two, "BEGIN", three]), "ddd", &[1, 2]),
        ("a rollback", batch(&["BEGIN", two, "ROLLBACK", three]), "dddd", &[1, 3]),
        (
            "two transactions",
            batch(&["BEGIN", two, "END", "BEGIN", three, "COMMIT"]),
            "dddddd",
            &[1, 2, 3],
        ),
        ("T11 by itself", batch(&[two, ends, three]), "dfd", &[1, 2, 3]),
        ("T11 in a transaction", batch(&[two, "BEGIN", three, ends, "COMMIT"]), "dddff", &[1, 2]),
        ("T11 in a client's batch", atomic(&[two, ends, three]), "ddfssf", &[1]),
        ("T11 three times", batch(&[ends, ends, ends, two]), "fffd", &[1, 2]),
        ("T11 too often", batch(&[two, ends, ends, ends, ends]), "Constraint", &[1]),
        ("H17", batch(&[two, endless, three]), "TimeLimit", &[1]),
        ("no transaction to end", batch(&["COMMIT", "ROLLBACK", two]), "ffd", &[1, 2]),
        ("a transaction within one", batch(&["BEGIN", two, "BEGIN", "COMMIT"]), "ddfd", &[1, 2]),
        (
            "a savepoint",
            batch(&["BEGIN", "SAVEPOINT s", two, "ROLLBACK TO s", three, "RELEASE s", "COMMIT"]),
            "ddddddd",
            &[1, 3],
        ),
        (
            "savepoints within savepoints",
            batch(&[
                "BEGIN",
                "SAVEPOINT s",
                two,
                "SAVEPOINT s",
                three,
                "ROLLBACK TO s",
                "RELEASE s",
                "COMMIT",
            ]),
            "dddddddd",
            &[1, 2],
        ),
        (
            "no such savepoint",
            batch(&["SAVEPOINT s", "BEGIN", "RELEASE x", "ROLLBACK TO x", "COMMIT"]),
            "fdffd",
            &[1],
        ),
        ("foreign keys that are on", batch(&["PRAGMA foreign_keys = ON", two]), "dd", &[1, 2]),
        ("a second statement", batch(&["SELECT 1; SELECT 2", two]), "fd", &[1, 2]),
        (
            "a denied statement",
            batch(&["ATTACH 'x' AS y", "SAVEPOINT 'step'", two]),
            "ffd",
            &[1, 2],
        ),
        ("nothing", batch(&[]), "", &[1]),
    ];
    for (name, job, expected, left) in cases {
        let mut bed = bed_with_table();
        bed.limits.write_time = Duration::from_millis(300);
        let (outcome, entries) = run(&mut bed, job);
        assert_eq!(letters(&outcome), *expected, "{name}: {outcome:?}");
        assert_eq!(rows(&mut bed), *left, "{name}");
        assert_eq!(entries, usize::from(left.len() > 1), "{name}");
    }
}

#[test]
fn c7_a_migration_is_one_entry_and_other_workers_apply_it() {
    let rebuild = [
        "CREATE TABLE new_t (a INTEGER PRIMARY KEY, b INT, x TEXT DEFAULT 'x')",
        "INSERT INTO new_t (a, b) SELECT a, b FROM t",
        "DROP TABLE t",
        "ALTER TABLE new_t RENAME TO t",
        "CREATE INDEX i ON t (x)",
        "INSERT INTO t VALUES (2, 2, 'y')",
        "PRAGMA user_version = 7",
    ];
    let mut bed = bed_with_table();
    bed.sql("INSERT INTO c VALUES (1)");
    let (outcome, entries) = run(&mut bed, &migration(&rebuild));
    assert_eq!((letters(&outcome).as_str(), entries), ("ddddddddddsd", 1), "{outcome:?}");
    assert_eq!(bed.sql("SELECT a, x FROM t").rows.len(), 2);
    assert_eq!(bed.at_follower("PRAGMA user_version"), 7);
    assert!(bed.refused("DELETE FROM t WHERE a = 1").message.contains("FOREIGN KEY"));
}

#[test]
fn c7_a_migration_that_fails_leaves_no_trace() {
    let cases: &[(&str, BatchJob, &str)] = &[
        ("a statement fails", migration(&["DROP TABLE c", "CREATE TABLE t (a)"]), "already exists"),
        ("T10: orphans", migration(&["DROP TABLE t"]), "FOREIGN KEY"),
        (
            "T2: a table that cannot be replicated",
            migration(&["CREATE TABLE k (a TEXT PRIMARY KEY)"]),
            "NOT NULL",
        ),
        ("T9", migration(&["CREATE TABLE k AS SELECT 1"]), "INSERT … SELECT"),
        ("a reserved name", migration(&["ALTER TABLE t RENAME TO _consort_t"]), "_consort"),
        (
            "T11",
            batch(&["CREATE TABLE u (a)", "INSERT OR ROLLBACK INTO t VALUES (1, 1)"]),
            "UNIQUE",
        ),
    ];
    for (name, job, message) in cases {
        let mut bed = bed_with_table();
        bed.sql("INSERT INTO c VALUES (1)");
        let before = *bed.leader.state();
        let (outcome, entries) = run(&mut bed, job);
        assert!(error_of(&outcome).contains(message), "{name}: {outcome:?}");
        assert_eq!((entries, *bed.leader.state()), (0, before), "{name}");
        assert!(bed.refused("DELETE FROM t WHERE a = 1").message.contains("FOREIGN KEY"), "{name}");
        bed.sql("INSERT INTO c VALUES (1)");
        bed.assert_equal();
    }
}

#[test]
fn a_rollback_within_a_migration_takes_back_its_own_parts_only() {
    let mut bed = bed_with_table();
    let job = batch(&[
        "INSERT INTO t VALUES (2, 2)",
        "CREATE TABLE u (a)",
        "INSERT INTO u VALUES (1)",
        "BEGIN",
        "INSERT INTO u VALUES (2)",
        "CREATE TABLE v (a)",
        "INSERT INTO v VALUES (3)",
        "ROLLBACK",
        "INSERT INTO u VALUES (4)",
        "CREATE TABLE broken (",
        "INSERT INTO t VALUES (5, -1)",
        "INSERT INTO t VALUES (6, 6)",
    ]);
    let (outcome, entries) = run(&mut bed, &job);
    assert_eq!((letters(&outcome).as_str(), entries), ("dddddddddffd", 1), "{outcome:?}");
    assert_eq!(bed.sql("SELECT a FROM u").rows, [[SqlValue::Integer(1)], [SqlValue::Integer(4)]]);
    assert!(bed.refused("SELECT * FROM v").message.contains("no such table"));
    assert_eq!(rows(&mut bed), [1, 2, 6]);
}

fn in_transaction(bed: &mut Bed, steps: &[&str]) -> (String, bool) {
    let terms = bed.terms();
    match bed.leader.run_in_transaction(&batch(steps), &terms, Duration::from_secs(5)).unwrap() {
        TransactionRun::Open(outcomes) => (letters(&Ok(outcomes)), true),
        TransactionRun::Ended(open) => {
            bed.feed.extend(open.entries);
            bed.leader.commit().unwrap();
            bed.assert_equal();
            (letters(&open.outcome), false)
        }
    }
}

#[test]
fn each_end_of_an_interactive_transaction_leaves_the_rows_that_it_promised() {
    let two = "INSERT INTO t VALUES (2, 2)";
    let ends = "INSERT OR ROLLBACK INTO t VALUES (1, 1)";
    let cases: &[(&str, &[&str], &str, &[i64])] = &[
        ("a commit", &["COMMIT"], "d", &[1, 2]),
        ("a commit with more", &["INSERT INTO t VALUES (3, 3)", "COMMIT"], "dd", &[1, 2, 3]),
        ("more after the commit", &["COMMIT", "INSERT INTO t VALUES (3, 3)"], "dd", &[1, 2, 3]),
        ("a rollback", &["ROLLBACK"], "d", &[1]),
        ("more after a rollback", &["ROLLBACK", "INSERT INTO t VALUES (3, 3)"], "dd", &[1, 3]),
        ("a second transaction", &["COMMIT", "BEGIN"], "df", &[1, 2]),
        ("T11", &[ends], "Constraint", &[1]),
    ];
    for (name, steps, expected, left) in cases {
        let mut bed = bed_with_table();
        bed.leader.begin_transaction().unwrap();
        assert_eq!(in_transaction(&mut bed, &[two, "SELECT * FROM t"]), ("dd".into(), true));
        assert_eq!(in_transaction(&mut bed, steps), ((*expected).into(), false), "{name}");
        assert_eq!(rows(&mut bed), *left, "{name}");
        assert_eq!(in_transaction(&mut bed, &["SELECT 1"]).0, "Request", "{name}");
    }
}

#[test]
fn a_step_that_fails_leaves_an_interactive_transaction_open() {
    let mut bed = bed_with_table();
    bed.leader.begin_transaction().unwrap();
    let orphan = "INSERT INTO c VALUES (99)";
    let steps =
        ["INSERT INTO t VALUES (1, 1)", "SELEC", "CREATE TABLE u (a)", "BEGIN", orphan, "COMMIT"];
    assert_eq!(in_transaction(&mut bed, &steps), ("ffffdf".into(), true));
    assert_eq!(in_transaction(&mut bed, &["DELETE FROM c", "COMMIT"]), ("dd".into(), false));
    assert_eq!(rows(&mut bed), [1]);
}

#[test]
fn a_transaction_that_is_given_up_leaves_no_trace() {
    let mut bed = bed_with_table();
    let before = *bed.leader.state();
    bed.leader.begin_transaction().unwrap();
    in_transaction(&mut bed, &["INSERT INTO t VALUES (2, 2)"]);
    bed.leader.roll_back().unwrap();
    assert_eq!(*bed.leader.state(), before);
    bed.leader.begin_transaction().unwrap();
    in_transaction(&mut bed, &["INSERT INTO t VALUES (3, 3)"]);
    assert_eq!(rows(&mut bed), [1], "a group takes the writer back");
    bed.assert_equal();
}

#[test]
fn h14_a_transaction_that_changes_too_much_is_refused_whole() {
    let mut bed = bed_with_table();
    bed.sql("CREATE TABLE b (v)");
    let large = "INSERT INTO b VALUES (randomblob(2500000))";
    let (outcome, entries) = run(&mut bed, &batch(&[large; 6]));
    assert_eq!((letters(&outcome).as_str(), entries), ("TooLarge", 0));
    bed.leader.begin_transaction().unwrap();
    let terms = bed.terms();
    for n in 0..6 {
        let time = Duration::from_secs(5);
        bed.leader.run_in_transaction(&batch(&[large]), &terms, time).unwrap();
        assert!(n < 6);
    }
    assert_eq!(in_transaction(&mut bed, &["COMMIT"]), ("TooLarge".into(), false));
    let (outcome, _) = run(&mut bed, &batch(&["SELECT count(*) FROM b"]));
    match &outcome.unwrap()[0] {
        StepOutcome::Done(result) => assert_eq!(result.rows, [[SqlValue::Integer(0)]]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn thousands_of_generated_batches_leave_all_workers_equal() {
    const STEPS: [&str; 18] = [
        "BEGIN",
        "COMMIT",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT s",
        "RELEASE s",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (#, #)",
        "INSERT INTO t VALUES (#, #)",
        "INSERT OR REPLACE INTO t VALUES (#, #)",
        "INSERT OR ROLLBACK INTO t VALUES (#, #)",
        "UPDATE t SET a = a + 1 WHERE a > #",
        "DELETE FROM t WHERE a > #",
        "INSERT INTO c VALUES (#)",
        "DELETE FROM c",
        "CREATE TABLE u# (a INTEGER PRIMARY KEY AUTOINCREMENT, b)",
        "INSERT INTO u# (b) VALUES (#)",
        "DROP TABLE u#",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut bed = bed_with_table();
    let (mut whole, mut schema) = (0, 0);
    for _ in 0..1_500 {
        let kinds = if next(3) == 0 { 18 } else { 15 };
        let steps: Vec<BatchStep> = (0..1 + next(10))
            .map(|_| step(&STEPS[next(kinds)].replace('#', &next(6).to_string())))
            .collect();
        let job = BatchJob { steps };
        let (outcome, entries) = run(&mut bed, &job);
        whole += usize::from(outcome.is_ok());
        schema += usize::from(job.is_schema_change() && entries > 0);
    }
    assert!(whole > 1_000 && schema > 50, "{whole} batches, {schema} of them with DDL");
}

#[test]
fn the_errors_of_a_transaction_are_those_of_sqlite() {
    let mut bed = bed_with_table();
    let cases = [
        ("COMMIT", "cannot commit - no transaction is active"),
        ("ROLLBACK", "cannot rollback - no transaction is active"),
    ];
    for (sql, message) in cases {
        let (outcome, _) = run(&mut bed, &batch(&[sql]));
        assert_eq!(error_of(&outcome), message);
    }
    let (outcome, _) = run(&mut bed, &batch(&["BEGIN", "BEGIN"]));
    assert_eq!(error_of(&outcome), "cannot start a transaction within a transaction");
    match run(&mut bed, &batch(&["INSERT INTO t VALUES (1, 1)"])).0.unwrap().remove(0) {
        StepOutcome::Failed(error) => {
            assert_eq!((error.kind, error.statement), (JobErrorKind::Constraint, Some(0)));
            assert_eq!(error.code, Some(rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY));
        }
        other => panic!("{other:?}"),
    }
}
