//! The simulator bites: with any one rule broken it finds a violation within so many seeds, and the same
//! seeds pass with all rules kept.

use consort_cluster::mutation::Mutation;
use consort_sim::{Twist, Violation, run};

/// Runs seeds with `twist` until one fails, `most` at most, and then the same seeds without it. The
/// violation must speak of one of these.
fn is_found(twist: Twist, most: u64, speaks_of: &[&str]) {
    let failed = (0..most).find_map(|seed| run(seed, Some(twist)).err());
    let Some(Violation { seed, what, .. }) = failed.as_deref() else {
        panic!("{twist:?} was not noticed in {most} seeds");
    };
    eprintln!("{twist:?} was noticed in seed {seed}: {what}");
    assert!(speaks_of.iter().any(|text| what.contains(text)), "for another reason: {what}");
    for seed in 0..=*seed {
        if let Err(violation) = run(seed, None) {
            panic!("{violation}");
        }
    }
}

const STATE: &str = "shards are not what their marks say";
const MARKS: &str = "moved back";
const END: &str = "the state is not what the log says";

#[test]
fn commits_that_do_not_expect_the_mark_are_found() {
    is_found(Twist::Worker(Mutation::NoMarkCheck), 60, &[STATE, MARKS]);
}

#[test]
fn marks_that_move_backwards_are_found() {
    is_found(Twist::Worker(Mutation::MarksMoveBackwards), 60, &[STATE, MARKS]);
}

#[test]
fn a_checkpoint_before_the_shards_is_found() {
    is_found(Twist::Worker(Mutation::CheckpointFirst), 60, &[STATE, END]);
}

#[test]
fn unchecked_digests_are_found() {
    // A loss that no digest tells leaves the state other than the log: seen by the marks, or at the end.
    is_found(Twist::Worker(Mutation::NoDigestCheck), 60, &[STATE, END, "was not noticed"]);
}

#[test]
fn members_that_are_taken_for_known_without_a_commit_are_found() {
    is_found(Twist::Worker(Mutation::MembersAlwaysKnown), 60, &[STATE, END]);
}

#[test]
fn two_frames_of_one_producer_in_flight_are_found() {
    is_found(Twist::TwoInFlight, 60, &["was acknowledged and does not count"]);
}

#[test]
fn a_minimum_that_is_read_and_then_put_is_found() {
    is_found(Twist::ReadThenPutMin, 200, &[STATE, END]);
}
