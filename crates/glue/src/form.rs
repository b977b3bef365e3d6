//! The forms that a piece can have.

use std::fmt;

/// How a piece changes its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PieceForm {
    /// The whole document, new.
    Whole,
    /// A JSON merge patch, RFC 7396.
    MergePatch,
    /// A JSON patch, RFC 6902.
    JsonPatch,
    /// An XML patch, RFC 5261.
    XmlPatch,
    /// The document goes.
    Delete,
}

impl PieceForm {
    /// All forms.
    pub const ALL: [PieceForm; 5] = [
        PieceForm::Whole,
        PieceForm::MergePatch,
        PieceForm::JsonPatch,
        PieceForm::XmlPatch,
        PieceForm::Delete,
    ];

    /// Its name in bulk lines, feed rows and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            PieceForm::Whole => "whole",
            PieceForm::MergePatch => "merge-patch",
            PieceForm::JsonPatch => "json-patch",
            PieceForm::XmlPatch => "xml-patch",
            PieceForm::Delete => "delete",
        }
    }

    /// The form of this name.
    pub fn parse(name: &str) -> Option<PieceForm> {
        PieceForm::ALL.into_iter().find(|form| form.as_str() == name)
    }
}

impl fmt::Display for PieceForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_by_its_name() {
        for form in PieceForm::ALL {
            assert_eq!(PieceForm::parse(form.as_str()), Some(form));
        }
        assert_eq!(PieceForm::parse("patch"), None);
    }
}
