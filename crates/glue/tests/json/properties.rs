//! What holds for every document and patch (GLUE §10.5).

use consort_glue::bounds::MAX_PIECE;
use consort_glue::json::{JsonDocument, check, diff};
use consort_glue::{PieceForm, Reason};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::{apply, document, naive, text};

/// Values whose names are few, so that paths and names meet.
fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::from),
        select(vec![json!(0), json!(1), json!(1.0), json!(-0.0), json!(1.5), json!(100000.0)]),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(name(), inner, 0..6)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", "", "0", "1", "-", "a/b", "m~n", "~1", "é", "\n\""])
        .prop_map(str::to_owned)
}

/// An operation without its paths, and numbers that choose them.
#[derive(Clone, Debug)]
struct Draft {
    op: &'static str,
    value: Value,
    choices: [usize; 3],
}

fn draft() -> impl Strategy<Value = Draft> {
    let op = select(vec!["add", "add", "remove", "replace", "move", "move", "copy", "test"]);
    (op, value(), any::<[usize; 3]>()).prop_map(|(op, value, choices)| Draft { op, value, choices })
}

impl Draft {
    /// The operation with paths of this document. Most exist.
    fn operation(&self, document: &Value) -> Value {
        let mut pointers = vec![String::new()];
        pointers_of(document, "", &mut pointers);
        let chosen = |choice: usize| pointers[choice % pointers.len()].clone();
        let [from, path, end] = self.choices;
        let mut path = chosen(path);
        let may_be_new = matches!(self.op, "add" | "move" | "copy") || end % 64 == 0;
        if may_be_new && end % 3 == 0 {
            path += ["/-", "/0", "/1", "/a", "/new", "/m~0n", "/00"][end / 3 % 7];
        }
        let value = match document.pointer(&path) {
            Some(value) if self.op == "test" && end % 8 != 0 => value,
            _ => &self.value,
        };
        json!({"op": self.op, "from": chosen(from), "path": path, "value": value})
    }
}

fn pointers_of(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    let within: Vec<(String, &Value)> = match value {
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        _ => return,
    };
    for (name, value) in within {
        let pointer = format!("{pointer}/{name}");
        pointers_of(value, &pointer, pointers);
        pointers.push(pointer);
    }
}

/// A patch that applies, made operation by operation, and the values between its operations.
fn patch_of(from: &Value, drafts: &[Draft]) -> (Vec<Value>, Vec<Value>) {
    let (mut operations, mut states) = (Vec::new(), vec![from.clone()]);
    for draft in drafts {
        let state = states.last().expect("there is a first state");
        let operation = draft.operation(state);
        if let Some(next) = naive::patch(state, std::slice::from_ref(&operation)) {
            operations.push(operation);
            states.push(next);
        }
    }
    (operations, states)
}

fn piece(operations: &[Value]) -> Vec<u8> {
    serde_json::to_vec(operations).expect("operations are JSON")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_written_document_is_read_again(value in value()) {
        let spaced = serde_json::to_string_pretty(&value).expect("JSON");
        let read = document(&spaced);
        prop_assert_eq!(read.size(), read.to_bytes().len());
        prop_assert_eq!(text(&read), value.to_string());
        let again = JsonDocument::parse(&read.to_bytes()).expect("it can be read again");
        prop_assert_eq!(again.to_bytes(), read.to_bytes());
        prop_assert_eq!(again, read);
    }

    #[test]
    fn a_json_patch_does_what_the_naive_one_does(from in value(), drafts in vec(draft(), 1..30)) {
        let (operations, states) = patch_of(&from, &drafts);
        let mut patched = document(&from.to_string());
        let applied = apply(&mut patched, PieceForm::JsonPatch, &piece(&operations), MAX_PIECE);
        prop_assert_eq!(applied, Ok(()));
        prop_assert_eq!(text(&patched), states.last().expect("a state").to_string());
    }

    #[test]
    fn a_json_patch_fails_where_the_naive_one_does(from in value(), draft in draft()) {
        let operation = draft.operation(&from);
        let expected = naive::patch(&from, std::slice::from_ref(&operation));
        let mut patched = document(&from.to_string());
        let applied = apply(&mut patched, PieceForm::JsonPatch, &piece(&[operation]), MAX_PIECE);
        match expected {
            Some(expected) => {
                prop_assert_eq!(applied, Ok(()));
                prop_assert_eq!(text(&patched), expected.to_string());
            }
            None => {
                let reasons = [Reason::MISSING_PATH, Reason::TEST_FAILED, Reason::MOVE_INTO_ITSELF];
                let reason = applied.expect_err("the naive one fails").reason;
                prop_assert!(reasons.contains(&reason), "{}", reason);
            }
        }
    }

    /// `apply` compares the bytes of the document after each failure.
    #[test]
    fn a_patch_that_fails_at_any_operation_changes_nothing(
        from in value(),
        drafts in vec(draft(), 1..20),
    ) {
        let (operations, _) = patch_of(&from, &drafts);
        let failing = [
            json!({"op": "test", "path": "/no/such", "value": 1}),
            json!({"op": "move", "from": "", "path": "/a"}),
        ];
        let mut patched = document(&from.to_string());
        for at in 0..=operations.len() {
            for failing in &failing {
                let mut failed = operations[..at].to_vec();
                failed.push(failing.clone());
                let applied =
                    apply(&mut patched, PieceForm::JsonPatch, &piece(&failed), MAX_PIECE);
                prop_assert!(applied.is_err());
            }
        }
    }

    /// Whichever operation reaches the bound first, all of them are undone.
    #[test]
    fn a_patch_that_reaches_the_size_bound_changes_nothing(
        from in value(),
        drafts in vec(draft(), 1..20),
        room in 0_usize..40,
    ) {
        let (operations, states) = patch_of(&from, &drafts);
        let size = |value: &Value| value.to_string().len();
        let max_document = size(&from) + room;
        let mut patched = document(&from.to_string());
        let applied =
            apply(&mut patched, PieceForm::JsonPatch, &piece(&operations), max_document);
        if states.iter().all(|state| size(state) <= max_document) {
            prop_assert_eq!(applied, Ok(()));
        } else {
            prop_assert_eq!(applied.expect_err("too large").reason, Reason::TOO_LARGE);
        }
    }

    #[test]
    fn a_merge_patch_does_what_the_naive_one_does(from in value(), patch in value()) {
        let expected = naive::merge(&from, &patch).to_string();
        let piece = patch.to_string();
        let mut merged = document(&from.to_string());
        let size = expected.len();
        prop_assert_eq!(apply(&mut merged, PieceForm::MergePatch, piece.as_bytes(), size), Ok(()));
        prop_assert_eq!(text(&merged), expected);
        if size > 1 {
            let mut merged = document(&from.to_string());
            let less = apply(&mut merged, PieceForm::MergePatch, piece.as_bytes(), size - 1);
            prop_assert_eq!(less.expect_err("too large").reason, Reason::TOO_LARGE);
        }
        let created = JsonDocument::from_merge_patch(piece.as_bytes(), MAX_PIECE).expect("it applies");
        prop_assert_eq!(text(&created), naive::merge(&Value::Null, &patch).to_string());
    }

    #[test]
    fn a_difference_applied_gives_the_other_document(
        from in value(),
        drafts in vec(draft(), 0..6),
        other in value(),
    ) {
        let (_, states) = patch_of(&from, &drafts);
        let from = document(&from.to_string());
        for to in [states.last().expect("a state"), &other] {
            let to = document(&to.to_string());
            let patch = diff(&from, &to);
            prop_assert_eq!(check(PieceForm::JsonPatch, &patch), Ok(()));
            let mut patched = from.clone();
            let applied = apply(&mut patched, PieceForm::JsonPatch, &patch, MAX_PIECE);
            prop_assert_eq!(applied, Ok(()));
            prop_assert_eq!(patched, to);
        }
    }
}
