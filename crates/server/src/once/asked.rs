//! What a request asks for, in canonical form: two requests that mean the same make the same key, and nothing in
//! them can leave its place in the upstream's address.
//!
//! - The path's segments are decoded and encoded again: everything but letters, digits, `-`, `.`, `_` and `~` is
//!   in percent code. `.` and `..`, empty segments (but one at the end) and control characters are refused, in
//!   whichever spelling they come.
//! - The query's parameters are decoded (`+` is a blank) and encoded again, and sorted by name; those of one name
//!   keep their order, which may matter. Empty ones are dropped.
//! - `position` is taken out: it says what of the answer is wanted, not which answer.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parameter that picks an element.
const POSITION: &[u8] = b"position";

/// The longest path and query together, in canonical form: what servers commonly take of a request line.
const LONGEST: usize = 8 * 1024;

/// A request in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Without a slash at its beginning.
    pub(super) path: String,
    /// Without its question mark.
    pub(super) query: String,
    /// The element of the answer's list that is wanted.
    pub(super) position: Option<usize>,
}

/// Why a request cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unaskable {
    #[error("the path has the segment '{0}', which would lead elsewhere; ask for the place itself")]
    Dots(&'static str),
    #[error("the path has an empty segment ('//'); leave it out")]
    EmptySegment,
    #[error("the {0} has a control character, which nothing here can have")]
    Control(&'static str),
    #[error(
        "path and query have {0} bytes in percent code, and may have {LONGEST}; send parameters as the JSON body of a POST"
    )]
    TooLong(usize),
    #[error("'position' must be a whole number from 0, not '{0}'")]
    Position(String),
    #[error("'position' comes twice; give it once")]
    Positions,
}

impl Asked {
    /// `path` without the slash before it, `query` without the question mark, both as they came.
    pub(super) fn of(path: &str, query: &str) -> Result<Asked, Unaskable> {
        let path = canonical_path(path)?;
        let (query, position) = canonical_query(query)?;
        let length = path.len() + query.len();
        match length <= LONGEST {
            true => Ok(Asked { path, query, position }),
            false => Err(Unaskable::TooLong(length)),
        }
    }
}

fn canonical_path(raw: &str) -> Result<String, Unaskable> {
    let mut path = String::with_capacity(raw.len() + 8);
    if raw.is_empty() {
        return Ok(path);
    }
    let mut segments = raw.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if segment.is_empty() && (!last || path.is_empty()) {
            return Err(Unaskable::EmptySegment);
        }
        let decoded: Cow<'_, [u8]> = percent_decode(segment.as_bytes()).into();
        if decoded.iter().any(u8::is_ascii_control) {
            return Err(Unaskable::Control("path"));
        }
        // A slash in percent code stays one, but there are servers that decode before they look.
        for part in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
            match part {
                b"." => return Err(Unaskable::Dots(".")),
                b".." => return Err(Unaskable::Dots("..")),
                _ => {}
            }
        }
        path.extend(percent_encode(&decoded, RESERVED));
        if !last {
            path.push('/');
        }
    }
    Ok(path)
}

/// The canonical query, and the position.
fn canonical_query(raw: &str) -> Result<(String, Option<usize>), Unaskable> {
    if raw.is_empty() {
        return Ok((String::new(), None));
    }
    let mut position = None;
    let mut parameters: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    for parameter in raw.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = match parameter.split_once('=') {
            Some((name, value)) => (decoded(name)?, Some(decoded(value)?)),
            None => (decoded(parameter)?, None),
        };
        if name != POSITION {
            parameters.push((name, value));
        } else if position.replace(whole(value.as_deref().unwrap_or_default())?).is_some() {
            return Err(Unaskable::Positions);
        }
    }
    // The sort is stable: parameters of one name keep their order.
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut query = String::with_capacity(raw.len() + 8);
    for (name, value) in parameters {
        if !query.is_empty() {
            query.push('&');
        }
        query.extend(percent_encode(&name, RESERVED));
        if let Some(value) = value {
            query.push('=');
            query.extend(percent_encode(&value, RESERVED));
        }
    }
    Ok((query, position))
}

fn decoded(text: &str) -> Result<Vec<u8>, Unaskable> {
    let plus_is_blank = text.replace('+', " ");
    let decoded: Vec<u8> = percent_decode(plus_is_blank.as_bytes()).collect();
    match decoded.iter().any(|byte| byte.is_ascii_control() && !b"\t\r\n".contains(byte)) {
        true => Err(Unaskable::Control("query")),
        false => Ok(decoded),
    }
}

fn whole(value: &[u8]) -> Result<usize, Unaskable> {
    // `usize` would take a sign.
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = String::from_utf8_lossy(value);
    let refused = || Unaskable::Position(text.chars().take(50).collect());
    if digits { text.parse().map_err(|_| refused()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> Result<String, Unaskable> {
        Asked::of(raw, "").map(|asked| asked.path)
    }

    fn query(raw: &str) -> Result<String, Unaskable> {
        Asked::of("", raw).map(|asked| asked.query)
    }

    #[test]
    fn spellings_of_one_path_are_one_path() {
        for (raw, canonical) in [
            ("", ""),
            ("a/b", "a/b"),
            ("a/b/", "a/b/"),
            ("%61/%62", "a/b"),
            ("A-b_c.d~e", "A-b_c.d~e"),
            ("a%2fb", "a%2Fb"),
            ("ä b", "%C3%A4%20b"),
            ("%c3%a4%20b", "%C3%A4%20b"),
            ("a+b", "a%2Bb"),
            ("u@h:80", "u%40h%3A80"),
            ("http:%2F%2Fh", "http%3A%2F%2Fh"),
            ("..;x", "..%3Bx"),
            ("...", "..."),
            (".a", ".a"),
            ("100%", "100%25"),
            ("%zz", "%25zz"),
            ("%252e%252e", "%252e%252e"),
            ("%ff", "%FF"),
            ("a%23b%3Fc", "a%23b%3Fc"),
        ] {
            assert_eq!(path(raw).as_deref(), Ok(canonical), "{raw}");
        }
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused_in_every_spelling() {
        for raw in [
            "..",
            "../x",
            "a/../b",
            "a/..",
            "%2e%2e",
            "%2E%2e/x",
            ".%2e",
            "a/%2e%2e/b",
            "..%2f..%2fx",
            "..%5c..%5cx",
            "..\\x",
            "a%2f..%2fb",
        ] {
            assert_eq!(path(raw), Err(Unaskable::Dots("..")), "{raw}");
        }
        for raw in [".", "./a", "a/./b", "%2e", "a/%2E"] {
            assert_eq!(path(raw), Err(Unaskable::Dots(".")), "{raw}");
        }
        for raw in ["/", "//", "/h/x", "a//b", "a//", "//h"] {
            assert_eq!(path(raw), Err(Unaskable::EmptySegment), "{raw}");
        }
        for raw in ["a%0d%0aX: y", "%00", "a%7f", "%0a"] {
            assert_eq!(path(raw), Err(Unaskable::Control("path")), "{raw}");
        }
        assert_eq!(query("a=%00"), Err(Unaskable::Control("query")));
    }

    #[test]
    fn nothing_but_unreserved_characters_and_percent_code_is_left() {
        let all: String = (0x21..0x7f).map(char::from).filter(|c| !"/%".contains(*c)).collect();
        let asked = Asked::of(&all, &all).unwrap();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
        assert!(asked.path.chars().all(plain), "{}", asked.path);
        assert!(asked.query.chars().all(|c| plain(c) || "=&".contains(c)), "{}", asked.query);
    }

    #[test]
    fn parameters_are_sorted_by_name_and_keep_their_order_within_it() {
        for (raw, canonical) in [
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&b=3&a=1", "a=2&a=1&b=3"),
            ("&&a=1&", "a=1"),
            ("a", "a"),
            ("a=", "a="),
            ("=1", "=1"),
            ("a=b=c", "a=b%3Dc"),
            ("q=x+y", "q=x%20y"),
            ("q=x%20y", "q=x%20y"),
            ("q=x%2By", "q=x%2By"),
            ("q=%0d%0a", "q=%0D%0A"),
            ("q=a%26b%23c", "q=a%26b%23c"),
            ("u=http://h/../x", "u=http%3A%2F%2Fh%2F..%2Fx"),
        ] {
            assert_eq!(query(raw).as_deref(), Ok(canonical), "{raw}");
        }
    }

    #[test]
    fn the_position_is_no_part_of_the_key() {
        let asked = Asked::of("a", "b=1&position=3&a=2").unwrap();
        assert_eq!((asked.query.as_str(), asked.position), ("a=2&b=1", Some(3)));
        let spelt = Asked::of("a", "p%6fsition=0").unwrap();
        assert_eq!((spelt.query.as_str(), spelt.position), ("", Some(0)));
        for wrong in
            ["position=-1", "position=%2B1", "position=1.5", "position=x", "position=", "position"]
        {
            assert!(matches!(query(wrong), Err(Unaskable::Position(_))), "{wrong}");
        }
        let too_large = format!("position={}0", usize::MAX);
        assert!(matches!(query(&too_large), Err(Unaskable::Position(_))));
        assert_eq!(query("position=1&position=1"), Err(Unaskable::Positions));
    }

    #[test]
    fn a_request_of_any_length_is_not_taken() {
        assert!(path(&"a".repeat(LONGEST)).is_ok());
        assert_eq!(path(&"a".repeat(LONGEST + 1)), Err(Unaskable::TooLong(LONGEST + 1)));
        assert!(matches!(query(&"%00".repeat(10)), Err(Unaskable::Control(_))));
        assert!(matches!(query(&"ä".repeat(LONGEST / 3)), Err(Unaskable::TooLong(_))));
    }
}
