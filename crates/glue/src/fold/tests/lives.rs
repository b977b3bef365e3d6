//! H18–H21: documents begin, end and begin again.

use super::*;
use crate::collection::Absent;
use crate::fold::word;
use crate::stored::Existence;

#[test]
fn h18_forms_without_a_document() {
    let add = r#"[{"op":"add","path":"/b","value":1}]"#;
    let template: fn(&mut Collection) = |collection| collection.template = Some("{\"a\":0}".into());
    let reject: fn(&mut Collection) = |collection| collection.absent = Absent::Reject;
    let plain: fn(&mut Collection) = |_| {};
    let no_document: Result<&str, Reason> = Err(Reason::NO_DOCUMENT);
    let cases = [
        (plain, put("[1]"), Ok("[1]")),
        (plain, merge(r#"{"a":1,"b":null}"#), Ok(r#"{"a":1}"#)),
        (reject, merge(r#"{"a":1}"#), no_document),
        (plain, patch(add), no_document),
        (template, patch(add), Ok(r#"{"a":0,"b":1}"#)),
        (template, merge(r#"{"b":1}"#), Ok(r#"{"b":1}"#)),
        (reject, put("2"), Ok("2")),
    ];
    for (change, sent, expected) in cases {
        let mut desk = Desk::with(change);
        let outcome = desk.send(sent);
        match expected {
            Ok(document) => {
                assert_eq!(applied_version(&outcome), Some(1));
                assert_eq!(desk.document().as_deref(), Some(document));
            }
            Err(expected) => {
                assert_eq!(reason(&outcome), Some(expected));
                assert!(desk.state.is_blank(), "a rejected piece without a number leaves no head");
            }
        }
    }
}

#[test]
fn h19_a_delete_leaves_a_tombstone_with_the_numbers() {
    let mut desk = Desk::with_array(|_| {});
    desk.send(number(1));
    let deleted = desk.send(delete().number("s", 2));
    assert_eq!(applied_version(&deleted), Some(3));
    assert_eq!((desk.state.head.existence, desk.document()), (Existence::Deleted, None));
    assert_eq!(desk.send(number(1)), PieceOutcome::Repeat);
    assert_eq!(desk.send(delete().number("s", 2)), deleted);
    for late in [number(3), merge("{}"), patch("[]")] {
        assert_eq!(reason(&desk.send(late)), Some(Reason::DELETED));
    }
    assert_eq!(desk.count(TenantCounter::Bytes), 0);
}

#[test]
fn h19_only_put_begins_a_new_life_and_a_merge_patch_with_revive() {
    let mut desk = Desk::with_array(|_| {});
    desk.send(delete());
    let PieceOutcome::Applied(tag) = desk.send(put("1")) else { panic!("a new life begins") };
    assert_eq!((tag.version, tag.life), (3, desk.last_place()), "H20: versions go on");

    let mut reviving = Desk::with_array(|collection| {
        collection.revive = true;
        collection.absent = Absent::Reject;
    });
    reviving.send(delete());
    assert_eq!(reason(&reviving.send(patch("[]"))), Some(Reason::DELETED));
    let revived = reviving.send(merge(r#"{"b":1}"#));
    assert_eq!(applied_version(&revived), Some(3));
    assert_eq!(
        reviving.document().as_deref(),
        Some(r#"{"b":1}"#),
        "of the old life nothing is left"
    );
    assert_eq!(reviving.state.head.life, Some(reviving.last_place()));
}

#[test]
fn h20_a_put_on_a_live_document_continues_its_life() {
    let mut desk = Desk::new();
    desk.send(put("1"));
    let life = desk.last_place();
    desk.send(put("2"));
    assert_eq!((desk.state.head.life, desk.version()), (Some(life), 2));
    assert_eq!((desk.last.versions[0].was, desk.last.versions[0].tag.version), (1, 2));
}

#[test]
fn h21_a_delete_without_a_document_makes_no_version() {
    let mut desk = Desk::new();
    assert_eq!(desk.send(delete()), PieceOutcome::Unchanged);
    assert!(desk.state.is_blank() && desk.last.versions.is_empty());
    desk.send(put("1"));
    desk.send(delete());
    assert_eq!(desk.send(delete()), PieceOutcome::Unchanged);
    assert_eq!((desk.version(), desk.count(TenantCounter::Repeats)), (2, 2));
    assert_eq!(desk.send(delete().number("s", 1)), PieceOutcome::Unchanged);
    assert_eq!(desk.state.head.source("s").unwrap().last, 1, "its number is used up");
}

#[test]
fn a_tombstone_is_forgotten_at_its_deadline_and_not_while_pieces_wait() {
    let mut desk = Desk::with_array(|_| {});
    desk.send(delete());
    let tombstones = desk.collection.tombstones.as_millis() as u64;
    let deadline = Timestamp(1_000 + tombstones);
    assert_eq!(desk.state.head.deadline, Some(deadline));
    let (_, due) = word(&desk.collection, ("t", "i"), &desk.state).unwrap();
    assert_eq!(due.action, WordAction::forget(deadline));

    desk.time += 5;
    desk.send(put("1").number("s", 2));
    desk.say(WordAction::forget(deadline));
    assert!(!desk.state.is_blank(), "a piece is held");
    desk.gap_is_over("s", 1);
    desk.say(WordAction::forget(deadline));
    assert_eq!(desk.document().as_deref(), Some("1"), "a live document is never forgotten");

    desk.send(delete());
    desk.say(WordAction::forget(deadline));
    assert!(!desk.state.is_blank(), "the head changed after this deadline was set");
    desk.say(WordAction::forget(Timestamp(1_005 + tombstones)));
    assert!(desk.state.is_blank());
    assert_eq!(desk.last.forgotten_at, Some(4));
    assert_eq!(applied_version(&desk.send(put("2"))), Some(1));
}
