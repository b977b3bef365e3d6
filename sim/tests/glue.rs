//! Collections under faults: every seed holds; and with any one rule broken, some seed tells.

use consort_cluster::mutation::Mutation;
use consort_glue::fold::FoldRule;
use consort_sim::Coverage;
use consort_sim::glue::{GlueTwist, run};

const SEEDS: u64 = 400;

/// Within so many seeds a broken rule is found.
const MOST: u64 = 400;

#[test]
fn collections_come_to_what_the_log_says_whatever_goes_wrong() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        coverage.merge(&run(seed, None).unwrap_or_else(|what| panic!("{what}")));
    }
    eprint!("{coverage}");
    let happened = [
        "shards rolled back",
        "deletes",
        "told again",
        "told: held",
        "told: queued",
        "told: discarded",
        "rejected: late",
        "rejected: gap",
        "rejected: deleted",
        "rejected: condition-failed",
        "rejected: key-reused",
        "rejected: test-failed",
        "rejected: missing-path",
        "requests that failed in the middle",
        "messages of a queue",
        "Crash",
        "Pause",
        "LandsTwice",
    ];
    for what in happened {
        assert!(coverage.times(what) > 0, "this never happened: {what}");
    }
}

/// Runs seeds with a rule broken until one tells, and then the same seeds with all rules kept.
fn is_found(twist: GlueTwist) {
    let found = (0..MOST).find_map(|seed| Some((seed, run(seed, Some(twist)).err()?)));
    let Some((seed, what)) = found else { panic!("{twist:?} was not missed in {MOST} seeds") };
    eprintln!("{what}");
    let speaks = [
        "the log says",
        "the counters are",
        "are known",
        "stands still",
        "stored behind",
        "after its deadline",
        "no head",
        "is not of its head",
    ];
    assert!(speaks.iter().any(|text| what.contains(text)), "for another reason: {what}");
    for seed in 0..=seed {
        if let Err(what) = run(seed, None) {
            panic!("{what}");
        }
    }
}

#[test]
fn a_memory_that_is_kept_after_a_setback_is_found() {
    is_found(GlueTwist::Worker(Mutation::MemoryKept));
}

#[test]
fn a_memory_ahead_of_the_mark_is_found() {
    is_found(GlueTwist::Worker(Mutation::TakenPlannedAgain));
}

#[test]
fn cells_that_were_read_at_another_mark_are_found() {
    is_found(GlueTwist::Worker(Mutation::CellsOfAnyMark));
}

#[test]
fn a_commit_without_the_mark_is_found() {
    is_found(GlueTwist::Worker(Mutation::NoMarkCheck));
}

#[test]
fn a_piece_that_is_applied_again_is_found() {
    is_found(GlueTwist::Fold(FoldRule::RepeatsAreKnown));
}

#[test]
fn a_condition_before_the_repeat_is_found() {
    is_found(GlueTwist::Fold(FoldRule::RepeatBeforeCondition));
}

#[test]
fn a_rejected_piece_whose_number_stays_free_is_found() {
    is_found(GlueTwist::Fold(FoldRule::RejectedUsesNumber));
}

#[test]
fn a_late_piece_that_is_taken_for_a_repeat_is_found() {
    is_found(GlueTwist::Fold(FoldRule::LateIsNoRepeat));
}

#[test]
fn a_gap_that_the_log_does_not_decide_is_found() {
    is_found(GlueTwist::Fold(FoldRule::LogEndsGaps));
}

#[test]
fn a_tombstone_without_numbers_is_found() {
    is_found(GlueTwist::Fold(FoldRule::TombstoneKeepsNumbers));
}

#[test]
fn a_version_that_begins_again_after_a_delete_is_found() {
    is_found(GlueTwist::Fold(FoldRule::VersionsContinue));
}

#[test]
fn a_halt_that_does_not_hold_pieces_up_is_found() {
    is_found(GlueTwist::Fold(FoldRule::HaltQueues));
}

#[test]
fn a_retry_without_its_place_is_found() {
    is_found(GlueTwist::Fold(FoldRule::WordsNameThePlace));
}

#[test]
fn a_key_that_counts_for_all_documents_is_found() {
    is_found(GlueTwist::Fold(FoldRule::KeysAreOfOneDocument));
}

#[test]
fn a_piece_that_is_left_in_the_log_behind_a_halt_is_found() {
    is_found(GlueTwist::Fold(FoldRule::NoPieceWaitsInTheLog));
}

#[test]
fn a_step_that_the_plan_does_not_finish_is_found() {
    is_found(GlueTwist::Worker(Mutation::StepUnfinished));
}

#[test]
fn a_ticket_that_is_ignored_is_found() {
    is_found(GlueTwist::TicketIgnored);
}

#[test]
fn a_frame_that_is_tried_again_after_its_deadline_is_found() {
    is_found(GlueTwist::TriesLate);
}

#[test]
fn a_second_consumer_of_a_queue_is_found() {
    is_found(GlueTwist::SecondTaker);
}
