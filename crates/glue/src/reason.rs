//! Why a piece is refused or rejected.
//!
//! A piece is *refused* before it is stored, for what it is by itself. A piece is *rejected* when it is applied, in the
//! order of the log. Both name a [`Reason`], which has one name and one status wherever it is shown.

use std::fmt;

/// One reason, by its name in problems, reject lists and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    name: &'static str,
    status: u16,
}

/// A reason with what happened to which part of the piece.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// What happened, to which operation and place, for whoever sent the piece.
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

/// Declares the reasons and their list.
macro_rules! reasons {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $status:literal;)*) => {
        impl Reason {
            $($(#[$doc])* pub const $constant: Reason = Reason { name: $name, status: $status };)*

            /// All reasons.
            pub const ALL: &'static [Reason] = &[$(Reason::$constant),*];
        }
    };
}

reasons! {
    /// The body is not what its type says.
    MALFORMED = "malformed", 400;
    /// An object names a member twice.
    DUPLICATE_NAME = "duplicate-name", 400;
    /// A number would not keep its value.
    NUMBER_CHANGES = "number-would-change", 400;
    /// RFC 5261: the patch is not a well-formed patch document.
    INVALID_DIFF_FORMAT = "invalid-diff-format", 400;
    /// RFC 5261: an attribute of an operation has a value that it cannot have.
    INVALID_ATTRIBUTE_VALUE = "invalid-attribute-value", 400;
    /// RFC 5261: the patch is not in UTF-8.
    INVALID_CHARACTER_SET = "invalid-character-set", 400;
    /// RFC 5261: the patch or document declares entities or has a DOCTYPE.
    INVALID_ENTITY_DECLARATION = "invalid-entity-declaration", 400;
    /// The piece is larger than any piece may be.
    PIECE_TOO_LARGE = "piece-too-large", 413;
    /// The piece has more operations than any piece may have.
    TOO_MANY_OPERATIONS = "too-many-operations", 413;
    /// The piece is nested deeper than any document may be.
    PIECE_TOO_DEEP = "piece-too-deep", 413;
    /// There is no document, and this form does not create one.
    NO_DOCUMENT = "no-document", 404;
    /// The document is deleted.
    DELETED = "deleted", 410;
    /// An operation names a place that the document does not have.
    MISSING_PATH = "missing-path", 409;
    /// A `test` operation failed.
    TEST_FAILED = "test-failed", 409;
    /// The number of the piece was skipped, and the pieces behind it were applied.
    LATE = "late", 409;
    /// RFC 5261: a selector finds no node, or several.
    UNLOCATED_NODE = "unlocated-node", 409;
    /// RFC 5261: a prefix of the patch is not declared, or the document's cannot be used.
    INVALID_NAMESPACE_PREFIX = "invalid-namespace-prefix", 409;
    /// RFC 5261: a namespace URI is not valid at its place.
    INVALID_NAMESPACE_URI = "invalid-namespace-uri", 409;
    /// RFC 5261: the content is not of the kind that the operation needs.
    INVALID_NODE_TYPES = "invalid-node-types", 409;
    /// RFC 5261: an operation cannot be carried out as it stands.
    INVALID_PATCH_DIRECTIVE = "invalid-patch-directive", 409;
    /// RFC 5261: the document's root can be neither removed nor joined by another.
    INVALID_ROOT_ELEMENT_OPERATION = "invalid-root-element-operation", 409;
    /// RFC 5261: there is no white space where `ws` says so.
    INVALID_WHITESPACE_DIRECTIVE = "invalid-whitespace-directive", 409;
    /// RFC 5261: an operation would change the prolog in a way that XML forbids.
    INVALID_XML_PROLOG_OPERATION = "invalid-xml-prolog-operation", 409;
    /// A condition on the document's version does not hold.
    CONDITION_FAILED = "condition-failed", 412;
    /// A value would be moved into itself.
    MOVE_INTO_ITSELF = "move-into-itself", 422;
    /// The document would be larger than the collection allows.
    TOO_LARGE = "too-large", 422;
    /// The document would be nested too deep.
    TOO_DEEP = "too-deep", 422;
    /// The piece visits or moves more than a piece may.
    TOO_COSTLY = "too-costly", 422;
    /// The document has pieces of as many sources as it may have.
    TOO_MANY_SOURCES = "too-many-sources", 422;
    /// The idempotency key came with another piece before.
    KEY_REUSED = "key-reused", 422;
    /// RFC 5261: `id()` needs a schema, and there is none.
    UNSUPPORTED_ID_FUNCTION = "unsupported-id-function", 422;
    /// RFC 5261: `xml:id` is not supported.
    UNSUPPORTED_XML_ID = "unsupported-xml-id", 422;
    /// The piece stands behind a halted document that holds as many pieces as it may.
    HALTED = "halted", 423;
    /// A number before this piece never came, and the collection rejects what waits behind a gap.
    GAP = "gap", 409;
    /// The format's library failed on this piece: a fault of Consort, which is logged.
    DEFECT = "defect", 422;
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
            assert!(Reason::ALL[..at].iter().all(|other| other.name != reason.name));
        }
        assert_eq!(Reason::parse("no-such-reason"), None);
    }
}
