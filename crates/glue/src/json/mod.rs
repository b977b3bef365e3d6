//! JSON documents, and the patches of RFC 6902 and RFC 7396.
//!
//! [`JsonDocument`] is a parsed document and the size of its serialised form. A piece is applied whole, or the document
//! stays equal. [`check`] finds everything that is wrong with a piece by itself, before the piece is stored.
//!
//! Members are sorted by name. The spelling of numbers may change (`1E5`, `0.10`), their value never does: a number that
//! cannot keep its value is refused. Every document that is written can be read again.
//!
//! Nothing here knows versions, conditions, heads or stores. Panics are no part of it: the worker catches them.

mod diff;
mod equal;
mod measure;
mod merge;
mod number;
mod operations;
mod patch;
mod read;
mod scan;
mod tree;
mod undo;

use bytes::Bytes;
use serde_json::Value;

use crate::bounds::{MAX_DEPTH, MAX_PIECE};
use crate::{PieceForm, Reason, Rejection};

pub use diff::diff;

/// A document as a tree, with the size of its serialised form.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonDocument {
    root: Value,
    size: usize,
}

impl JsonDocument {
    /// Reads a whole document.
    ///
    /// # Errors
    /// `malformed`, `duplicate-name`, `number-would-change`, `piece-too-deep`, and `piece-too-large` where the text or
    /// its serialised form has more than [`MAX_PIECE`] bytes: `1e15` is written in full.
    pub fn parse(bytes: &[u8]) -> Result<JsonDocument, Rejection> {
        let root = read::read(bytes, MAX_DEPTH)?;
        let size = measure::size(&root);
        if size > MAX_PIECE {
            return Err(read::too_large(size));
        }
        Ok(JsonDocument { root, size })
    }

    /// The document that a merge patch makes of nothing: its members without nulls.
    ///
    /// # Errors
    /// As [`JsonDocument::apply`].
    pub fn from_merge_patch(piece: &[u8], max_document: usize) -> Result<JsonDocument, Rejection> {
        let mut document = JsonDocument { root: Value::Null, size: "null".len() };
        document.apply(PieceForm::MergePatch, piece, max_document)?;
        Ok(document)
    }

    /// The size of the serialised form, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The serialised form.
    pub fn to_bytes(&self) -> Bytes {
        let mut text = Vec::with_capacity(self.size);
        write(&self.root, &mut text);
        Bytes::from(text)
    }

    /// Applies a merge patch or a JSON patch whole, or leaves the document equal to what it was.
    ///
    /// # Errors
    /// All reasons of [`check`]; `too-large` if the document would have more than `max_document` bytes; `too-deep`,
    /// `too-costly`, `missing-path`, `test-failed`, `move-into-itself`. The detail names the operation by its index.
    pub fn apply(
        &mut self,
        form: PieceForm,
        piece: &[u8],
        max_document: usize,
    ) -> Result<(), Rejection> {
        match form {
            PieceForm::MergePatch => {
                let patch = read::read(piece, MAX_DEPTH)?;
                self.size = merge::merge(&mut self.root, self.size, patch, max_document)?;
            }
            PieceForm::JsonPatch => {
                let operations = operations::read(piece)?;
                self.size = patch::patch(&mut self.root, self.size, operations, max_document)?;
            }
            PieceForm::Whole | PieceForm::Delete | PieceForm::XmlPatch => {
                return Err(no_patch(form));
            }
        }
        Ok(())
    }
}

/// Checks a piece as far as the piece alone decides, before it is stored.
///
/// # Errors
/// `malformed`, `duplicate-name`, `number-would-change`, `piece-too-large`, `piece-too-deep`, `too-many-operations`.
pub fn check(form: PieceForm, piece: &[u8]) -> Result<(), Rejection> {
    match form {
        PieceForm::Whole => JsonDocument::parse(piece).map(drop),
        PieceForm::MergePatch => read::read(piece, MAX_DEPTH).map(drop),
        PieceForm::JsonPatch => operations::read(piece).map(drop),
        PieceForm::Delete if piece.is_empty() => Ok(()),
        PieceForm::Delete => Err(Rejection::new(Reason::MALFORMED, "a delete has no content")),
        PieceForm::XmlPatch => Err(no_patch(form)),
    }
}

fn no_patch(form: PieceForm) -> Rejection {
    Rejection::new(Reason::MALFORMED, format!("the form {form} is no patch of a JSON document"))
}

/// Appends the serialised form of a value.
fn write(value: &Value, text: &mut Vec<u8>) {
    // Serialising fails for names that are no texts and for writers that fail: a `Value` has neither, a `Vec` never does.
    serde_json::to_writer(text, value).expect("a value can be written to memory");
}

/// A text of the sender's as a detail shows it: a detail stays short whatever the piece holds.
fn shown(text: &str) -> String {
    const MOST: usize = 100;
    if text.len() <= MOST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MOST)])
}
