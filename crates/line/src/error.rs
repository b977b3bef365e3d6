//! What can be wrong with a line, in words for whoever sent it.

use std::fmt;

/// A line that could not be read: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {fault}")]
pub struct LineError {
    /// The byte at which the fault is, counted from 1.
    pub column: usize,
    pub fault: Fault,
}

/// What is wrong with a line. Keys and words are repeated as they were sent, cut short where they are
/// long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the line is not valid UTF-8")]
    NotUtf8,
    #[error("a comment may not contain {0}")]
    InComment(Found),
    #[error("the line does not begin with a measurement, but with {0}")]
    NoMeasurement(Found),
    #[error("a measurement may not contain {0}")]
    InMeasurement(Found),
    #[error("the line ends after its tags: at least one field is missing, as in ` value=1`")]
    NoFields,
    #[error("a tag is missing: after a comma comes `key=value`, but here is {0}")]
    NoTag(Found),
    #[error(
        "the tag `{key}` has no `=`: after its key comes {found}; a space in a key is written `\\ `"
    )]
    NoTagEquals { key: String, found: Found },
    #[error("the tag `{0}` has no value; leave it out or give it one")]
    NoTagValue(String),
    #[error(
        "after the value of the tag `{key}` comes {found}: a comma, space or `=` within it is written \
         with a backslash before it"
    )]
    AfterTag { key: String, found: Found },
    #[error("the tag `{0}` is given twice")]
    TagTwice(String),
    #[error("a field is missing: `key=value` is expected, but here is {0}")]
    NoField(Found),
    #[error(
        "the field `{key}` has no `=`: after its key comes {found}; a space in a key is written `\\ `"
    )]
    NoFieldEquals { key: String, found: Found },
    #[error("the field `{0}` has no value")]
    NoFieldValue(String),
    #[error("the text of the field `{0}` has no closing quote")]
    OpenQuote(String),
    #[error(
        "after the text of the field `{key}` comes {found}; a quote within a text is written `\\\"`"
    )]
    AfterText { key: String, found: Found },
    #[error(
        "the value `{word}` of the field `{key}` is no number and no boolean; put a text in double \
         quotes"
    )]
    NoValue { key: String, word: String },
    #[error("the value `{word}` of the field `{key}` does not fit: {limit}")]
    DoesNotFit { key: String, word: String, limit: &'static str },
    #[error("the value of the field `{key}` may not contain {found} outside of quotes")]
    InWord { key: String, found: Found },
    #[error("`{0}` is no timestamp: a whole number is expected after the fields")]
    NoTime(String),
    #[error("the timestamp `{0}` does not fit; is the precision of the request right?")]
    TimeDoesNotFit(String),
    #[error("`{0}` follows the timestamp, where the line must end")]
    AfterTime(String),
}

/// What stands at a place of a line, for a message: a character, or the line's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(pub Option<char>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the end of the line"),
            Some(' ') => f.write_str("a space"),
            Some(',') => f.write_str("a comma"),
            Some('\t') => f.write_str("a tab"),
            Some('\r') => f.write_str("a carriage return"),
            Some('\n') => f.write_str("a line break"),
            Some(other) if other.is_control() => {
                write!(f, "the control character 0x{:02x}", u32::from(other))
            }
            Some(other) => write!(f, "`{other}`"),
        }
    }
}

/// What is repeated of a key or word: enough to find it, while a line may be megabytes long.
const SHOWN_CHARACTERS: usize = 60;

/// A key or word as a message repeats it.
pub(crate) fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(SHOWN_CHARACTERS).flat_map(visible).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Control characters by their escape, so that a message stays one line of a log.
fn visible(character: char) -> impl Iterator<Item = char> {
    let control = character.is_control();
    let escaped = control.then(|| character.escape_default()).into_iter().flatten();
    escaped.chain((!control).then_some(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_short_and_on_one_line() {
        assert_eq!(shown("key"), "key");
        assert_eq!(shown("a\nb\u{7f}é"), "a\\nb\\u{7f}é");
        let long = shown(&"é".repeat(1_000_000));
        assert_eq!(long.chars().count(), SHOWN_CHARACTERS + 1);
    }

    #[test]
    fn an_error_says_where_and_what() {
        let error = LineError {
            column: 18,
            fault: Fault::NoTagEquals { key: "region".to_owned(), found: Found(Some(' ')) },
        };
        assert_eq!(
            error.to_string(),
            "column 18: the tag `region` has no `=`: after its key comes a space; a space in a key is \
             written `\\ `"
        );
    }
}
