//! H6, H7: idempotency keys.

use super::*;
use crate::collection::{OnGap, OnReject};

#[test]
fn h7_a_key_gets_its_first_outcome_again() {
    let mut desk = Desk::new();
    let first = desk.send(put("1").key("k"));
    desk.send(put("2"));
    assert_eq!(desk.send(put("1").key("k")), first);
    assert!(desk.last.outcomes[0].repeat);
    let rejected = desk.send(failing().key("r"));
    assert_eq!(desk.send(failing().key("r")), rejected, "with its detail");
    assert_eq!((desk.version(), desk.count(TenantCounter::Repeats)), (2, 2));
}

#[test]
fn h7_a_key_with_another_piece_is_rejected_and_goes_on_standing_for_the_first() {
    let mut desk = Desk::new();
    let first = desk.send(put("1").key("k"));
    assert_eq!(reason(&desk.send(put("2").key("k"))), Some(Reason::KEY_REUSED));
    assert_eq!(desk.send(put("1").key("k")), first);
    assert_eq!(desk.count(TenantCounter::Rejected), 1);
}

#[test]
fn h7_a_key_counts_for_ids_for() {
    let mut desk = Desk::new();
    desk.send(put("1").key("k"));
    let lifetime = desk.collection.ids_for.as_millis() as u64;
    desk.time += lifetime;
    assert_eq!(applied_version(&desk.send(put("1").key("k"))), Some(1), "still the first outcome");
    desk.time += 1;
    assert_eq!(applied_version(&desk.send(put("1").key("k"))), Some(2));
}

#[test]
fn h7_a_failed_condition_names_the_present_version_and_its_piece() {
    let mut desk = Desk::new();
    desk.send(put("1").number("s", 1));
    let outcome = desk.send(put("2").given(Condition::Absent).key("k"));
    let PieceOutcome::Rejected { reason, version, current, .. } = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((*reason, *version), (Reason::CONDITION_FAILED, 1));
    assert_eq!(*current, Some(("s".into(), 1)));
    desk.send(put("3"));
    assert_eq!(desk.send(put("2").given(Condition::Absent).key("k")), outcome);
}

#[test]
fn a_key_of_a_waiting_piece_learns_how_the_piece_ended() {
    let mut desk = Desk::with(|collection| {
        collection.on_gap = OnGap::Skip;
        collection.on_reject = OnReject::Halt;
    });
    desk.send(put("{\"a\":[]}"));
    let held = number(2).key("k");
    assert!(matches!(desk.send(held), PieceOutcome::Held(_)));
    assert!(matches!(desk.send(held), PieceOutcome::Held(_)));
    desk.send(number(1));
    assert_eq!(applied_version(&desk.send(held)), Some(3));

    desk.send(failing());
    let place = desk.last_place();
    let queued = number(3).key("q");
    assert_eq!(desk.send(queued), PieceOutcome::Queued);
    desk.say(WordAction::Discard { place });
    assert_eq!(applied_version(&desk.send(queued)), Some(4));
}

#[test]
fn h4_a_refused_key_leaves_the_number_of_a_held_piece_to_that_piece() {
    for (on_gap, document, rejected) in
        [(OnGap::Skip, r#"{"a":[1,3,4]}"#, 1), (OnGap::Reject, r#"{"a":[1]}"#, 3)]
    {
        let mut desk = Desk::with_array(|collection| collection.on_gap = on_gap);
        desk.send(number(1).key("k"));
        desk.send(number(3));
        desk.send(number(4));
        let reused = number(3).key("k");
        assert_eq!(reason(&desk.send(reused)), Some(Reason::KEY_REUSED));
        assert_eq!(desk.count(TenantCounter::Held), 2, "both go on waiting");
        desk.gap_is_over("s", 2);
        assert_eq!(desk.document().as_deref(), Some(document), "{on_gap:?}");
        assert_eq!(desk.count(TenantCounter::Rejected), rejected, "{on_gap:?}");
        assert_eq!(desk.count(TenantCounter::Held), 0, "{on_gap:?}: no piece is left behind");
    }
}
