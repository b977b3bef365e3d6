//! H2, H3: gaps in numbers.

use super::*;
use crate::bounds::MAX_PENDING_PIECES;
use crate::collection::OnGap;
use crate::fold::word;
use crate::stored::DocumentFlow;

fn with_gap(on_gap: OnGap) -> Desk {
    let mut desk = Desk::with_array(|collection| collection.on_gap = on_gap);
    for seq in [1, 3, 4, 7] {
        desk.send(number(seq));
    }
    desk
}

#[test]
fn h2_skip_notes_the_missing_numbers_and_applies_the_held_pieces() {
    let mut desk = with_gap(OnGap::Skip);
    desk.gap_is_over("s", 2);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,3,4]}"#));
    let note = &desk.last.rejects[0];
    assert_eq!((note.reason, note.form), (Reason::GAP, None));
    assert_eq!((note.source.clone(), note.missing_to), (Some(("s".into(), 2)), Some(2)));
    assert_eq!(desk.count(TenantCounter::Rejected), 0, "a note is no piece");
    assert_eq!(reason(&desk.send(number(2))), Some(Reason::LATE));
    assert_eq!(desk.count(TenantCounter::Held), 1, "5 and 6 are awaited by themselves");
    desk.gap_is_over("s", 5);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,3,4,7]}"#));
    assert_eq!(desk.last.rejects[0].missing_to, Some(6));
}

#[test]
fn h2_reject_rejects_the_held_pieces() {
    let mut desk = with_gap(OnGap::Reject);
    desk.gap_is_over("s", 2);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1]}"#));
    let seqs: Vec<_> =
        desk.last.rejects.iter().map(|entry| entry.source.clone().unwrap().1).collect();
    assert_eq!(seqs, [3, 4]);
    assert!(desk.last.rejects.iter().all(|entry| entry.reason == Reason::GAP));
    assert_eq!(reason(&desk.send(number(2))), Some(Reason::LATE));
    assert_eq!(reason(&desk.send(number(4))), Some(Reason::GAP), "a repeat of the rejected piece");
    desk.send(number(5));
    desk.send(number(6));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,5,6,7]}"#));
}

#[test]
fn h2_halt_halts_until_the_missing_piece_arrives() {
    let mut desk = with_gap(OnGap::Halt);
    desk.gap_is_over("s", 2);
    assert_eq!(desk.state.head.flow, DocumentFlow::Halted);
    assert_eq!(desk.count(TenantCounter::Queued), 1, "the halting piece counts as queued");
    assert_eq!(desk.state.head.deadline, None, "H3: a halted document has no due cell");
    assert_eq!(desk.send(merge(r#"{"b":1}"#)), PieceOutcome::Queued);
    assert_eq!(applied_version(&desk.send(number(2))), Some(3));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,2,3,4],"b":1}"#));
    assert_eq!(desk.state.head.flow, DocumentFlow::Open);
    assert_eq!((desk.count(TenantCounter::Queued), desk.count(TenantCounter::Held)), (0, 1));
}

#[test]
fn h31_discard_skips_the_gap_of_a_halted_document() {
    let mut desk = with_gap(OnGap::Halt);
    let third = desk.state.pending.pieces[0].place;
    desk.gap_is_over("s", 2);
    let refused = desk.say(WordAction::Retry { place: third, replacement: None }).unwrap();
    assert_eq!(reason(&refused), Some(Reason::GAP));
    let discarded = desk.say(WordAction::Discard { place: third });
    assert_eq!(discarded, Some(PieceOutcome::Discarded));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,3,4]}"#));
    assert_eq!(reason(&desk.send(number(2))), Some(Reason::LATE));
}

#[test]
fn h3_a_gap_word_acts_only_while_its_number_is_awaited() {
    let mut desk = with_gap(OnGap::Skip);
    desk.gap_is_over("s", 3);
    desk.gap_is_over("other", 1);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1]}"#));
    desk.send(number(2));
    desk.gap_is_over("s", 2);
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,2,3,4]}"#));
    assert!(desk.last.rejects.is_empty(), "the number came before the word");
}

#[test]
fn h3_the_deadline_is_that_of_the_piece_that_waits_longest() {
    let mut desk = Desk::with_array(|_| {});
    let gap_for = desk.collection.gap_for.as_millis() as u64;
    desk.send(number(2));
    desk.time += 10;
    desk.send(number(4));
    assert_eq!(desk.state.head.deadline, Some(Timestamp(1_000 + gap_for)));
    desk.time += 10;
    desk.send(number(1));
    assert_eq!(desk.state.head.deadline, Some(Timestamp(1_010 + gap_for)));
    let (deadline, due) = word(&desk.collection, ("t", "i"), &desk.state).unwrap();
    assert_eq!(Some(deadline), desk.state.head.deadline);
    assert_eq!(due.action, WordAction::Gap { source: "s".into(), number: 3 });
    desk.send(number(3));
    assert_eq!(desk.state.head.deadline, None);
}

/// Fills the pending cell with pieces of another source.
fn fill(desk: &mut Desk) {
    for n in 0..MAX_PENDING_PIECES as u64 {
        assert!(matches!(desk.send(number(n).number("full", n + 2)), PieceOutcome::Held(_)));
    }
}

#[test]
fn h2_a_full_pending_cell_ends_a_gap_at_once() {
    let mut desk = Desk::with_array(|_| {});
    fill(&mut desk);
    assert_eq!(applied_version(&desk.send(number(3))), Some(2));
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[3]}"#));
    assert_eq!(desk.last.rejects[0].missing_to, Some(2));
    let next = MAX_PENDING_PIECES as u64 + 2;
    let outcome = desk.send(number(0).number("full", next));
    assert_eq!(
        outcome,
        PieceOutcome::Queued,
        "200 pieces were released, and others wait before it"
    );
    assert_eq!(desk.state.head.flow, DocumentFlow::Releasing);
    desk.say(WordAction::Release);
    assert_eq!(desk.version(), 2 + next - 1);
    assert!(desk.state.pending.is_empty());
}

#[test]
fn h2_a_full_pending_cell_rejects_by_on_gap_reject() {
    let mut desk = Desk::with_array(|collection| collection.on_gap = OnGap::Reject);
    fill(&mut desk);
    assert_eq!(reason(&desk.send(number(3))), Some(Reason::GAP));
    assert_eq!(applied_version(&desk.send(number(4))), Some(2), "its number is used up");
    let next = MAX_PENDING_PIECES as u64 + 2;
    assert!(applied_version(&desk.send(number(0).number("full", next))).is_some());
    assert_eq!(desk.count(TenantCounter::Rejected), 1 + MAX_PENDING_PIECES as i64);
}

#[test]
fn h2_a_full_pending_cell_halts_by_on_gap_halt() {
    let mut desk = Desk::with_array(|collection| collection.on_gap = OnGap::Halt);
    fill(&mut desk);
    let next = MAX_PENDING_PIECES as u64 + 2;
    assert_eq!(reason(&desk.send(number(0).number("full", next))), Some(Reason::HALTED));
    assert_eq!(desk.state.head.flow, DocumentFlow::Halted);
    assert!(applied_version(&desk.send(number(0).number("full", 1))).is_some());
    desk.say(WordAction::Release);
    assert!(desk.state.pending.is_empty(), "the rejected number was stepped over");
    assert!(applied_version(&desk.send(number(0).number("full", next + 1))).is_some());
}

#[test]
fn a_held_piece_follows_its_predecessor_and_not_the_queue() {
    let mut desk = Desk::with_array(|collection| {
        collection.on_reject = crate::collection::OnReject::Halt;
    });
    desk.send(number(2));
    desk.send(failing());
    let halting = desk.last_place();
    desk.send(number(1));
    desk.send(number(9).number("x", 1));
    desk.say(WordAction::Discard { place: halting });
    assert_eq!(desk.document().as_deref(), Some(r#"{"a":[1,2,9]}"#));
}
