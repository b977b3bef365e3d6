//! The bytes of a line by what they may do, and the walk over one token with its escapes. Splitting,
//! reading and writing all ask here, so that they cannot disagree.

use std::borrow::Cow;

/// A place in a line where a name stands; they differ in what ends it and in what a backslash escapes.
#[derive(Clone, Copy)]
pub(crate) enum Name {
    /// Ends at comma and space.
    Measurement,
    /// The key of a tag or field, or the value of a tag: ends at `=` too.
    Key,
    /// A bare word of the loose dialect: ends as a measurement does, unescaped as a tag value is.
    Word,
}

/// Comma and space end every name.
const DIVIDER: u8 = 1;
/// `=` ends keys.
const EQUALS: u8 = 2;
/// Control characters end every name and are errors there.
const CONTROL: u8 = 4;
const BACKSLASH: u8 = 8;

/// What each byte is. Bytes of 128 and more are parts of characters, and those stand for themselves.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 32 {
        class[byte] = CONTROL;
        byte += 1;
    }
    class[0x7f] = CONTROL;
    class[b',' as usize] = DIVIDER;
    class[b' ' as usize] = DIVIDER;
    class[b'=' as usize] = EQUALS;
    class[b'\\' as usize] = BACKSLASH;
    class
};

pub(crate) fn is_control(byte: u8) -> bool {
    CLASS[usize::from(byte)] == CONTROL
}

impl Name {
    fn ends(self) -> u8 {
        match self {
            Self::Measurement | Self::Word => DIVIDER | CONTROL,
            Self::Key => DIVIDER | EQUALS | CONTROL,
        }
    }

    /// Whether a backslash before this byte is an escape. Before any other it is itself, before another
    /// backslash too: `\\,` is a backslash and an escaped comma.
    pub(crate) fn escapes(self, byte: u8) -> bool {
        match self {
            Self::Measurement => CLASS[usize::from(byte)] == DIVIDER,
            Self::Key | Self::Word => CLASS[usize::from(byte)] & (DIVIDER | EQUALS) != 0,
        }
    }

    /// Where the name that begins at `start` ends, and whether it has escapes.
    #[inline]
    pub(crate) fn end(self, line: &[u8], start: usize) -> (usize, bool) {
        let stop = self.ends() | BACKSLASH;
        let mut at = start;
        let mut escaped = false;
        while let Some(&byte) = line.get(at) {
            let class = CLASS[usize::from(byte)] & stop;
            if class == 0 {
                at += 1;
            } else if class != BACKSLASH {
                break;
            } else if line.get(at + 1).is_some_and(|&next| self.escapes(next)) {
                escaped = true;
                at += 2;
            } else {
                at += 1;
            }
        }
        (at, escaped)
    }

    /// The name itself, its escapes taken out.
    pub(crate) fn unescaped(self, raw: &str, escaped: bool) -> Cow<'_, str> {
        if !escaped {
            return Cow::Borrowed(raw);
        }
        unescape(raw, |next| self.escapes(next).then_some(char::from(next)))
    }
}

/// Where the spaces end that begin at `start`, if any do.
#[inline]
pub(crate) fn spaces_end(line: &[u8], start: usize) -> usize {
    let mut at = start;
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// What the byte after a backslash stands for within a quoted text.
pub(crate) fn text_escape(byte: u8) -> Option<char> {
    match byte {
        b'"' | b'\\' => Some(char::from(byte)),
        b'n' => Some('\n'),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        _ => None,
    }
}

/// Where the closing quote is of a text whose first byte is at `start`, and whether the text has
/// backslashes. `None`: it has no closing quote.
#[inline]
pub(crate) fn closing_quote(line: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut backslashes = false;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some((at, backslashes));
        }
        backslashes = true;
        // A backslash that escapes nothing stands alone, and what follows it is read as itself.
        let escapes = line.get(at + 1).is_some_and(|&next| text_escape(next).is_some());
        at += 1 + usize::from(escapes);
    }
}

/// The text with every escape replaced. `meaning` says what the byte after a backslash stands for;
/// where that is nothing, the backslash stands for itself.
pub(crate) fn unescape(raw: &str, meaning: impl Fn(u8) -> Option<char>) -> Cow<'_, str> {
    let mut plain = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        match rest.as_bytes().get(at + 1).and_then(|&next| meaning(next)) {
            Some(character) => {
                plain.push_str(&rest[..at]);
                plain.push(character);
                rest = &rest[at + 2..];
            }
            None => {
                plain.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_where_its_place_says() {
        let cases: [(&str, usize, usize); 12] = [
            ("cpu", 3, 3),
            ("cpu,a", 3, 3),
            ("cpu a", 3, 3),
            ("a=b c", 3, 1),
            ("a\\=b c", 4, 4),
            ("a\\ b\\,c d", 7, 7),
            ("a\\", 2, 2),
            ("a\\\\ b c", 5, 5),
            ("a\tb", 1, 1),
            ("a\u{7f}b", 1, 1),
            ("é\\é b", 5, 5),
            ("", 0, 0),
        ];
        for (line, measurement, key) in cases {
            assert_eq!(Name::Measurement.end(line.as_bytes(), 0).0, measurement, "{line:?}");
            assert_eq!(Name::Key.end(line.as_bytes(), 0).0, key, "{line:?}");
        }
    }

    #[test]
    fn escapes_are_taken_out_and_other_backslashes_stay() {
        let cases = [
            ("a\\,b", "a,b", "a,b"),
            ("a\\=b", "a\\=b", "a=b"),
            ("a\\\\,b", "a\\,b", "a\\,b"),
            ("\\a\\", "\\a\\", "\\a\\"),
            ("\\ ", " ", " "),
        ];
        for (raw, measurement, key) in cases {
            assert_eq!(Name::Measurement.unescaped(raw, true), measurement, "{raw:?}");
            assert_eq!(Name::Key.unescaped(raw, true), key, "{raw:?}");
        }
    }

    #[test]
    fn a_text_ends_at_the_first_quote_that_is_not_escaped() {
        let cases = [
            ("abc\"d", Some((3, false))),
            ("\"", Some((0, false))),
            ("a\\\"b\"", Some((4, true))),
            ("a\\\\\"b\"", Some((3, true))),
            ("a\\x\"", Some((3, true))),
            ("a\nb\"", Some((3, false))),
            ("abc", None),
            ("abc\\", None),
            ("abc\\\"", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(closing_quote(text.as_bytes(), 0), expected, "{text:?}");
        }
    }
}
