//! Control records of glue: gaps that end, releases, forgotten tombstones, and operators' retries and discards.
//!
//! They stand in the log of the collection, so their effect is decided in the order of all pieces. A word that no
//! longer fits the document changes nothing; appending it again is harmless.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use consort_kernel::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::pack::StoredFormatError;
use super::place::PiecePlace;
use crate::PieceForm;

/// The part that the words belong to, in the cluster's control records.
pub const PART: &str = "glue";

pub(crate) const VERSION: u8 = 1;
const FORMAT: &str = "control word";

/// The largest replacement of a retry. A control record carries it as base64, within the 2 MiB of a record.
pub const MAX_REPLACEMENT: usize = 1 << 20;

/// One word about one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlueWord {
    /// The format's version.
    v: u8,
    /// The tenant.
    pub tenant: String,
    /// The document.
    pub id: String,
    /// Whether a request waits for the outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wanted: bool,
    /// What is to happen.
    #[serde(flatten)]
    pub action: WordAction,
}

/// What a word asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum WordAction {
    /// The wait for a number is over.
    Gap {
        /// The sender's name.
        source: String,
        /// The number that is awaited.
        number: u64,
    },
    /// Queued pieces are applied.
    Release,
    /// The halting piece at this place is applied again, or its replacement.
    Retry {
        /// The place of the halting piece.
        place: PiecePlace,
        /// What is applied in its stead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replacement: Option<Replacement>,
    },
    /// The halting piece at this place is rejected for good.
    Discard {
        /// The place of the halting piece.
        place: PiecePlace,
    },
    /// The tombstone is forgotten, if its head still has this deadline.
    Forget {
        /// The deadline, in milliseconds.
        deadline: u64,
    },
}

/// What is applied in place of a halting piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Its form.
    #[serde(with = "form")]
    pub form: PieceForm,
    /// Its content.
    #[serde(with = "base64_text")]
    pub content: Bytes,
}

impl GlueWord {
    /// A word that no request waits for.
    pub fn new(tenant: impl Into<String>, id: impl Into<String>, action: WordAction) -> Self {
        GlueWord { v: VERSION, tenant: tenant.into(), id: id.into(), wanted: false, action }
    }

    /// The text of the control record.
    pub fn encode(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            // Texts and numbers: writing them into memory cannot fail.
            Err(error) => panic!("a control word could not be encoded: {error}"),
        }
    }

    /// Reads a text that [`encode`](GlueWord::encode) wrote.
    pub fn decode(text: &str) -> Result<Self, StoredFormatError> {
        #[derive(Deserialize)]
        struct Version {
            v: u8,
        }
        let malformed =
            |error: serde_json::Error| StoredFormatError::Malformed(FORMAT, error.to_string());
        let found = serde_json::from_str::<Version>(text).map_err(malformed)?.v;
        if found != VERSION {
            return Err(StoredFormatError::Version(FORMAT, found, VERSION));
        }
        serde_json::from_str(text).map_err(malformed)
    }
}

/// The cell of a document's deadline: the word that the timer appends then.
pub fn due_cell(word: &GlueWord) -> Bytes {
    word.encode().into()
}

/// The word of a due cell.
pub fn due_word(cell: &[u8]) -> Result<GlueWord, StoredFormatError> {
    let text = std::str::from_utf8(cell)
        .map_err(|error| StoredFormatError::Malformed(FORMAT, error.to_string()))?;
    GlueWord::decode(text)
}

impl WordAction {
    /// Forgets the tombstone with this deadline.
    pub fn forget(deadline: Timestamp) -> Self {
        WordAction::Forget { deadline: deadline.0 }
    }
}

mod form {
    //! A form by its name.

    use super::{Deserialize, Deserializer, PieceForm, Serializer};

    pub(super) fn serialize<S: Serializer>(form: &PieceForm, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(form.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PieceForm, D::Error> {
        let name = String::deserialize(from)?;
        PieceForm::parse(&name).ok_or_else(|| serde::de::Error::custom("an unknown form"))
    }
}

mod base64_text {
    //! Bytes as a base64 text.

    use super::{Bytes, Deserialize, Deserializer, Engine, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map(Bytes::from).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let place = "3-0-9-5".parse().unwrap();
        let content = Bytes::from_static(b"{}");
        let replacement = Some(Replacement { form: PieceForm::Whole, content });
        let cases = [
            (
                WordAction::Gap { source: "epg".into(), number: 3 },
                r#""word":"gap","source":"epg","number":3"#,
            ),
            (WordAction::Release, r#""word":"release""#),
            (WordAction::Retry { place, replacement: None }, r#""word":"retry","place":"3-0-9-5""#),
            (
                WordAction::Retry { place, replacement },
                r#""word":"retry","place":"3-0-9-5","replacement":{"form":"whole","content":"e30="}"#,
            ),
            (WordAction::Discard { place }, r#""word":"discard","place":"3-0-9-5""#),
            (WordAction::forget(Timestamp(7)), r#""word":"forget","deadline":7"#),
        ];
        for (action, tail) in cases {
            let word = GlueWord::new("a", "i", action);
            let stored = format!(r#"{{"v":1,"tenant":"a","id":"i",{tail}}}"#);
            assert_eq!(word.encode(), stored);
            assert_eq!(GlueWord::decode(&stored), Ok(word.clone()));
            assert_eq!(due_word(&due_cell(&word)), Ok(word));
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let later = r#"{"v":2,"tenant":"a","id":"i","word":"release"}"#;
        assert!(matches!(GlueWord::decode(later), Err(StoredFormatError::Version(_, 2, 1))));
        assert!(GlueWord::decode("release").is_err());
    }
}
