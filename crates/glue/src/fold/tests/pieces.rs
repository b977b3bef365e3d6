//! H7, H13–H16, H22, H23, H33: conditions, bounds, counters, careful folds.

use super::*;
use crate::bounds::MAX_PIECE;
use crate::collection::FeedContent;
use crate::fold::check_piece;

#[test]
fn h22_conditions_are_checked_when_the_piece_is_applied() {
    let mut desk = Desk::new();
    let exists = |content| put(content).given(Condition::Exists);
    let absent = |content| put(content).given(Condition::Absent);
    assert_eq!(reason(&desk.send(exists("1"))), Some(Reason::CONDITION_FAILED));
    assert_eq!(applied_version(&desk.send(absent("1"))), Some(1));
    let tag = desk.state.head.tag().unwrap();
    let is = |version| Condition::Is(DocumentTag { version, ..tag });
    assert_eq!(applied_version(&desk.send(exists("2"))), Some(2));
    assert_eq!(reason(&desk.send(put("3").given(is(1)))), Some(Reason::CONDITION_FAILED));
    assert_eq!(applied_version(&desk.send(put("3").given(is(2)))), Some(3));
    desk.send(delete().given(is(3)));
    assert_eq!(reason(&desk.send(put("5").given(is(4)))), Some(Reason::CONDITION_FAILED));
    assert_eq!(
        reason(&desk.send(merge("{}").given(is(4)))),
        Some(Reason::DELETED),
        "H7: the tombstone first"
    );
    assert_eq!(applied_version(&desk.send(absent("5"))), Some(5));
}

#[test]
fn h22_a_condition_on_an_older_life_fails() {
    let mut desk = Desk::new();
    desk.send(put("1"));
    let old = desk.state.head.tag().unwrap();
    desk.send(delete());
    desk.send(put("1"));
    let same_version = DocumentTag { version: 3, ..old };
    let outcome = desk.send(put("2").given(Condition::Is(same_version)));
    assert_eq!(reason(&outcome), Some(Reason::CONDITION_FAILED));
}

#[test]
fn h13_a_result_above_max_document_is_rejected_and_the_document_stays() {
    let mut desk = Desk::with(|collection| collection.max_document = 20);
    desk.send(put(r#"{"a":1}"#));
    for large in [put(r#""0123456789012345678901""#), merge(r#"{"b":"0123456789012345"}"#)] {
        assert_eq!(reason(&desk.send(large)), Some(Reason::TOO_LARGE));
        assert_eq!(desk.document().as_deref(), Some(r#"{"a":1}"#));
    }
    assert_eq!(desk.last.rejects.len(), 1);
    assert_eq!(desk.count(TenantCounter::Bytes), 7);
}

#[test]
fn h40_an_xml_piece_is_bounded_as_the_text_that_rows_hold() {
    let quotes = format!("<a>{}</a>", "\"".repeat(MAX_PIECE / 2));
    let refused = check_piece(DocumentFormat::Xml, PieceForm::Whole, quotes.as_bytes());
    assert_eq!(refused.map_err(|error| error.reason), Err(Reason::PIECE_TOO_LARGE));
    let plain = format!("<a>{}</a>", "x".repeat(MAX_PIECE / 2));
    assert_eq!(check_piece(DocumentFormat::Xml, PieceForm::Whole, plain.as_bytes()), Ok(()));
    let mut desk = Desk::with(|collection| {
        collection.format = DocumentFormat::Xml;
        collection.max_document = MAX_PIECE;
    });
    assert_eq!(reason(&desk.send(put(&quotes))), Some(Reason::PIECE_TOO_LARGE));
    assert_eq!(applied_version(&desk.send(put(&plain))), Some(1));
}

#[test]
fn rows_hold_the_document_where_the_collection_says_so() {
    let mut desk = Desk::with(|collection| {
        collection.feed = FeedContent::Document;
        collection.max_document = 1_000;
    });
    desk.send(merge(r#"{"a":1}"#));
    assert_eq!(desk.last.versions[0].document.as_deref(), Some(&br#"{"a":1}"#[..]));
    desk.send(delete());
    assert_eq!(desk.last.versions[0].document, None);
    let mut plain = Desk::new();
    plain.send(merge(r#"{"a":1}"#));
    assert_eq!(plain.last.versions[0].document, None);
}

#[test]
fn the_history_stores_documents_every_sixteen_versions_and_behind_large_pieces() {
    let mut desk = Desk::with_array(|collection| collection.history = 100);
    assert_eq!(desk.last.versions[0].document, None, "a whole piece is a document");
    for version in 2..=16 {
        desk.send(number(version - 1));
        assert_eq!(desk.last.versions[0].document.is_some(), version == 16, "{version}");
    }
    let large = format!(r#"{{"b":"{}"}}"#, "x".repeat(17_000));
    desk.send(merge(&large));
    assert!(desk.last.versions[0].document.is_some());
    let mut created = Desk::with(|collection| collection.history = 1);
    created.send(merge("{}"));
    assert!(created.last.versions[0].document.is_some(), "a patch that begins a life");
}

#[test]
fn h33_every_piece_is_counted_once() {
    let mut desk = Desk::with_array(|_| {});
    // `Desk::record` checks the sum after each.
    for seq in [2, 2, 1, 1, 5, 9, 7] {
        desk.send(number(seq).key("k"));
        desk.send(number(seq));
        desk.send(failing());
    }
    desk.gap_is_over("s", 3);
    assert_eq!(desk.count(TenantCounter::Received), 22);
}

#[test]
fn h15_a_careful_fold_gives_the_same_as_a_plain_one() {
    let pieces = [
        put(r#"{"a":[]}"#),
        number(2),
        failing(),
        merge(r#"{"b":{"c":1}}"#),
        number(1),
        put("7"),
        delete(),
        number(3),
        put(r#"{"a":[]}"#),
    ];
    let (mut plain, mut state) = (Desk::new(), DocumentState::default());
    for sent in pieces {
        plain.send(sent);
        let incoming = IncomingPiece {
            piece: sent.0,
            place: plain.last_place(),
            time: Timestamp(plain.time),
            waiter: plain.last.outcomes.first().map(|entry| entry.key),
            origin: PieceOrigin::Log,
        };
        let fold = Fold::new(&plain.collection, ("t", "i"), &mut state).carefully();
        assert_eq!(fold.piece(&incoming, &[]), plain.last);
        assert_eq!((&state.head, &state.pending), (&plain.state.head, &plain.state.pending));
    }
}

#[test]
fn h15_an_untried_rejection_uses_up_its_number() {
    let mut desk = Desk::with_array(|_| {});
    let incoming = IncomingPiece {
        piece: number(1).0,
        place: desk.next_place(),
        time: Timestamp(desk.time),
        waiter: None,
        origin: PieceOrigin::Log,
    };
    let rejection = crate::Rejection::new(Reason::TOO_LARGE, "x");
    let fold = Fold::new(&desk.collection, ("t", "i"), &mut desk.state);
    let effects = fold.reject_untried(&incoming, &rejection);
    desk.record(effects);
    assert_eq!(reason(&desk.send(number(1))), Some(Reason::TOO_LARGE));
    assert!(applied_version(&desk.send(number(2))).is_some());
}
