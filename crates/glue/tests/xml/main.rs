//! XML documents and the patches of RFC 5261, from outside.

mod bombs;
mod conformance;
mod documents;
mod fuzz;
mod namespaces;
mod operations;
mod properties;
mod selectors;

use consort_glue::bounds::MAX_PIECE;
use consort_glue::xml::{XmlDocument, check};
use consort_glue::{PieceForm, Reason, Rejection};

/// The document as text.
fn text(document: &XmlDocument) -> String {
    let bytes = document.to_bytes();
    assert_eq!(bytes.len(), document.size(), "H13: the size is that of the text");
    String::from_utf8(bytes.to_vec()).expect("documents are UTF-8")
}

fn parse(document: &str) -> XmlDocument {
    XmlDocument::parse(document.as_bytes()).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// A patch of these operations.
fn patch(operations: &str) -> String {
    format!("<patch>{operations}</patch>")
}

/// The document after a patch. A failed patch must leave it as it was, and a patched one must be read again.
fn apply_within(document: &str, patch: &str, max: usize) -> Result<String, Rejection> {
    let mut tree = parse(document);
    let before = text(&tree);
    let applied = tree.apply(PieceForm::XmlPatch, patch.as_bytes(), max);
    let after = text(&tree);
    match applied {
        Ok(()) => {
            assert_eq!(
                text(&parse(&after)),
                after,
                "H14: the result is read again, as it was written"
            );
            assert_eq!(check(PieceForm::XmlPatch, patch.as_bytes()), Ok(()));
            Ok(after)
        }
        Err(rejection) => {
            assert_eq!(after, before, "a failed patch leaves the document equal: {rejection}");
            Err(rejection)
        }
    }
}

fn apply(document: &str, patch: &str) -> Result<String, Rejection> {
    apply_within(document, patch, MAX_PIECE)
}

/// Applies operations and compares the result.
fn expect(document: &str, operations: &str, expected: &str) {
    let result = apply(document, &patch(operations));
    assert_eq!(result.as_deref(), Ok(expected), "{document} with {operations}");
}

/// Applies operations that must be rejected, and returns the detail.
fn expect_rejection(document: &str, operations: &str, reason: Reason) -> String {
    let patch = patch(operations);
    let rejection = apply(document, &patch).expect_err(operations);
    assert_eq!(rejection.reason, reason, "{document} with {operations}: {rejection}");
    // The door refuses exactly what is answered with 400 or 413: the rest depends on the document, or on the order.
    let is_refused = matches!(reason.status(), 400 | 413);
    let checked = check(PieceForm::XmlPatch, patch.as_bytes());
    assert_eq!(checked.is_err(), is_refused, "{operations}: {checked:?}");
    rejection.detail
}
