//! Windows under faults: every seed holds; and with any one rule of closing broken, some seed tells.

use consort_sim::Coverage;
use consort_sim::windows::run;
use consort_views::part::Rule;

const SEEDS: u64 = 120;

/// Within so many seeds a broken rule is found.
const MOST: u64 = 600;

/// How the account speaks of rows that are wrong.
const ROWS: &str = "not what the log says";

#[test]
fn windows_come_to_what_the_log_says_whatever_goes_wrong() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        coverage.merge(&run(seed, None).unwrap_or_else(|what| panic!("{what}")));
    }
    eprint!("{coverage}");
    let happened =
        ["rows emitted again", "late events amended", "late events listed", "Crash", "Pause"];
    for what in happened {
        assert!(coverage.times(what) > 0, "this never happened: {what}");
    }
}

/// Runs seeds with a rule broken until one tells, and then the same seeds with all rules kept.
fn is_found(rule: Rule, speaks_of: &[&str]) {
    let found = (0..MOST).find_map(|seed| Some((seed, run(seed, Some(rule)).err()?)));
    let Some((seed, what)) = found else { panic!("{rule:?} was not missed in {MOST} seeds") };
    eprintln!("{what}");
    assert!(speaks_of.iter().any(|text| what.contains(text)), "for another reason: {what}");
    for seed in 0..=seed {
        if let Err(what) = run(seed, None) {
            panic!("{what}");
        }
    }
}

#[test]
fn a_window_closed_without_its_watermark_is_found() {
    // Or everything is closed and counted in the home shard while commits to other shards are still on their way.
    is_found(Rule::Watermark, &["closed early", "applied counted of"]);
}

#[test]
fn a_row_older_than_its_last_event_is_found() {
    is_found(Rule::Dirty, &[ROWS]);
}

#[test]
fn a_closer_that_does_not_expect_the_state_is_found() {
    is_found(Rule::State, &[ROWS, "follows", "is dirty"]);
}

#[test]
fn a_window_that_is_born_again_is_found() {
    is_found(Rule::Floor, &[ROWS, "follows", "leaving"]);
}

#[test]
fn last_rows_that_are_lost_are_found() {
    is_found(Rule::LastRows, &[ROWS, "is dirty"]);
}

#[test]
fn a_worker_that_does_not_expect_the_state_is_found() {
    is_found(Rule::StateExpected, &[ROWS, "follows"]);
}

#[test]
fn a_worker_that_does_not_expect_the_floor_is_found() {
    is_found(Rule::FloorExpected, &[ROWS, "follows", "is dirty", "leaving", "in shard"]);
}
