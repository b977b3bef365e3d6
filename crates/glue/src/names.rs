//! Which names collections, tenants, documents, sources and keys may have.

use std::fmt;

/// The most bytes of a document's id.
const MAX_ID: usize = 512;
/// The most characters of a tenant's name, and bytes of a source's.
const MAX_TENANT: usize = 64;
const MAX_SOURCE: usize = 64;
/// The most characters of an idempotency key.
const MAX_KEY: usize = 255;
/// The most characters of a collection's name: feed names add to it.
const MAX_COLLECTION: usize = 80;

/// The largest number of a piece: the largest whole number that every JSON reader keeps.
pub const MAX_SEQ: u64 = (1 << 53) - 1;

/// Ids that are paths of the interface, or that clients change on the way.
const RESERVED_IDS: [&str; 3] = ["rejects", ".", ".."];

/// Why a name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlueNameError {
    subject: &'static str,
    problem: String,
}

impl fmt::Display for GlueNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.problem)
    }
}

impl std::error::Error for GlueNameError {}

/// Checks the name of a collection.
pub fn check_collection_name(name: &str) -> Result<(), GlueNameError> {
    const SUBJECT: &str = "the name of a collection";
    length(SUBJECT, name, MAX_COLLECTION)?;
    characters(SUBJECT, name, "letters, digits, '_' and '-'", |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
    })
}

/// Checks the name of a tenant.
pub fn check_tenant(name: &str) -> Result<(), GlueNameError> {
    const SUBJECT: &str = "the name of a tenant";
    length(SUBJECT, name, MAX_TENANT)?;
    characters(SUBJECT, name, "letters, digits, '_', '-' and '.'", |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
    })
}

/// Checks the id of a document, decoded.
pub fn check_document_id(id: &str) -> Result<(), GlueNameError> {
    const SUBJECT: &str = "the id of a document";
    length(SUBJECT, id, MAX_ID)?;
    if RESERVED_IDS.contains(&id) {
        let problem = format!("cannot be '{id}', which is reserved");
        return Err(GlueNameError { subject: SUBJECT, problem });
    }
    characters(SUBJECT, id, "characters other than control characters", |c| !c.is_control())
}

/// Checks the name of a source.
pub fn check_source(source: &str) -> Result<(), GlueNameError> {
    const SUBJECT: &str = "the name of a source";
    length(SUBJECT, source, MAX_SOURCE)?;
    characters(SUBJECT, source, "characters other than control characters", |c| !c.is_control())
}

/// Checks an idempotency key.
pub fn check_idempotency_key(key: &str) -> Result<(), GlueNameError> {
    const SUBJECT: &str = "an idempotency key";
    length(SUBJECT, key, MAX_KEY)?;
    characters(SUBJECT, key, "visible ASCII characters", |c| c.is_ascii_graphic())
}

/// Checks the number of a piece.
pub fn check_seq(seq: u64) -> Result<(), GlueNameError> {
    if (1..=MAX_SEQ).contains(&seq) {
        return Ok(());
    }
    let problem = format!("must be a whole number from 1 to {MAX_SEQ}, it is {seq}");
    Err(GlueNameError { subject: "the number of a piece", problem })
}

fn length(subject: &'static str, text: &str, most: usize) -> Result<(), GlueNameError> {
    if (1..=most).contains(&text.len()) {
        return Ok(());
    }
    let problem = format!("has 1 to {most} bytes, this one has {}", text.len());
    Err(GlueNameError { subject, problem })
}

fn characters(
    subject: &'static str,
    text: &str,
    allowed: &str,
    is_allowed: impl Fn(char) -> bool,
) -> Result<(), GlueNameError> {
    match text.chars().find(|c| !is_allowed(*c)) {
        None => Ok(()),
        Some(wrong) => {
            let problem = format!("has {allowed}, not {wrong:?}");
            Err(GlueNameError { subject, problem })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_texts_without_control_characters() {
        for id in ["crid://a/1", "ä/ö", " ", "...", &"x".repeat(512)] {
            assert_eq!(check_document_id(id), Ok(()), "{id}");
        }
        for id in ["", ".", "..", "rejects", "a\n", "\u{85}", &"x".repeat(513)] {
            assert!(check_document_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn tenants_and_collections_have_plain_names() {
        assert_eq!(check_tenant("a.B-c_1"), Ok(()));
        assert_eq!(check_collection_name("a-b_1"), Ok(()));
        for name in ["", "a b", "ä", "a/b", "*", &"x".repeat(65)] {
            assert!(check_tenant(name).is_err(), "{name}");
        }
        for name in ["", "a.b", "a b", &"x".repeat(81)] {
            assert!(check_collection_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn sources_keys_and_numbers_keep_their_bounds() {
        assert_eq!(check_source("epg feed"), Ok(()));
        assert!(check_source("a\tb").is_err() && check_source(&"x".repeat(65)).is_err());
        assert_eq!(check_idempotency_key("k-1~!"), Ok(()));
        assert!(check_idempotency_key("k 1").is_err() && check_idempotency_key("").is_err());
        assert!(check_idempotency_key(&"x".repeat(256)).is_err());
        assert_eq!((check_seq(1), check_seq(MAX_SEQ)), (Ok(()), Ok(())));
        assert!(check_seq(0).is_err() && check_seq(MAX_SEQ + 1).is_err());
    }

    #[test]
    fn a_message_says_which_name_has_which_problem() {
        let error = check_tenant("a b").unwrap_err();
        let text = "the name of a tenant has letters, digits, '_', '-' and '.', not ' '";
        assert_eq!(error.to_string(), text);
    }
}
