//! H29–H31: halted and releasing documents.

use super::*;
use crate::bounds::{MAX_PENDING_PIECES, MAX_RELEASED_BYTES, MAX_RELEASED_PIECES};
use crate::collection::OnReject;
use crate::fold::word;
use crate::stored::word::Replacement;
use crate::stored::{DocumentFlow, PendingState};

fn halted() -> (Desk, PiecePlace) {
    let mut desk = Desk::with_array(|collection| collection.on_reject = OnReject::Halt);
    let outcome = desk.send(failing().key("k").number("s", 1));
    assert_eq!(reason(&outcome), Some(Reason::MISSING_PATH));
    assert_eq!(desk.state.head.flow, DocumentFlow::Halted);
    let place = desk.last_place();
    (desk, place)
}

fn replacement(content: &'static str) -> Option<Replacement> {
    Some(Replacement { form: PieceForm::JsonPatch, content: content.into() })
}

#[test]
fn h29_pieces_behind_a_halt_move_into_the_pending_cell() {
    let (mut desk, _) = halted();
    assert_eq!(desk.count(TenantCounter::Queued), 1, "the halting piece counts as queued");
    assert_eq!(desk.last.rejects.len(), 1, "and is listed, with its place");
    assert_eq!(desk.send(number(2)), PieceOutcome::Queued);
    assert_eq!(desk.send(number(2)), PieceOutcome::Queued, "H4: a queued number is known");
    assert_eq!(
        reason(&desk.send(number(1))),
        Some(Reason::MISSING_PATH),
        "H5: so is the halting one"
    );
    assert_eq!((desk.count(TenantCounter::Queued), desk.count(TenantCounter::Repeats)), (2, 2));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[]}"#));
}

#[test]
fn h29_beyond_the_bound_they_are_rejected_with_their_content() {
    let (mut desk, place) = halted();
    for n in 2..=MAX_PENDING_PIECES as u64 {
        assert_eq!(desk.send(number(n)), PieceOutcome::Queued);
    }
    let one_more = MAX_PENDING_PIECES as u64 + 1;
    assert_eq!(reason(&desk.send(number(one_more))), Some(Reason::HALTED));
    assert!(matches!(desk.last.rejects[0].content, crate::stored::RejectedContent::Inline(_)));
    desk.say(WordAction::Discard { place });
    desk.say(WordAction::Release);
    assert_eq!(applied_version(&desk.send(number(one_more + 1))), Some(one_more));
}

#[test]
fn h31_retry_with_another_place_changes_nothing() {
    let (mut desk, place) = halted();
    let before = desk.state.clone();
    let other = PiecePlace { record: 7, ..place };
    for action in [
        WordAction::Retry { place: other, replacement: None },
        WordAction::Discard { place: other },
    ] {
        assert_eq!(reason(&desk.say(action).unwrap()), Some(Reason::NOT_HALTED));
        assert_eq!((&desk.state.head, &desk.state.pending), (&before.head, &before.pending));
    }
    desk.say(WordAction::Discard { place });
    let again = desk.say(WordAction::Discard { place }).unwrap();
    assert_eq!(reason(&again), Some(Reason::NOT_HALTED));
}

#[test]
fn h31_retry_takes_a_replacement_and_releases_the_queue() {
    let (mut desk, place) = halted();
    desk.send(number(2));
    let failed = desk.say(WordAction::Retry { place, replacement: None }).unwrap();
    assert_eq!(reason(&failed), Some(Reason::MISSING_PATH));
    assert_eq!(desk.state.head.flow, DocumentFlow::Halted);
    let also_failed = replacement(r#"[{"op":"remove","path":"/b"}]"#);
    desk.say(WordAction::Retry { place, replacement: also_failed });
    let kept = desk.state.pending.pieces[0].piece().unwrap().content;
    assert_eq!(kept, failing().0.content, "a failed replacement replaces nothing");

    let works = replacement(r#"[{"op":"add","path":"/a/-","value":"r"}]"#);
    let applied = desk.say(WordAction::Retry { place, replacement: works }).unwrap();
    assert_eq!(applied_version(&applied), Some(2));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":["r",2]}"#));
    assert_eq!(desk.state.head.flow, DocumentFlow::Open);
    assert_eq!((desk.count(TenantCounter::Applied), desk.count(TenantCounter::Queued)), (3, 0));
    // The number and key of the halting piece now stand for the applied replacement.
    let repeat = desk.send(failing().key("k").number("s", 1));
    assert_eq!(applied_version(&repeat), Some(2));
}

#[test]
fn h31_a_halting_piece_that_does_not_fit_can_only_be_replaced_or_discarded() {
    let mut desk = Desk::with_array(|collection| collection.on_reject = OnReject::Halt);
    let large = format!(r#"[{{"op":"replace","path":"/none","value":"{}"}}]"#, "x".repeat(300_000));
    desk.send(patch(&large).number("s", 1));
    let place = desk.last_place();
    assert_eq!(desk.state.pending.pieces[0].state, PendingState::HaltingWithoutContent);
    let refused = desk.say(WordAction::Retry { place, replacement: None }).unwrap();
    assert_eq!(reason(&refused), Some(Reason::NOT_HALTED));
    assert_eq!(desk.state.head.flow, DocumentFlow::Halted);
    let works = replacement(r#"[{"op":"add","path":"/a/-","value":"r"}]"#);
    assert!(
        applied_version(&desk.say(WordAction::Retry { place, replacement: works }).unwrap())
            .is_some()
    );
    assert_eq!(applied_version(&desk.send(number(2))), Some(3));
}

#[test]
fn h31_discard_rejects_the_halting_piece_for_good() {
    let (mut desk, place) = halted();
    desk.send(number(2));
    assert_eq!(desk.say(WordAction::Discard { place }), Some(PieceOutcome::Discarded));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[2]}"#));
    assert_eq!((desk.count(TenantCounter::Rejected), desk.count(TenantCounter::Queued)), (1, 0));
    let repeat = desk.send(failing().key("k").number("s", 1));
    assert_eq!(reason(&repeat), Some(Reason::MISSING_PATH));
}

#[test]
fn h30_a_record_releases_a_bounded_number_of_pieces() {
    let (mut desk, place) = halted();
    for n in 2..=MAX_PENDING_PIECES as u64 {
        desk.send(number(n));
    }
    desk.say(WordAction::Discard { place });
    assert_eq!(desk.last.versions.len(), MAX_RELEASED_PIECES);
    assert_eq!(desk.state.head.flow, DocumentFlow::Releasing);
    let (deadline, due) = word(&desk.collection, ("t", "i"), &desk.state).unwrap();
    assert_eq!((deadline, due.action), (Timestamp(desk.time), WordAction::Release));
    // The next piece first releases the rest, and is then applied itself.
    let next = MAX_PENDING_PIECES as u64 + 1;
    assert_eq!(applied_version(&desk.send(number(next))), Some(next));
    assert_eq!(desk.state.head.flow, DocumentFlow::Open);
}

#[test]
fn h30_a_record_releases_a_bounded_number_of_bytes() {
    let mut desk = Desk::with_array(|collection| {
        collection.on_reject = OnReject::Halt;
        collection.feed = crate::collection::FeedContent::Document;
        collection.max_document = 256 << 10;
    });
    desk.send(patch(&format!(r#"[{{"op":"add","path":"/b","value":"{}"}}]"#, "x".repeat(200_000))));
    desk.send(failing());
    let place = desk.last_place();
    for n in 1..=100 {
        desk.send(number(n));
    }
    desk.say(WordAction::Discard { place });
    assert!(desk.last.versions.len() < 20, "{}", desk.last.versions.len());
    assert!(desk.last.weight < MAX_RELEASED_BYTES + (1 << 20));
    // A hot document leaves the release by its own traffic, in order.
    let mut sent = 100;
    while desk.state.head.flow == DocumentFlow::Releasing {
        sent += 1;
        desk.send(number(sent));
        assert!(sent < 200, "the queue shrinks with every piece");
    }
    assert_eq!(desk.version(), 2 + sent);
}

#[test]
fn h30_a_piece_of_a_releasing_document_queues_while_others_wait() {
    let (mut desk, place) = halted();
    for n in 2..=MAX_PENDING_PIECES as u64 {
        desk.send(number(n));
    }
    desk.say(WordAction::Discard { place });
    // One record releases at most 200 pieces: 55 are left. With more it would queue; with these it is applied.
    assert_eq!(desk.count(TenantCounter::Queued), 55);
    let repeat = desk.send(number(250));
    assert!(matches!(repeat, PieceOutcome::Repeat), "{repeat:?}");
}

#[test]
fn h22_late_deleted_and_failed_conditions_never_halt() {
    let mut desk = Desk::with_array(|collection| collection.on_reject = OnReject::Halt);
    desk.send(number(2));
    desk.gap_is_over("s", 1);
    assert_eq!(reason(&desk.send(number(1))), Some(Reason::LATE));
    assert_eq!(
        reason(&desk.send(merge("{}").given(Condition::Absent))),
        Some(Reason::CONDITION_FAILED)
    );
    desk.send(delete());
    assert_eq!(reason(&desk.send(merge("{}"))), Some(Reason::DELETED));
    assert_eq!(desk.state.head.flow, DocumentFlow::Open);
}
