//! The public cases of RFC 6902: `json-patch.json` in the folder `shared/conformance` beside the project. Without that
//! folder the cases are not run, and the test says so; where `CI` is `true` they have to be there.

use std::path::{Path, PathBuf};

use consort_glue::bounds::MAX_PIECE;
use consort_glue::{PieceForm, Reason};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{apply, document};

#[test]
fn patches_do_what_the_rfc_says() {
    let Some(cases) = cases() else { return };
    let mut run = 0;
    for case in cases.iter().filter(|case| !case.disabled) {
        run += 1;
        let comment = &case.comment;
        let mut patched = document(case.doc.get());
        let piece = case.patch.get().as_bytes();
        let applied = apply(&mut patched, PieceForm::JsonPatch, piece, MAX_PIECE);
        match (&case.expected, &case.error) {
            (Some(expected), None) => {
                assert_eq!(applied, Ok(()), "{comment}");
                assert_eq!(patched, document(expected.get()), "{comment}");
            }
            (None, Some(error)) => {
                let reason = applied.expect_err(comment).reason;
                let stands = [Reason::MISSING_PATH, Reason::TEST_FAILED];
                assert!(stands.contains(&reason), "{comment}: {error}: {reason}");
            }
            _ => panic!("{comment} has either a result or an error"),
        }
    }
    assert!(run >= 16, "only {run} cases were found");
}

#[test]
fn two_operations_in_one_are_refused() {
    let Some(cases) = cases() else { return };
    let disabled: Vec<_> = cases.iter().filter(|case| case.disabled).collect();
    // Readers that keep the last of two members cannot run the case of RFC 6902, A.13: the file has one `op` only.
    assert!(disabled.iter().all(|case| case.comment.contains("A.13")));
    let patch = br#"[{"op":"add","path":"/baz","value":"qux","op":"remove"}]"#;
    let refused = apply(&mut document("{}"), PieceForm::JsonPatch, patch, MAX_PIECE);
    assert_eq!(refused.map_err(|error| error.reason), Err(Reason::DUPLICATE_NAME));
}

#[derive(Deserialize)]
struct Case {
    comment: String,
    doc: Box<RawValue>,
    patch: Box<RawValue>,
    expected: Option<Box<RawValue>>,
    error: Option<String>,
    #[serde(default)]
    disabled: bool,
}

fn cases() -> Option<Vec<Case>> {
    let Some(path) = path() else {
        let required = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!required, "shared/conformance/json-patch.json is not beside the project");
        eprintln!("not run: shared/conformance/json-patch.json is not beside the project");
        return None;
    };
    let text = std::fs::read_to_string(&path).expect("the cases can be read");
    Some(serde_json::from_str(&text).expect("the cases are as expected"))
}

/// The cases, in a folder `shared` beside the project or beside a folder that holds it.
fn path() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/conformance/json-patch.json"))
        .find(|path| path.is_file())
}
