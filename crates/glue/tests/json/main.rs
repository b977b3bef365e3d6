//! JSON documents and their patches, from outside: rules, conformance, properties, bombs and broken bytes.

mod bombs;
mod conformance;
mod differences;
mod documents;
mod fuzz;
mod merge_patches;
mod naive;
mod patches;
mod properties;
mod random;

use consort_glue::bounds::MAX_PIECE;
use consort_glue::json::JsonDocument;
use consort_glue::{PieceForm, Reason, Rejection};

/// The document of a text that is one.
fn document(text: &str) -> JsonDocument {
    JsonDocument::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn text(document: &JsonDocument) -> String {
    String::from_utf8(document.to_bytes().to_vec()).expect("a document is text")
}

/// Applies a piece. A document that took it can be read again, and another is as it was.
fn apply(
    document: &mut JsonDocument,
    form: PieceForm,
    piece: &[u8],
    max_document: usize,
) -> Result<(), Rejection> {
    let before = document.to_bytes();
    let applied = document.apply(form, piece, max_document);
    let bytes = document.to_bytes();
    assert_eq!(document.size(), bytes.len(), "the size is exact");
    match &applied {
        Ok(()) => {
            let again = JsonDocument::parse(&bytes).expect("a written document can be read");
            assert_eq!(again.to_bytes(), bytes, "writing is a fixed point");
            assert_eq!(again.size(), document.size());
        }
        Err(rejection) => {
            assert_eq!(bytes, before, "a piece that failed changed nothing: {rejection}");
            assert!(rejection.detail.len() < 400, "the detail is short: {rejection}");
        }
    }
    applied
}

/// What a piece makes of a document, or why it does not apply.
fn applied(form: PieceForm, from: &str, piece: &str) -> Result<String, Reason> {
    let mut document = document(from);
    match apply(&mut document, form, piece.as_bytes(), MAX_PIECE) {
        Ok(()) => Ok(text(&document)),
        Err(rejection) => Err(rejection.reason),
    }
}
