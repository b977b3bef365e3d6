//! H1, H4, H5, H7: numbers of sources.

use super::*;
use crate::bounds::{MAX_PASSED_RANGES, MAX_SKIPPED_RANGES, MAX_SOURCES};

#[test]
fn h1_pieces_are_applied_in_the_order_of_their_numbers() {
    let mut desk = Desk::with_array(|_| {});
    for seq in [1, 3, 2, 2, 1, 4] {
        desk.send(number(seq));
    }
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,2,3,4]}"#));
    assert_eq!((desk.version(), desk.count(TenantCounter::Repeats)), (5, 2));
}

#[test]
fn h1_a_33rd_source_is_rejected_and_leaves_no_trace() {
    let mut desk = Desk::with_array(|_| {});
    let names: Vec<String> = (0..=MAX_SOURCES).map(|n| format!("s{n}")).collect();
    for name in &names[..MAX_SOURCES] {
        assert!(applied_version(&desk.send(number(1).number(name, 1))).is_some());
    }
    let one_more = number(1).number(&names[MAX_SOURCES], 1);
    assert_eq!(reason(&desk.send(one_more)), Some(Reason::TOO_MANY_SOURCES));
    assert_eq!(reason(&desk.send(one_more)), Some(Reason::TOO_MANY_SOURCES));
    assert_eq!(desk.state.head.sources.len(), MAX_SOURCES);
    assert!(applied_version(&desk.send(number(2).number(&names[0], 2))).is_some());
}

#[test]
fn h4_a_number_that_is_held_is_known() {
    let mut desk = Desk::with_array(|_| {});
    assert_eq!(desk.send(number(3)), PieceOutcome::Held(vec![1, 2]));
    assert_eq!(desk.send(number(5)), PieceOutcome::Held(vec![1, 2, 4]));
    assert_eq!(desk.send(number(3)), PieceOutcome::Held(vec![1, 2]));
    assert_eq!(desk.count(TenantCounter::Held), 2);
    assert_eq!(desk.count(TenantCounter::Repeats), 1);
}

#[test]
fn h5_a_rejected_piece_uses_up_its_number() {
    let mut desk = Desk::with_array(|_| {});
    let rejected = desk.send(failing().number("s", 1));
    assert_eq!(reason(&rejected), Some(Reason::MISSING_PATH));
    assert_eq!(reason(&desk.send(number(1))), Some(Reason::MISSING_PATH), "the same rejection");
    assert_eq!(applied_version(&desk.send(number(2))), Some(2));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[2]}"#));
}

#[test]
fn h7_the_last_number_gets_its_first_outcome_and_older_ones_a_plain_repeat() {
    let mut desk = Desk::with_array(|_| {});
    let first = desk.send(number(1));
    assert_eq!(desk.send(number(1)), first);
    assert!(desk.last.outcomes[0].repeat);
    desk.send(number(2));
    assert_eq!(desk.send(number(1)), PieceOutcome::Repeat);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,2]}"#));
}

#[test]
fn h7_a_repeat_is_known_before_its_condition_is_checked() {
    let mut desk = Desk::new();
    let create = put("1").number("s", 1).given(Condition::Absent);
    let first = desk.send(create);
    assert_eq!(applied_version(&first), Some(1));
    assert_eq!(desk.send(create), first);
}

#[test]
fn h2_beyond_eight_skipped_ranges_the_two_lowest_merge_and_are_late() {
    let mut desk = Desk::with_array(|_| {});
    // 2, 4, 6, … come; 1, 3, 5, … are skipped.
    for seq in (2..=2 * (MAX_SKIPPED_RANGES as u64 + 2)).step_by(2) {
        desk.send(number(seq));
        desk.gap_is_over("s", seq - 1);
    }
    let source = desk.state.head.source("s").unwrap();
    assert_eq!(source.skipped.len(), MAX_SKIPPED_RANGES);
    assert_eq!(source.skipped[0], (1, 5), "the three lowest became one");
    assert_eq!(reason(&desk.send(number(4))), Some(Reason::LATE), "never taken for a repeat");
    assert_eq!(reason(&desk.send(number(7))), Some(Reason::LATE));
    assert_eq!(desk.send(number(8)), PieceOutcome::Repeat);
}

#[test]
fn h5_numbers_rejected_ahead_of_their_turn_are_stepped_over() {
    let mut desk = Desk::with_array(|collection| {
        collection.on_reject = crate::collection::OnReject::Halt;
    });
    desk.send(failing());
    let halting = desk.last_place();
    let large = format!(r#"[{{"op":"add","path":"/a/-","value":"{}"}}]"#, "x".repeat(300_000));
    // 1 is missing; 2, 4 and 3 find no room behind the halt.
    for seq in [2, 4, 3] {
        assert_eq!(reason(&desk.send(patch(&large).number("s", seq))), Some(Reason::HALTED));
    }
    let passed = &desk.state.pending.passed;
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!((passed[0].first, passed[0].last), (2, 4));
    assert_eq!(desk.send(number(3)), PieceOutcome::Repeat);
    desk.say(WordAction::Discard { place: halting });
    desk.send(number(1));
    assert_eq!(applied_version(&desk.send(number(5))), Some(3));
    assert!(desk.state.pending.is_empty());
}

#[test]
fn numbers_ahead_of_their_turn_are_remembered_within_a_bound() {
    let mut desk = Desk::with_array(|collection| {
        collection.on_reject = crate::collection::OnReject::Halt;
    });
    desk.send(failing());
    let large = "x".repeat(300_000);
    for n in 1..=MAX_PASSED_RANGES as u64 + 5 {
        desk.send(put(&large).number("s", 2 * n + 1));
    }
    assert_eq!(desk.state.pending.passed.len(), MAX_PASSED_RANGES);
}
