//! The name of one state of a document: its life and its version.

use std::fmt;
use std::str::FromStr;

use super::place::{PiecePlace, number};

/// One state of a document. In an `ETag` it stands in quotes: `"3-0-41872-5.7"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentTag {
    /// The place of the piece that created the document.
    pub life: PiecePlace,
    /// The number of changes applied to the id.
    pub version: u64,
}

/// A text is no tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no ETag of a document: write LIFE.VERSION, such as 3-0-41872-5.7")]
pub struct DocumentTagError(String);

impl fmt::Display for DocumentTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.life, self.version)
    }
}

impl FromStr for DocumentTag {
    type Err = DocumentTagError;

    /// Reads the text without quotes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let tag = text.split_once('.').and_then(|(life, version)| {
            Some(DocumentTag { life: life.parse().ok()?, version: number(version)? })
        });
        tag.ok_or_else(|| DocumentTagError(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_one_text() {
        let life = PiecePlace { partition: 3, era: 0, offset: 41_872, record: 5 };
        let tag = DocumentTag { life, version: 7 };
        assert_eq!(tag.to_string(), "3-0-41872-5.7");
        assert_eq!("3-0-41872-5.7".parse(), Ok(tag));
        for wrong in ["", "3-0-41872-5", "3-0-41872-5.", "3-0-41872-5.07", "x.7", "\"3-0-1-5.7\""] {
            assert!(wrong.parse::<DocumentTag>().is_err(), "{wrong}");
        }
    }
}
