//! JSON patches (RFC 6902): operations, their errors, and their bounds one by one (H13, H14, H16).

use consort_glue::bounds::{MAX_DEPTH, MAX_OPERATIONS, MAX_PIECE};
use consort_glue::json::check;
use consort_glue::{PieceForm, Reason};

use crate::{applied, apply, document, text};

#[test]
fn operations_change_the_document() {
    let cases = [
        (
            "add a member",
            r#"{"b":1}"#,
            r#"[{"op":"add","path":"/a","value":[2]}]"#,
            r#"{"a":[2],"b":1}"#,
        ),
        (
            "add replaces a member",
            r#"{"a":1}"#,
            r#"[{"op":"add","path":"/a","value":2}]"#,
            r#"{"a":2}"#,
        ),
        ("add inserts an element", "[1,3]", r#"[{"op":"add","path":"/1","value":2}]"#, "[1,2,3]"),
        ("add behind the last element", "[1]", r#"[{"op":"add","path":"/1","value":2}]"#, "[1,2]"),
        ("add at the end", "[[1]]", r#"[{"op":"add","path":"/0/-","value":2}]"#, "[[1,2]]"),
        ("add into an empty array", "[]", r#"[{"op":"add","path":"/-","value":1}]"#, "[1]"),
        ("add the whole document", "[1]", r#"[{"op":"add","path":"","value":{}}]"#, "{}"),
        (
            "add to an empty name",
            r#"{"":{}}"#,
            r#"[{"op":"add","path":"//","value":1}]"#,
            r#"{"":{"":1}}"#,
        ),
        ("add null", "{}", r#"[{"op":"add","path":"/a","value":null}]"#, r#"{"a":null}"#),
        (
            "a name that looks like an index",
            "{}",
            r#"[{"op":"add","path":"/-","value":1},{"op":"add","path":"/01","value":2}]"#,
            r#"{"-":1,"01":2}"#,
        ),
        ("remove a member", r#"{"a":1,"b":2}"#, r#"[{"op":"remove","path":"/a"}]"#, r#"{"b":2}"#),
        ("remove the last member", r#"{"a":1}"#, r#"[{"op":"remove","path":"/a"}]"#, "{}"),
        ("remove an element", "[1,2,3]", r#"[{"op":"remove","path":"/1"}]"#, "[1,3]"),
        (
            "replace a member",
            r#"{"a":1}"#,
            r#"[{"op":"replace","path":"/a","value":"x"}]"#,
            r#"{"a":"x"}"#,
        ),
        ("replace an element", "[1,2]", r#"[{"op":"replace","path":"/1","value":3}]"#, "[1,3]"),
        ("replace the whole document", "[1]", r#"[{"op":"replace","path":"","value":2}]"#, "2"),
        (
            "move a member",
            r#"{"a":{"b":1},"c":{}}"#,
            r#"[{"op":"move","from":"/a/b","path":"/c/d"}]"#,
            r#"{"a":{},"c":{"d":1}}"#,
        ),
        (
            "move replaces a member",
            r#"{"a":1,"b":2}"#,
            r#"[{"op":"move","from":"/a","path":"/b"}]"#,
            r#"{"b":1}"#,
        ),
        (
            "move an element forward",
            "[1,2,3,4]",
            r#"[{"op":"move","from":"/1","path":"/3"}]"#,
            "[1,3,4,2]",
        ),
        (
            "move an element backward",
            "[1,2,3,4]",
            r#"[{"op":"move","from":"/3","path":"/0"}]"#,
            "[4,1,2,3]",
        ),
        (
            "move an element to the end",
            "[1,2,3]",
            r#"[{"op":"move","from":"/0","path":"/-"}]"#,
            "[2,3,1]",
        ),
        (
            "move to where it is",
            r#"{"a":[1,2]}"#,
            r#"[{"op":"move","from":"/a/1","path":"/a/1"}]"#,
            r#"{"a":[1,2]}"#,
        ),
        ("move the document to itself", "[1]", r#"[{"op":"move","from":"","path":""}]"#, "[1]"),
        (
            "move a value over its parent",
            r#"{"a":{"b":{"c":1}}}"#,
            r#"[{"op":"move","from":"/a/b","path":"/a"}]"#,
            r#"{"a":{"c":1}}"#,
        ),
        (
            "move a value over the document",
            r#"{"a":{"b":1}}"#,
            r#"[{"op":"move","from":"/a","path":""}]"#,
            r#"{"b":1}"#,
        ),
        (
            "move into a later element",
            r#"[{"a":1},{},{}]"#,
            r#"[{"op":"move","from":"/0","path":"/1/x"}]"#,
            r#"[{},{"x":{"a":1}}]"#,
        ),
        (
            "copy a member",
            r#"{"a":{"b":1}}"#,
            r#"[{"op":"copy","from":"/a","path":"/c"}]"#,
            r#"{"a":{"b":1},"c":{"b":1}}"#,
        ),
        (
            "copy into itself",
            r#"{"a":{"b":1}}"#,
            r#"[{"op":"copy","from":"/a","path":"/a/c"}]"#,
            r#"{"a":{"b":1,"c":{"b":1}}}"#,
        ),
        (
            "copy the document into itself",
            "[1]",
            r#"[{"op":"copy","from":"","path":"/0"}]"#,
            "[[1],1]",
        ),
        (
            "test and go on",
            r#"{"a":1}"#,
            r#"[{"op":"test","path":"/a","value":1.0},{"op":"remove","path":"/a"}]"#,
            "{}",
        ),
        (
            "test escapes",
            r#"{"/":9,"~1":10}"#,
            r#"[{"op":"test","path":"/~01","value":10},{"op":"test","path":"/~1","value":9}]"#,
            r#"{"/":9,"~1":10}"#,
        ),
        (
            "unknown members are ignored",
            "{}",
            r#"[{"op":"add","path":"/a","value":1,"from":7,"why":{}}]"#,
            r#"{"a":1}"#,
        ),
        ("no operations", "[1]", "[]", "[1]"),
    ];
    for (rule, from, patch, to) in cases {
        assert_eq!(applied(PieceForm::JsonPatch, from, patch), Ok(to.to_owned()), "{rule}");
    }
}

#[test]
fn operations_that_do_not_apply_have_their_reason() {
    let (missing, failed) = (Reason::MISSING_PATH, Reason::TEST_FAILED);
    let into_itself = Reason::MOVE_INTO_ITSELF;
    let cases = [
        (r#"{"op":"add","path":"/x/y","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/4","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/01","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/+1","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/1e0","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/99999999999999999999","value":1}"#, missing),
        (r#"{"op":"add","path":"/a/x","value":1}"#, missing),
        (r#"{"op":"add","path":"/n/x","value":1}"#, missing),
        (r#"{"op":"remove","path":"/x"}"#, missing),
        (r#"{"op":"remove","path":"/a/3"}"#, missing),
        (r#"{"op":"remove","path":"/a/-"}"#, missing),
        (r#"{"op":"remove","path":""}"#, missing),
        (r#"{"op":"replace","path":"/x","value":1}"#, missing),
        (r#"{"op":"replace","path":"/a/3","value":1}"#, missing),
        (r#"{"op":"replace","path":"/a/-","value":1}"#, missing),
        (r#"{"op":"move","from":"/x","path":"/y"}"#, missing),
        (r#"{"op":"move","from":"/x","path":"/x"}"#, missing),
        (r#"{"op":"move","from":"/o","path":"/no/such"}"#, missing),
        (r#"{"op":"move","from":"/a/0","path":"/a/3"}"#, missing),
        (r#"{"op":"move","from":"/o","path":"/o/x"}"#, into_itself),
        (r#"{"op":"move","from":"","path":"/x"}"#, into_itself),
        (r#"{"op":"copy","from":"/x","path":"/y"}"#, missing),
        (r#"{"op":"copy","from":"/o","path":"/x/y"}"#, missing),
        (r#"{"op":"test","path":"/x","value":null}"#, missing),
        (r#"{"op":"test","path":"/n","value":"7"}"#, failed),
        (r#"{"op":"test","path":"/n","value":null}"#, failed),
        (r#"{"op":"test","path":"","value":{}}"#, failed),
    ];
    let from = r#"{"a":[1,2,3],"n":7,"o":{"p":{}},"ox":1}"#;
    for (operation, reason) in cases {
        let patch = format!("[{operation}]");
        assert_eq!(applied(PieceForm::JsonPatch, from, &patch), Err(reason), "{operation}");
        assert_eq!(check(PieceForm::JsonPatch, patch.as_bytes()), Ok(()), "{operation}");
        let behind = format!(
            r#"[{{"op":"add","path":"/z","value":1}},{{"op":"move","from":"/z","path":"/n"}},
                {{"op":"remove","path":"/o/p"}},{{"op":"add","path":"/a/-","value":[]}},
                {{"op":"remove","path":"/a/3"}},{{"op":"replace","path":"/n","value":7}},{operation}]"#
        );
        assert_eq!(applied(PieceForm::JsonPatch, from, &behind), Err(reason), "{operation}");
    }
    let beside = r#"[{"op":"move","from":"/o","path":"/ox"}]"#;
    assert!(applied(PieceForm::JsonPatch, from, beside).is_ok(), "`/ox` is not inside of `/o`");
}

#[test]
fn patches_that_are_none_are_malformed() {
    let patches = [
        "{}",
        "null",
        "[1]",
        "[[]]",
        "[{}]",
        r#"[{"op":"add","value":1}]"#,
        r#"[{"op":"add","path":"/a"}]"#,
        r#"[{"op":"replace","path":"/a"}]"#,
        r#"[{"op":"test","path":"/a"}]"#,
        r#"[{"op":"move","path":"/a"}]"#,
        r#"[{"op":"copy","path":"/a","from":1}]"#,
        r#"[{"op":"spam","path":"/a"}]"#,
        r#"[{"op":"Add","path":"/a","value":1}]"#,
        r#"[{"op":null,"path":"/a"}]"#,
        r#"[{"path":"/a","value":1}]"#,
        r#"[{"op":"add","path":1,"value":1}]"#,
        r#"[{"op":"add","path":"a","value":1}]"#,
        r#"[{"op":"add","path":"/~","value":1}]"#,
        r#"[{"op":"add","path":"/a~2b","value":1}]"#,
        r#"[{"op":"copy","path":"/a","from":"/~x"}]"#,
    ];
    for patch in patches {
        let refused = check(PieceForm::JsonPatch, patch.as_bytes()).expect_err(patch);
        assert_eq!(refused.reason, Reason::MALFORMED, "{patch}");
        assert_eq!(applied(PieceForm::JsonPatch, "{}", patch), Err(Reason::MALFORMED), "{patch}");
    }
    let twice = r#"[{"op":"add","path":"/a","value":1,"op":"remove"}]"#;
    let refused = check(PieceForm::JsonPatch, twice.as_bytes()).expect_err(twice);
    assert_eq!(refused.reason, Reason::DUPLICATE_NAME);
}

#[test]
fn the_detail_names_the_operation_and_how_far_the_path_leads() {
    let cases = [
        (r#"{"op":"remove","path":"/a/b/c"}"#, "the object at \"/a\" has no member `b`"),
        (r#"{"op":"remove","path":"/l/3"}"#, "the array at \"/l\" has 2 elements"),
        (
            r#"{"op":"add","path":"/l/0/x","value":1}"#,
            "the value at \"/l/0\" is no array or object",
        ),
        (r#"{"op":"test","path":"/l/0","value":2}"#, "the value at \"/l/0\" is another"),
    ];
    for (operation, expected) in cases {
        let mut document = document(r#"{"a":{},"l":[1,2]}"#);
        let piece = format!(r#"[{{"op":"test","path":"/a","value":{{}}}},{operation}]"#);
        let rejection = apply(&mut document, PieceForm::JsonPatch, piece.as_bytes(), MAX_PIECE)
            .expect_err("it fails");
        assert!(rejection.detail.starts_with("operation 1 ("), "{rejection}");
        assert!(rejection.detail.contains(expected), "{rejection}");
    }
}

#[test]
fn a_piece_has_at_most_a_thousand_operations() {
    let patch = |count: usize| {
        let operations = vec![r#"{"op":"test","path":"","value":[]}"#; count];
        format!("[{}]", operations.join(","))
    };
    assert_eq!(applied(PieceForm::JsonPatch, "[]", &patch(MAX_OPERATIONS)), Ok("[]".to_owned()));
    let refused = check(PieceForm::JsonPatch, patch(MAX_OPERATIONS + 1).as_bytes());
    assert_eq!(refused.map_err(|error| error.reason), Err(Reason::TOO_MANY_OPERATIONS));
}

#[test]
fn a_patch_may_grow_the_document_to_the_bound_and_not_a_byte_more() {
    let from = r#"{"a":[1],"b":"x"}"#;
    let patches = [
        r#"[{"op":"add","path":"/c","value":12}]"#,
        r#"[{"op":"add","path":"/a/-","value":1}]"#,
        r#"[{"op":"add","path":"/b","value":"\n"}]"#,
        r#"[{"op":"add","path":"","value":[1,2,3,4,5,6,7,8,9,10,11]}]"#,
        r#"[{"op":"replace","path":"/b","value":"xyz"}]"#,
        r#"[{"op":"replace","path":"","value":"01234567890123456789"}]"#,
        r#"[{"op":"copy","from":"/a","path":"/a/-"}]"#,
        r#"[{"op":"copy","from":"","path":"/b"}]"#,
        r#"[{"op":"move","from":"/b","path":"/a~0"}]"#,
    ];
    for patch in patches {
        let mut grown = document(from);
        let free = apply(&mut grown, PieceForm::JsonPatch, patch.as_bytes(), MAX_PIECE);
        assert_eq!(free, Ok(()), "{patch}");
        assert!(grown.size() > from.len(), "{patch}");
        let exact =
            apply(&mut document(from), PieceForm::JsonPatch, patch.as_bytes(), grown.size());
        assert_eq!(exact, Ok(()), "{patch}");
        let less =
            apply(&mut document(from), PieceForm::JsonPatch, patch.as_bytes(), grown.size() - 1);
        assert_eq!(less.map_err(|error| error.reason), Err(Reason::TOO_LARGE), "{patch}");
    }
}

#[test]
fn a_patch_may_not_pass_the_bound_on_its_way() {
    let patch = r#"[{"op":"add","path":"/b","value":"0123456789"},{"op":"remove","path":"/b"}]"#;
    let rejected = apply(&mut document("{}"), PieceForm::JsonPatch, patch.as_bytes(), 10);
    assert_eq!(rejected.map_err(|error| error.reason), Err(Reason::TOO_LARGE));
}

#[test]
fn a_document_above_a_lowered_bound_can_shrink_below_it() {
    let mut large = document(r#"{"a":"0123456789","b":"0123456789","c":1}"#);
    let one = r#"[{"op":"remove","path":"/a"}]"#;
    let rejected = apply(&mut large, PieceForm::JsonPatch, one.as_bytes(), 10);
    assert_eq!(rejected.map_err(|error| error.reason), Err(Reason::TOO_LARGE));
    let steps = r#"[{"op":"replace","path":"/a","value":0},{"op":"add","path":"/a","value":1},
        {"op":"remove","path":"/b"},{"op":"move","from":"/c","path":"/a"}]"#;
    assert_eq!(apply(&mut large, PieceForm::JsonPatch, steps.as_bytes(), 10), Ok(()));
    assert_eq!(text(&large), r#"{"a":1}"#);
}

#[test]
fn a_patch_may_nest_to_the_bound_and_not_a_level_deeper() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let to_end = "/0".repeat(MAX_DEPTH - 2) + "/-";
    let deep = nested(MAX_DEPTH - 1);
    let cases = [
        (format!(r#"[{{"op":"add","path":"{to_end}","value":[]}}]"#), true),
        (format!(r#"[{{"op":"add","path":"{to_end}","value":[1]}}]"#), true),
        (format!(r#"[{{"op":"add","path":"{to_end}","value":[[]]}}]"#), false),
        (format!(r#"[{{"op":"replace","path":"","value":{}}}]"#, nested(MAX_DEPTH)), true),
        (format!(r#"[{{"op":"add","path":"/-","value":{}}}]"#, nested(MAX_DEPTH - 1)), true),
        (format!(r#"[{{"op":"add","path":"/-","value":{}}}]"#, nested(MAX_DEPTH)), false),
        (format!(r#"[{{"op":"replace","path":"/0","value":{}}}]"#, nested(MAX_DEPTH)), false),
        (r#"[{"op":"copy","from":"/0","path":"/-"}]"#.to_owned(), true),
        (r#"[{"op":"copy","from":"","path":"/-"}]"#.to_owned(), true),
        (r#"[{"op":"copy","from":"","path":"/0/0"}]"#.to_owned(), false),
        (
            r#"[{"op":"add","path":"/0","value":[[]]},{"op":"move","from":"/1","path":"/0/0/-"}]"#
                .to_owned(),
            false,
        ),
    ];
    for (patch, fits) in cases {
        let expected = if fits { None } else { Some(Reason::TOO_DEEP) };
        assert_eq!(applied(PieceForm::JsonPatch, &deep, &patch).err(), expected, "{patch}");
    }
}
