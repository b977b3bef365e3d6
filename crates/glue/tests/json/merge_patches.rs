//! Merge patches (RFC 7396).

use consort_glue::bounds::{MAX_DEPTH, MAX_PIECE};
use consort_glue::json::JsonDocument;
use consort_glue::{PieceForm, Reason};

use crate::{applied, apply, document, text};

#[test]
fn members_are_set_replaced_merged_and_deleted() {
    let cases = [
        (r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1}"#, r#"{"a":"two"}"#, r#"{"a":"two"}"#),
        (r#"{"a":1,"b":2}"#, r#"{"a":null}"#, r#"{"b":2}"#),
        (r#"{"a":1}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":1}"#, r#"{"missing":null}"#, r#"{"a":1}"#),
        (r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":3,"c":null,"d":4}}"#, r#"{"a":{"b":3,"d":4}}"#),
        (r#"{"a":[1,2,3]}"#, r#"{"a":[4]}"#, r#"{"a":[4]}"#),
        (r#"{"a":[1]}"#, r#"{"a":{"b":1,"c":null}}"#, r#"{"a":{"b":1}}"#),
        (r#"{"a":1}"#, r#"{"b":{"c":{"d":null}}}"#, r#"{"a":1,"b":{"c":{}}}"#),
        (r#"{"a":1}"#, r#"{"b":[null,{"c":null}]}"#, r#"{"a":1,"b":[null,{"c":null}]}"#),
        (r#"{"a":null}"#, r#"{"b":1}"#, r#"{"a":null,"b":1}"#),
        (r#"{"a":1}"#, "[1,2]", "[1,2]"),
        (r#"{"a":1}"#, "null", "null"),
        ("[1,2]", r#"{"a":1,"b":null}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
        ("7", "{}", "{}"),
    ];
    for (from, patch, to) in cases {
        assert_eq!(applied(PieceForm::MergePatch, from, patch), Ok(to.to_owned()), "{patch}");
    }
}

#[test]
fn a_merge_patch_makes_a_document_of_nothing() {
    let cases = [
        (r#"{"a":1,"b":null}"#, r#"{"a":1}"#),
        (r#"{"a":{"b":{"c":null}},"d":[null]}"#, r#"{"a":{"b":{}},"d":[null]}"#),
        ("{}", "{}"),
        ("null", "null"),
        ("[1]", "[1]"),
    ];
    for (patch, to) in cases {
        let document = JsonDocument::from_merge_patch(patch.as_bytes(), to.len()).expect(patch);
        assert_eq!(text(&document), to);
        assert_eq!(document.size(), to.len());
    }
    let refused = JsonDocument::from_merge_patch(br#"{"a":1}"#, 6).expect_err("too large");
    assert_eq!(refused.reason, Reason::TOO_LARGE);
}

#[test]
fn a_merge_that_would_grow_beyond_the_bound_changes_nothing() {
    let mut document = document(r#"{"a":{"b":1}}"#);
    let size = document.size();
    let piece = br#"{"a":{"b":null,"c":2},"d":3}"#;
    let rejection =
        apply(&mut document, PieceForm::MergePatch, piece, size).expect_err("too large");
    assert_eq!(rejection.reason, Reason::TOO_LARGE);
    let fits = apply(&mut document, PieceForm::MergePatch, piece, r#"{"a":{"c":2},"d":3}"#.len());
    assert_eq!(fits, Ok(()));
}

#[test]
fn a_merge_patch_is_as_deep_as_a_document_at_most() {
    let nested = |depth: usize| r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
    let mut deepest = document(&nested(MAX_DEPTH));
    let piece = nested(MAX_DEPTH).replace("{}", r#"{"b":1}"#);
    assert_eq!(apply(&mut deepest, PieceForm::MergePatch, piece.as_bytes(), MAX_PIECE), Ok(()));
    let rejected = applied(PieceForm::MergePatch, "{}", &nested(MAX_DEPTH + 1));
    assert_eq!(rejected, Err(Reason::PIECE_TOO_DEEP));
}

#[test]
fn a_document_above_a_lowered_bound_takes_only_merges_that_bring_it_below() {
    let mut document = document(r#"{"a":"0123456789","b":"0123456789"}"#);
    let less = apply(&mut document, PieceForm::MergePatch, br#"{"a":"012345678"}"#, 20);
    assert_eq!(less.map_err(|rejection| rejection.reason), Err(Reason::TOO_LARGE));
    assert_eq!(apply(&mut document, PieceForm::MergePatch, br#"{"a":null}"#, 20), Ok(()));
}
