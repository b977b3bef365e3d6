//! Pieces that mean harm (GLUE §10.4): each ends in one rejection, soon, and the document is as it was.

use consort_glue::bounds::{MAX_DEPTH, MAX_PIECE};
use consort_glue::json::{JsonDocument, check};
use consort_glue::{PieceForm, Reason};

use crate::{apply, document, text};

/// The patch that repeats an operation.
fn repeated(count: usize, operation: &str) -> String {
    format!("[{}]", vec![operation; count].join(","))
}

fn rejected(from: &str, patch: &str) -> Reason {
    let mut document = document(from);
    let rejected = apply(&mut document, PieceForm::JsonPatch, patch.as_bytes(), MAX_PIECE);
    let next = br#"[{"op":"test","path":"/next","value":0},{"op":"add","path":"/next","value":1}]"#;
    let next = apply(&mut document, PieceForm::JsonPatch, next, MAX_PIECE);
    assert_eq!(next, Ok(()), "the next piece applies");
    rejected.expect_err("it is a bomb").reason
}

#[test]
fn copies_that_double_the_document_end_at_its_bound() {
    let from = format!(r#"{{"a":["{}"],"next":0}}"#, "x".repeat(1_100));
    let patch = repeated(18, r#"{"op":"copy","from":"/a","path":"/a/-"}"#);
    assert_eq!(rejected(&from, &patch), Reason::TOO_LARGE);
}

#[test]
fn copies_that_replace_each_other_are_too_costly() {
    let sources = [
        format!("\"{}\"", "x".repeat(900_000)),
        format!("[{}0]", "0,".repeat(400_000)),
        format!("[{}0]", r#"{"":0},"#.repeat(100_000)),
        format!(r#"{{"{}":0}}"#, "x".repeat(900_000)),
    ];
    for source in sources {
        let from = format!(r#"{{"a":{source},"b":0,"next":0}}"#);
        let patch = repeated(1_000, r#"{"op":"copy","from":"/a","path":"/b"}"#);
        assert_eq!(rejected(&from, &patch), Reason::TOO_COSTLY);
    }
}

#[test]
fn moves_of_a_large_value_to_and_fro_are_too_costly() {
    let from = format!(r#"{{"a":[{}0],"next":0}}"#, "0,".repeat(400_000));
    let there = r#"{"op":"move","from":"/a","path":"/b"}"#;
    let back = r#"{"op":"move","from":"/b","path":"/a"}"#;
    let patch = repeated(500, &format!("{there},{back}"));
    assert_eq!(rejected(&from, &patch), Reason::TOO_COSTLY);
}

#[test]
fn copies_into_themselves_end_at_the_depth_bound() {
    let patch = repeated(200, r#"{"op":"copy","from":"/a","path":"/a/a"}"#);
    assert_eq!(rejected(r#"{"a":{},"next":0}"#, &patch), Reason::TOO_DEEP);
    let deeper = r#"{"op":"add","path":"/b","value":{}},{"op":"move","from":"/a","path":"/b/a"},
        {"op":"move","from":"/b","path":"/a"}"#;
    let patch = repeated(200, deeper);
    assert_eq!(rejected(r#"{"a":{},"next":0}"#, &patch), Reason::TOO_DEEP);
}

#[test]
fn inserts_before_a_large_array_are_too_costly_and_before_a_small_one_are_not() {
    let insert = r#"{"op":"add","path":"/a/0","value":0}"#;
    let large = format!(r#"{{"a":[{}0],"next":0}}"#, "0,".repeat(500_000));
    assert_eq!(rejected(&large, &repeated(1_000, insert)), Reason::TOO_COSTLY);
    let removals = repeated(1_000, r#"{"op":"remove","path":"/a/0"}"#);
    assert_eq!(rejected(&large, &removals), Reason::TOO_COSTLY);
    let mut small = document(&format!(r#"{{"a":[{}0]}}"#, "0,".repeat(400)));
    let patch = repeated(1_000, insert);
    assert_eq!(apply(&mut small, PieceForm::JsonPatch, patch.as_bytes(), MAX_PIECE), Ok(()));
}

#[test]
fn a_thousand_operations_are_undone_when_the_last_one_fails() {
    let elements: Vec<String> = (0..900).map(|at| format!(r#"{{"n":{at}}}"#)).collect();
    let from = format!(r#"{{"a":[{}],"next":0}}"#, elements.join(","));
    let first = r#"{"op":"move","from":"/a/99","path":"/a/0"},{"op":"remove","path":"/a/50/n"},
        {"op":"copy","from":"/a/7","path":"/a/-"}"#;
    let patch = repeated(333, first);
    let patch = patch.replace("/a/50/n", "/a/50").trim_end_matches(']').to_owned();
    let patch = patch + r#",{"op":"test","path":"/next","value":1}]"#;
    assert_eq!(rejected(&from, &patch), Reason::TEST_FAILED);
}

#[test]
fn a_hundred_thousand_operations_are_refused_at_the_door() {
    let patch = repeated(100_000, r#"{"op":"x"}"#);
    let refused = check(PieceForm::JsonPatch, patch.as_bytes()).expect_err("too many");
    assert_eq!(refused.reason, Reason::TOO_MANY_OPERATIONS);
}

#[test]
fn numbers_names_and_brackets_without_end_are_refused_with_a_short_detail() {
    let many = 1_500_000;
    let digits = "9".repeat(many);
    let name = "n".repeat(many / 4);
    let cases = [
        (digits.clone(), Reason::NUMBER_CHANGES),
        (format!("1e{digits}"), Reason::NUMBER_CHANGES),
        (format!("0.{digits}"), Reason::NUMBER_CHANGES),
        (format!(r#"{{"{name}":{{"{name}":1e999}}}}"#), Reason::NUMBER_CHANGES),
        (format!(r#"{{"{name}":1,"{name}":2}}"#), Reason::DUPLICATE_NAME),
        (format!("{{{}\"a\":1}}", r#""a":1,"#.repeat(many / 6)), Reason::DUPLICATE_NAME),
        ("[".repeat(many), Reason::PIECE_TOO_DEEP),
        (r#"{"":"#.repeat(many / 4), Reason::PIECE_TOO_DEEP),
        (format!(r#"{{"{name}":"#), Reason::MALFORMED),
        (format!("\"{digits}"), Reason::MALFORMED),
        ("x".repeat(many), Reason::MALFORMED),
        (" ".repeat(MAX_PIECE + 1), Reason::PIECE_TOO_LARGE),
    ];
    for (piece, reason) in cases {
        for form in [PieceForm::Whole, PieceForm::MergePatch, PieceForm::JsonPatch] {
            let refused = check(form, piece.as_bytes()).expect_err("it is a bomb");
            assert_eq!(refused.reason, reason, "{refused}");
            assert!(refused.detail.len() < 400, "{} bytes of detail", refused.detail.len());
        }
    }
}

#[test]
fn operations_with_long_texts_are_rejected_with_a_short_detail() {
    let long = "é".repeat(200_000);
    let operations = [
        (format!(r#"{{"op":"{long}","path":""}}"#), Reason::MALFORMED),
        (format!(r#"{{"op":"remove","path":"{long}"}}"#), Reason::MALFORMED),
        (format!(r#"{{"op":"remove","path":"/{long}/{long}"}}"#), Reason::MISSING_PATH),
        (
            format!(r#"{{"op":"move","from":"/next","path":"/next/{long}"}}"#),
            Reason::MOVE_INTO_ITSELF,
        ),
        (format!(r#"{{"op":"remove","path":"{}"}}"#, "/a".repeat(500_000)), Reason::MISSING_PATH),
    ];
    for (operation, reason) in operations {
        assert_eq!(rejected(r#"{"next":0}"#, &format!("[{operation}]")), reason);
    }
}

#[test]
fn the_deepest_document_is_written_read_and_compared() {
    let nested = r#"{"a":"#.repeat(MAX_DEPTH - 1) + "[]" + &"}".repeat(MAX_DEPTH - 1);
    let mut deepest = document(&nested);
    let patch = format!(r#"[{{"op":"test","path":"","value":{nested}}}]"#);
    assert_eq!(apply(&mut deepest, PieceForm::JsonPatch, patch.as_bytes(), MAX_PIECE), Ok(()));
    assert_eq!(text(&deepest), nested);
    let again = JsonDocument::parse(&deepest.to_bytes()).expect("it can be read again");
    assert_eq!(again, deepest);
}
