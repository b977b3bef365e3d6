//! XML documents, and the patches of RFC 5261.
//!
//! `uppsala` splits the text into events. The tree is our own, because a cached document has to give removed nodes
//! back, know its exact size and undo a patch, and because namespace names must not be copied to every element.
//! A patch is applied operation by operation to the tree; an inverse log undoes it if one of them fails.
//!
//! The way of a piece: `scan` bounds the text, `read` makes a `tree`, `patch` finds the operations,
//! `selector` reads their selectors, `locate` walks to the one node, `change` changes the tree with the content
//! that `import` adapts to the namespaces in scope, `undo` takes it all back, and `write` serialises.

mod change;
mod content;
mod import;
mod locate;
mod names;
mod namespaces;
mod patch;
mod read;
mod scan;
mod selector;
mod tree;
mod undo;
mod write;

#[cfg(test)]
mod xpath_comparison;

use crate::bounds::{MAX_DEPTH, MAX_PIECE};
use crate::{PieceForm, Reason, Rejection};
use bytes::Bytes;
use names::Uris;
use std::fmt;
use tree::Tree;

/// The longest quotation of a piece in a rejection: reject lists keep details by the thousand.
const MAX_QUOTE: usize = 80;

/// A parsed XML document.
#[derive(Clone)]
pub struct XmlDocument {
    tree: Tree,
    uris: Uris,
}

impl XmlDocument {
    /// Reads a document within the bounds of pieces.
    pub fn parse(bytes: &[u8]) -> Result<XmlDocument, Rejection> {
        let mut uris = Uris::new();
        let tree = read::read(bytes, MAX_DEPTH, &mut uris)?;
        if tree.size() > MAX_PIECE {
            let detail =
                format!("written with its escapes it has {} bytes, of {MAX_PIECE}", tree.size());
            return Err(Rejection::new(Reason::PIECE_TOO_LARGE, detail));
        }
        Ok(XmlDocument { tree, uris })
    }

    /// Its size in bytes, exactly as [`XmlDocument::to_bytes`] writes it.
    pub fn size(&self) -> usize {
        self.tree.size()
    }

    /// The document as text in UTF-8.
    pub fn to_bytes(&self) -> Bytes {
        write::document(&self.tree).into()
    }

    /// Applies a piece whole, or leaves the document equal to what it was.
    ///
    /// No state between two operations may be larger than `max_document` either.
    pub fn apply(
        &mut self,
        form: PieceForm,
        piece: &[u8],
        max_document: usize,
    ) -> Result<(), Rejection> {
        match form {
            PieceForm::Whole => {
                let document = XmlDocument::parse(piece)?;
                if document.size() > max_document {
                    return Err(too_large(document.size(), max_document));
                }
                *self = document;
                Ok(())
            }
            PieceForm::XmlPatch => {
                // A larger result could not be read again, whatever the collection allows.
                let max = max_document.min(MAX_PIECE);
                patch::apply(&mut self.tree, &mut self.uris, piece, max)
            }
            other => Err(foreign(other)),
        }
    }
}

impl fmt::Debug for XmlDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XmlDocument").field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Checks a piece before it is stored: everything that depends on the piece alone and is answered with 400 or 413.
///
/// Faults that RFC 5261 leaves to the application of the patch (an unknown function, an undeclared prefix) pass here
/// and are rejected by [`XmlDocument::apply`].
pub fn check(form: PieceForm, piece: &[u8]) -> Result<(), Rejection> {
    match form {
        PieceForm::Whole => XmlDocument::parse(piece).map(drop),
        PieceForm::XmlPatch => patch::check(piece),
        PieceForm::Delete => Ok(()),
        other => Err(foreign(other)),
    }
}

fn foreign(form: PieceForm) -> Rejection {
    Rejection::new(
        Reason::MALFORMED,
        format!("a piece of form {form} cannot change an XML document"),
    )
}

fn too_large(size: usize, max: usize) -> Rejection {
    Rejection::new(
        Reason::TOO_LARGE,
        format!("the document would have at least {size} bytes, of {max}"),
    )
}

/// A part of a piece as a rejection quotes it.
fn quote(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_can_wait_in_the_memory_of_another_thread() {
        fn is_send_and_sync<T: Send + Sync + 'static>() {}
        is_send_and_sync::<XmlDocument>();
    }

    /// Promise 9: the 100,000th piece of a document costs as much as the 100th.
    #[test]
    fn a_document_that_is_patched_for_long_stays_small() {
        let mut document = XmlDocument::parse(b"<a><b>1</b></a>").expect("a document");
        let replace = b"<p><replace sel='a/b'><b>2<c/></b></replace></p>";
        let fail = b"<p><add sel='a'><c/>t<d/></add><remove sel='a/none'/></p>";
        document.apply(PieceForm::XmlPatch, replace, 1_000).expect("applied");
        document.apply(PieceForm::XmlPatch, fail, 1_000).expect_err("failed");
        let slots = document.tree.slots();
        for _ in 0..100 {
            document.apply(PieceForm::XmlPatch, replace, 1_000).expect("applied");
            document.apply(PieceForm::XmlPatch, fail, 1_000).expect_err("failed");
        }
        assert_eq!(document.tree.slots(), slots);
    }

    #[test]
    fn quotations_are_short_and_end_between_characters() {
        assert_eq!(quote("doc"), "'doc'");
        assert_eq!(quote(&"é".repeat(100)), format!("'{}…'", "é".repeat(80)));
    }
}
