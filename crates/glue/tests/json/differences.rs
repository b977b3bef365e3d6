//! The difference of two documents.

use consort_glue::PieceForm;
use consort_glue::bounds::{MAX_OPERATIONS, MAX_PIECE};
use consort_glue::json::diff;

use crate::{apply, document, text};

#[test]
fn the_difference_names_the_changes() {
    let cases = [
        (r#"{"a":1}"#, r#"{"a":1}"#, "[]"),
        ("1", "2", r#"[{"op":"replace","path":"","value":2}]"#),
        (
            r#"{"title":"A","tags":["x","y"],"cast":{"a~/b":1,"c":[2]},"year":2001,"more":"and so on"}"#,
            r#"{"title":"B","tags":["x","y"],"cast":{"a~/b":3,"c":[2]},"more":"and so on","new":[]}"#,
            concat!(
                r#"[{"op":"remove","path":"/year"},{"op":"replace","path":"/cast/a~0~1b","value":3},"#,
                r#"{"op":"add","path":"/new","value":[]},{"op":"replace","path":"/title","value":"B"}]"#
            ),
        ),
    ];
    for (from, to, patch) in cases {
        let pad = |text: &str| format!(r#"["{}",{text}]"#, "x".repeat(300));
        let (from, to) = (document(&pad(from)), document(&pad(to)));
        let patch = patch.replace(r#""path":""#, r#""path":"/1"#);
        assert_eq!(String::from_utf8(diff(&from, &to)), Ok(patch));
    }
}

#[test]
fn an_element_that_comes_or_goes_does_not_change_the_others() {
    let long: Vec<String> = (0..50).map(|at| format!("\"element {at}\"")).collect();
    let array = |left_out: usize| {
        let kept = long.iter().enumerate().filter(|&(at, _)| at != left_out);
        let kept: Vec<&str> = kept.map(|(_, element)| element.as_str()).collect();
        document(&format!("[{}]", kept.join(",")))
    };
    let (all, less) = (array(50), array(7));
    assert_eq!(diff(&all, &less), br#"[{"op":"remove","path":"/7"}]"#);
    assert_eq!(diff(&less, &all), br#"[{"op":"add","path":"/7","value":"element 7"}]"#);
}

#[test]
fn a_difference_is_never_larger_than_the_document() {
    let name = "n".repeat(100_000);
    let many = |digit: usize| {
        document(&format!(r#"{{"{name}":[{}{digit}]}}"#, format!("{digit},").repeat(500)))
    };
    let (from, to) = (many(1), many(2));
    let patch = diff(&from, &to);
    assert_eq!(
        patch,
        format!(r#"[{{"op":"replace","path":"","value":{}}}]"#, text(&to)).as_bytes()
    );
}

#[test]
fn a_difference_has_no_more_operations_than_a_piece_may_have() {
    let many = |changed: usize| {
        let element = |at| if at < changed { format!("{at}") } else { format!("\"{at:>40}\"") };
        document(&format!("[{}]", (0..5_000).map(element).collect::<Vec<_>>().join(",")))
    };
    let from = many(0);
    for changed in [MAX_OPERATIONS, MAX_OPERATIONS + 1] {
        let to = many(changed);
        let patch = diff(&from, &to);
        let whole = patch.starts_with(br#"[{"op":"replace","path":"","#);
        assert_eq!(whole, changed > MAX_OPERATIONS, "{changed}");
        let mut patched = from.clone();
        assert_eq!(apply(&mut patched, PieceForm::JsonPatch, &patch, MAX_PIECE), Ok(()));
        assert_eq!(patched, to);
    }
}
