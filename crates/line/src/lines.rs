//! A body or datagram split into its lines, without reading them.

use crate::scan::{Name, closing_quote, spaces_end};

/// The lines of a body, each with its number, counted from 1.
///
/// A line ends at a line feed, or a carriage return and a line feed, and the last also at the body's end
/// or a carriage return before it; none of these is part of the line. A line break within the quoted
/// text of a field does not end the line, but counts in the numbers. Where that text has no closing
/// quote, the line reaches to the end of the body, as with InfluxDB. Blank lines and comments are lines
/// too; in a comment quotes mean nothing.
///
/// Both dialects are split alike.
pub fn lines(body: &[u8]) -> Lines<'_> {
    Lines { rest: body, number: 1 }
}

/// See [`lines()`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let number = self.number;
        let (end, breaks) = first_end(self.rest);
        self.number += 1 + breaks;
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some((number, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// The first line of a body, as [`lines()`] gives it, and how many line breaks stand within it; for a body that
/// comes in pieces, whose last line may not be whole.
#[inline]
pub fn first_line(body: &[u8]) -> (&[u8], usize) {
    let (end, breaks) = first_end(body);
    let line = &body[..end];
    (line.strip_suffix(b"\r").unwrap_or(line), breaks)
}

/// Where the first line ends, before its line feed, and how many line breaks stand within it.
#[inline]
fn first_end(body: &[u8]) -> (usize, usize) {
    let break_at = memchr::memchr(b'\n', body).unwrap_or(body.len());
    let before = &body[..break_at];
    // Most lines have no quote before the first line break, or close it before: then that is the end.
    let end = match memchr::memchr(b'"', before) {
        None => break_at,
        Some(quote) if has_one_text(before, quote) => break_at,
        Some(_) => end_by_quotes(body, break_at),
    };
    let breaks = match end > break_at {
        true => memchr::memchr_iter(b'\n', &body[..end]).count(),
        false => 0,
    };
    (end, breaks)
}

/// Whether it is plain that a line with its first quote there has just one text, which is closed: its first
/// field is that text, there are no other quotes, and no backslash that could make one mean something else.
/// Of lines that are not well formed it may be told as well: their quotes mean nothing.
#[inline]
fn has_one_text(line: &[u8], quote: usize) -> bool {
    let (before, text) = (&line[..quote], &line[quote + 1..]);
    // Spaces before a line are no end of its tags.
    let Some(space @ 1..) = memchr::memchr(b' ', before) else { return false };
    if memchr::memchr(b'=', &before[space..]) != Some(before.len() - space - 1)
        || memchr::memchr(b'\\', before).is_some()
    {
        return false;
    }
    match memchr::memchr2(b'"', b'\\', text) {
        Some(end) => text[end] == b'"' && memchr::memchr(b'"', &text[end + 1..]).is_none(),
        None => false,
    }
}

/// Where the line ends whose first line break, which may be within a quoted text, is known. Only the
/// value of a field can be quoted, so keys and values are followed as the reader does. Where the line
/// is not well formed, its quotes mean nothing any more, and the next line break ends it.
fn end_by_quotes(body: &[u8], break_at: usize) -> usize {
    let mut at = spaces_end(body, 0);
    if body.get(at) == Some(&b'#') {
        return break_at;
    }
    // The measurement and the tags.
    loop {
        at = Name::Measurement.end(body, at).0;
        match body.get(at) {
            Some(b',') => at += 1,
            Some(b' ') => break,
            _ => return break_at,
        }
    }
    at = spaces_end(body, at);
    // The fields.
    loop {
        at = Name::Key.end(body, at).0;
        if body.get(at) != Some(&b'=') {
            break;
        }
        at += 1;
        at = if body.get(at) == Some(&b'"') {
            match closing_quote(body, at + 1) {
                Some((quote, _)) => quote + 1,
                None => return body.len(),
            }
        } else {
            Name::Word.end(body, at).0
        };
        if body.get(at) != Some(&b',') {
            break;
        }
        at += 1;
    }
    // Here is the timestamp, the end, or something that does not belong.
    memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parts of lines, so that what they make is often nearly a line.
    fn parts() -> impl Strategy<Value = Vec<&'static str>> {
        const PARTS: [&str; 14] = [
            "m", "x", " ", ",", "=", "\"", "\\", "#", "\n", " f=\"", ",t=\"", "\\\"", "\\ ", "\" ",
        ];
        proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..10)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn a_line_that_plainly_has_one_text_ends_where_its_quotes_say(parts in parts()) {
            let body = parts.concat();
            let body = body.as_bytes();
            let break_at = memchr::memchr(b'\n', body).unwrap_or(body.len());
            if let Some(quote) = memchr::memchr(b'"', &body[..break_at])
                && has_one_text(&body[..break_at], quote)
            {
                prop_assert_eq!(end_by_quotes(body, break_at), break_at);
            }
        }
    }

    #[test]
    fn a_usual_line_plainly_has_one_text() {
        for line in ["m,t=a f=\"x\" 1", "m f=\"x y=\",g=1", "m  f=\"\"", "m f=\"x\",g=\\a"] {
            let quote = line.find('"').unwrap();
            assert!(has_one_text(line.as_bytes(), quote), "{line}");
        }
        let others = [
            "m f=\"x\",g=\"y\"",
            "m f=\"x",
            "m f=1,g=\"x\"",
            " m,t=\" f=\"",
            "m f=\"\\\"",
            "m\\ x=\" f=\"z",
        ];
        for line in others {
            let quote = line.find('"').unwrap();
            assert!(!has_one_text(line.as_bytes(), quote), "{line}");
        }
    }

    fn split(body: &str) -> Vec<(usize, &str)> {
        lines(body.as_bytes())
            .map(|(number, line)| (number, std::str::from_utf8(line).unwrap()))
            .collect()
    }

    #[test]
    fn a_body_is_split_at_its_line_breaks() {
        assert_eq!(split(""), []);
        assert_eq!(split("a"), [(1, "a")]);
        assert_eq!(split("a\n"), [(1, "a")]);
        assert_eq!(split("a\nb"), [(1, "a"), (2, "b")]);
        assert_eq!(split("\n\n a \n"), [(1, ""), (2, ""), (3, " a ")]);
    }

    #[test]
    fn a_carriage_return_is_part_of_a_line_end_only() {
        assert_eq!(split("a\r\nb\r\n"), [(1, "a"), (2, "b")]);
        assert_eq!(split("a\rb\r"), [(1, "a\rb")]);
        assert_eq!(split("a\r\r\n"), [(1, "a\r")]);
        assert_eq!(split("\r\n\r"), [(1, ""), (2, "")]);
        assert_eq!(split("m f=\"a\r\nb\"\r\nn"), [(1, "m f=\"a\r\nb\""), (3, "n")]);
    }

    #[test]
    fn a_line_break_within_a_quoted_text_does_not_end_the_line() {
        let whole = [
            "m f=\"a\nb\"",
            "m f=\"a\nb\" 1",
            "  m  f=\"a\nb\"",
            "m,t=v f=\"a\n\nb\",g=\"\n\"",
            "m,t=\" f=1,g=\"\n\"",
            "m\\ x,t=v f\\=\\ =\"\\\"\n\"",
            "m f=\"\\\\\",g=\"\n\"",
            "m f=word,g=\"\n\"",
            "m f=wo\\,rd,g=\"\n\"",
            "t=v f=\"a\nb\"",
        ];
        for line in whole {
            let body = format!("{line}\nnext x=1");
            let breaks = line.matches('\n').count();
            assert_eq!(split(&body), [(1, line), (2 + breaks, "next x=1")], "{line:?}");
        }
    }

    #[test]
    fn quotes_elsewhere_do_not_hide_a_line_break() {
        let first = [
            "# f=\"a",
            "  # m f=\"a",
            "\"m f=1",
            "m,t=\" f=1",
            "m,t=\"a f=1",
            "m \"=1",
            "m f\\=\"x=1",
            "m f=1\"",
            "m f=a=\"b",
            "m f=\"a\" \"",
            "m f=\"a\"x=\"",
            "m f=1 g=\"",
            "m f=1\\,g=\"a",
            "m\tf=\"a",
            "\"",
        ];
        for line in first {
            let body = format!("{line}\nnext x=\"1\"");
            assert_eq!(split(&body), [(1, line), (2, "next x=\"1\"")], "{line:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_closed_takes_the_rest() {
        assert_eq!(split("a x=1\nm f=\"a\nb c=1\n"), [(1, "a x=1"), (2, "m f=\"a\nb c=1\n")]);
        assert_eq!(split("m f=\"\\\""), [(1, "m f=\"\\\"")]);
    }
}
