//! Why a piece is refused or rejected.
//!
//! A piece is *refused* before it is stored, for what it is by itself. A piece is *rejected* when it is applied, in the
//! order of the log. Both name a [`Reason`], which has one name and one status wherever it is shown.

use std::fmt;

/// One reason, by its name in problems, reject lists and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    code: u8,
    name: &'static str,
    status: u16,
}

/// A reason with what happened to which part of the piece.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// The cause with its operation and place, for the sender of the piece.
    pub detail: String,
}

impl Rejection {
    /// A rejection for this reason.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Rejection { reason, detail: detail.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares the reasons and their list. The numbers are stored: none is used for another reason, ever.
macro_rules! reasons {
    ($($(#[$doc:meta])* $constant:ident = $code:literal, $name:literal, $status:literal;)*) => {
        impl Reason {
            $($(#[$doc])* pub const $constant: Reason = Reason { code: $code, name: $name, status: $status };)*

            /// All reasons.
            pub const ALL: &'static [Reason] = &[$(Reason::$constant),*];
        }
    };
}

reasons! {
    /// The body is not what its type says.
    MALFORMED = 1, "malformed", 400;
    /// An object names a member twice.
    DUPLICATE_NAME = 2, "duplicate-name", 400;
    /// A number would not keep its value.
    NUMBER_CHANGES = 3, "number-would-change", 400;
    /// RFC 5261: the patch is not a well-formed patch document.
    INVALID_DIFF_FORMAT = 4, "invalid-diff-format", 400;
    /// RFC 5261: an attribute of an operation has a value that it cannot have.
    INVALID_ATTRIBUTE_VALUE = 5, "invalid-attribute-value", 400;
    /// RFC 5261: the patch is not in UTF-8.
    INVALID_CHARACTER_SET = 6, "invalid-character-set", 400;
    /// RFC 5261: the patch or document declares entities or has a DOCTYPE.
    INVALID_ENTITY_DECLARATION = 7, "invalid-entity-declaration", 400;
    /// The piece is larger than any piece may be.
    PIECE_TOO_LARGE = 8, "piece-too-large", 413;
    /// The piece has more operations than any piece may have.
    TOO_MANY_OPERATIONS = 9, "too-many-operations", 413;
    /// The piece is nested deeper than any document may be.
    PIECE_TOO_DEEP = 10, "piece-too-deep", 413;
    /// There is no document, and this form does not create one.
    NO_DOCUMENT = 11, "no-document", 404;
    /// The document is deleted.
    DELETED = 12, "deleted", 410;
    /// An operation names a place that the document does not have.
    MISSING_PATH = 13, "missing-path", 409;
    /// A `test` operation failed.
    TEST_FAILED = 14, "test-failed", 409;
    /// The number of the piece was skipped, and the pieces behind it were applied.
    LATE = 15, "late", 409;
    /// RFC 5261: a selector finds no node, or several.
    UNLOCATED_NODE = 16, "unlocated-node", 409;
    /// RFC 5261: a prefix of the patch is not declared, or the document's cannot be used.
    INVALID_NAMESPACE_PREFIX = 17, "invalid-namespace-prefix", 409;
    /// RFC 5261: a namespace URI is not valid at its place.
    INVALID_NAMESPACE_URI = 18, "invalid-namespace-uri", 409;
    /// RFC 5261: the content is not of the kind that the operation needs.
    INVALID_NODE_TYPES = 19, "invalid-node-types", 409;
    /// RFC 5261: an operation cannot be carried out as it stands.
    INVALID_PATCH_DIRECTIVE = 20, "invalid-patch-directive", 409;
    /// RFC 5261: the document's root can be neither removed nor joined by another.
    INVALID_ROOT_ELEMENT_OPERATION = 21, "invalid-root-element-operation", 409;
    /// RFC 5261: there is no white space where `ws` says so.
    INVALID_WHITESPACE_DIRECTIVE = 22, "invalid-whitespace-directive", 409;
    /// RFC 5261: an operation would change the prolog in a way that XML forbids.
    INVALID_XML_PROLOG_OPERATION = 23, "invalid-xml-prolog-operation", 409;
    /// A condition on the document's version does not hold.
    CONDITION_FAILED = 24, "condition-failed", 412;
    /// A value would be moved into itself.
    MOVE_INTO_ITSELF = 25, "move-into-itself", 422;
    /// The document would be larger than the collection allows.
    TOO_LARGE = 26, "too-large", 422;
    /// The document would be nested too deep.
    TOO_DEEP = 27, "too-deep", 422;
    /// The piece visits or moves more than a piece may.
    TOO_COSTLY = 28, "too-costly", 422;
    /// The document has pieces of as many sources as it may have.
    TOO_MANY_SOURCES = 29, "too-many-sources", 422;
    /// The idempotency key came with another piece before.
    KEY_REUSED = 30, "key-reused", 422;
    /// RFC 5261: `id()` needs a schema, and there is none.
    UNSUPPORTED_ID_FUNCTION = 31, "unsupported-id-function", 422;
    /// RFC 5261: `xml:id` is not supported.
    UNSUPPORTED_XML_ID = 32, "unsupported-xml-id", 422;
    /// The piece stands behind a halted document that holds as many pieces as it may.
    HALTED = 33, "halted", 423;
    /// A number before this piece never came, and the collection rejects what waits behind a gap.
    GAP = 34, "gap", 409;
    /// The format's library failed on this piece: a fault of Consort, which is logged.
    DEFECT = 35, "defect", 500;
    /// A retry or discard names a piece that does not halt the document.
    NOT_HALTED = 36, "not-halted", 409;
}

impl Reason {
    /// Its name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.name
    }

    /// The HTTP status that it is answered with.
    pub fn status(self) -> u16 {
        self.status
    }

    /// The number that stands for it in cells.
    pub(crate) fn code(self) -> u8 {
        self.code
    }

    /// The reason of a stored number.
    pub(crate) fn from_code(code: u8) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.code == code)
    }

    /// The reason of this name.
    pub fn parse(name: &str) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
            let mut before = Reason::ALL[..at].iter();
            assert!(before.all(|other| other.name != reason.name && other.code != reason.code));
        }
        assert_eq!(Reason::parse("no-such-reason"), None);
    }

    #[test]
    fn stored_numbers_are_the_same_in_every_release() {
        let some = [Reason::MALFORMED, Reason::NO_DOCUMENT, Reason::LATE, Reason::DEFECT];
        assert_eq!(some.map(Reason::code), [1, 11, 15, 35]);
    }
}
