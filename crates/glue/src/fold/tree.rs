//! A parsed document of either format.

use bytes::Bytes;

use crate::bounds::MAX_PIECE;
use crate::collection::{Absent, Collection, DocumentFormat};
use crate::json::{self, JsonDocument};
use crate::xml::{self, XmlDocument};
use crate::{PieceForm, Reason, Rejection};

/// A parsed document.
#[derive(Clone, Debug)]
pub enum DocumentTree {
    /// A JSON document.
    Json(JsonDocument),
    /// An XML document.
    Xml(XmlDocument),
}

impl DocumentTree {
    /// Reads a document.
    ///
    /// # Errors
    /// As the format's reader.
    pub fn parse(format: DocumentFormat, bytes: &[u8]) -> Result<Self, Rejection> {
        match format {
            DocumentFormat::Json => JsonDocument::parse(bytes).map(DocumentTree::Json),
            DocumentFormat::Xml => XmlDocument::parse(bytes).map(DocumentTree::Xml),
        }
    }

    /// The size of the serialised document, in bytes.
    pub fn size(&self) -> usize {
        match self {
            DocumentTree::Json(document) => document.size(),
            DocumentTree::Xml(document) => document.size(),
        }
    }

    /// The serialised document.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            DocumentTree::Json(document) => document.to_bytes(),
            DocumentTree::Xml(document) => document.to_bytes(),
        }
    }

    /// Applies a patch whole, or leaves the document equal to what it was.
    ///
    /// # Errors
    /// As the format's patches.
    pub fn apply(
        &mut self,
        form: PieceForm,
        content: &[u8],
        max_document: usize,
    ) -> Result<(), Rejection> {
        match self {
            DocumentTree::Json(document) => document.apply(form, content, max_document),
            DocumentTree::Xml(document) => document.apply(form, content, max_document),
        }
    }

    /// The document that a piece makes where there is none (H18). `revives`: a deleted document begins a new life.
    ///
    /// # Errors
    /// `no-document` if the form does not create one, and the reasons of the format.
    pub fn create(
        collection: &Collection,
        form: PieceForm,
        content: &[u8],
        revives: bool,
    ) -> Result<Self, Rejection> {
        match form {
            PieceForm::Whole => Self::whole(collection, content),
            PieceForm::MergePatch if revives || collection.absent == Absent::Create => {
                match collection.format {
                    DocumentFormat::Json => {
                        JsonDocument::from_merge_patch(content, collection.max_document)
                            .map(DocumentTree::Json)
                    }
                    DocumentFormat::Xml => Err(Rejection::new(
                        Reason::MALFORMED,
                        "a merge patch cannot change an XML document",
                    )),
                }
            }
            PieceForm::JsonPatch | PieceForm::XmlPatch if collection.template.is_some() => {
                let template = collection.template.as_deref().unwrap_or_default();
                let mut tree = Self::parse(collection.format, template)?;
                tree.apply(form, content, collection.max_document)?;
                Ok(tree)
            }
            PieceForm::MergePatch
            | PieceForm::JsonPatch
            | PieceForm::XmlPatch
            | PieceForm::Delete => Err(Rejection::new(
                Reason::NO_DOCUMENT,
                format!("there is no document, and a piece of form {form} does not create one"),
            )),
        }
    }

    /// A whole document within the collection's bound.
    ///
    /// # Errors
    /// `too-large`, and the reasons of the format.
    pub fn whole(collection: &Collection, content: &[u8]) -> Result<Self, Rejection> {
        let tree = Self::parse(collection.format, content)?;
        if tree.size() > collection.max_document {
            let detail = format!(
                "the document would have {} bytes, of {}",
                tree.size(),
                collection.max_document
            );
            return Err(Rejection::new(Reason::TOO_LARGE, detail));
        }
        Ok(tree)
    }
}

/// Checks a piece as far as the piece alone decides, before it is stored.
///
/// # Errors
/// As the checks of the formats; and `piece-too-large` if an XML piece has more than [`MAX_PIECE`] bytes as a JSON
/// text, which it is in feed rows.
pub fn check_piece(
    format: DocumentFormat,
    form: PieceForm,
    content: &[u8],
) -> Result<(), Rejection> {
    match format {
        DocumentFormat::Json => json::check(form, content),
        DocumentFormat::Xml => check_row_size(content).and_then(|()| xml::check(form, content)),
    }
}

/// Checks that a feed row has room for an XML piece.
pub(super) fn check_row_size(content: &[u8]) -> Result<(), Rejection> {
    if content.len() <= MAX_PIECE / 6 {
        return Ok(());
    }
    let escaped = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    let size: usize = content.iter().map(escaped).sum();
    if size <= MAX_PIECE {
        return Ok(());
    }
    let detail =
        format!("as a JSON text, which it is in feed rows, it has {size} bytes of {MAX_PIECE}");
    Err(Rejection::new(Reason::PIECE_TOO_LARGE, detail))
}
