//! Splits a body of line protocol that comes in pieces into its lines, in bounded memory. A line break within a
//! quoted text does not end a line, so where a line ends is asked of the line protocol itself.

use bytes::{Bytes, BytesMut};

use super::lines::{LINE_MOST, Line, Split};

/// Where a body has been split so far.
#[derive(Debug)]
pub struct PointLines {
    /// The longest line.
    most: usize,
    /// What came, and was not yet looked at for whole lines.
    rest: BytesMut,
    /// What is being split: lines that have come whole, and perhaps the beginning of another.
    whole: Bytes,
    /// The rest is looked at when it has this many bytes. A text that is not closed is looked through from its
    /// line's beginning each time, so this grows with it: a client that sends line breaks one by one must not
    /// make us look through all of it for each.
    look_from: usize,
    skipping: bool,
}

impl Default for PointLines {
    fn default() -> PointLines {
        PointLines::new(LINE_MOST)
    }
}

impl Split for PointLines {
    fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.whole.is_empty(), "what is whole was not used up");
        // A line ends with a line break only.
        let ends = memchr::memchr(b'\n', &piece).is_some();
        self.rest.extend_from_slice(&piece);
        if ends && self.rest.len() >= self.look_from {
            self.look_again();
        }
        self.skip();
    }

    fn next(&mut self) -> Option<Line> {
        if self.whole.is_empty() {
            return None;
        }
        if self.skipping {
            return self.skip_to_the_end();
        }
        let (_, line) = consort_line::lines(&self.whole).next()?;
        let length = line.len();
        let end = match self.whole[length..] {
            [b'\n', ..] => length + 1,
            [b'\r', b'\n', ..] => length + 2,
            // It has not come whole.
            _ => {
                self.rest = BytesMut::from(&std::mem::take(&mut self.whole)[..]);
                self.look_from = self.rest.len() + self.rest.len() / 4;
                self.skip();
                return None;
            }
        };
        let line = self.whole.split_to(end).slice(..length);
        self.look_from = 0;
        Some(if line.len() > self.most { Line::TooLong } else { Line::Whole(line) })
    }

    fn look_again(&mut self) {
        if self.whole.is_empty() {
            self.whole = self.rest.split().freeze();
        }
    }

    fn last(self) -> Option<Line> {
        if self.skipping {
            return Some(Line::TooLong);
        }
        let line = self.rest.freeze();
        let line = match line.strip_suffix(b"\r") {
            Some(without) => line.slice(..without.len()),
            None => line,
        };
        (!line.is_empty()).then_some(Line::Whole(line))
    }
}

impl PointLines {
    /// For lines of at most so many bytes.
    pub fn new(most: usize) -> PointLines {
        let (rest, whole) = (BytesMut::new(), Bytes::new());
        PointLines { most, rest, whole, look_from: 0, skipping: false }
    }

    /// Whether [`look_again`](Split::look_again) may find what has not been looked at.
    pub fn waits(&self) -> bool {
        self.look_from > 0 && self.rest.len() > self.look_from * 4 / 5
    }

    /// Lets go of a line that is too long, up to its end. Where that is within a text nobody can tell any more, so
    /// it is the next line break.
    fn skip(&mut self) {
        if self.rest.len() > self.most {
            self.skipping = true;
        }
        if self.skipping && self.whole.is_empty() {
            match memchr::memchr(b'\n', &self.rest) {
                Some(_) => self.look_again(),
                None => self.rest.clear(),
            }
        }
    }

    fn skip_to_the_end(&mut self) -> Option<Line> {
        let end = memchr::memchr(b'\n', &self.whole);
        let Some(end) = end else {
            self.whole.clear();
            return None;
        };
        drop(self.whole.split_to(end + 1));
        (self.skipping, self.look_from) = (false, 0);
        Some(Line::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Line> {
        let mut lines = PointLines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(Bytes::copy_from_slice(piece));
            found.extend(std::iter::from_fn(|| lines.next()));
        }
        lines.look_again();
        found.extend(std::iter::from_fn(|| lines.next()));
        found.extend(lines.last());
        found
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_are_the_same_however_the_body_is_cut() {
        let body = "m f=1\r\nm,t=\\\"a f=\"x\ny\\\"\n\",g=2 5\n\n# \"no text\nn f=\"a\\\\\"\r\nlast f=\"1\n\"";
        let expected: Vec<Line> = consort_line::lines(body.as_bytes())
            .map(|(_, line)| whole(std::str::from_utf8(line).unwrap()))
            .collect();
        assert_eq!(expected.len(), 6);
        let body = body.as_bytes();
        for first in 0..body.len() {
            for second in first..body.len() {
                let pieces = [&body[..first], &body[first..second], &body[second..]];
                assert_eq!(split(&pieces), expected, "cut at {first} and {second}");
            }
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(split(&bytes), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_found() {
        let long = vec![b'x'; LINE_MOST / 2 + 1];
        let found = split(&[&long, &long, b"x\nnext f=1\n", &long, &long]);
        assert_eq!(found, [Line::TooLong, whole("next f=1"), Line::TooLong]);
        let at_once = [&long[..], &long, b"\nnext f=1"].concat();
        assert_eq!(split(&[&at_once]), [Line::TooLong, whole("next f=1")]);
    }

    #[test]
    fn a_text_that_is_never_closed_takes_no_more_than_a_line_may() {
        let open = [b"m f=\"", &vec![b'x'; LINE_MOST][..]].concat();
        let found = split(&[&open, b"x\nnext f=1\n"]);
        assert_eq!(found, [Line::TooLong, whole("next f=1")]);
        let breaks = [b"m f=\"", &b"\n".repeat(1_000)[..]].concat();
        let pieces: Vec<&[u8]> = breaks.chunks(1).collect();
        let found = split(&pieces);
        assert_eq!(found, [whole(std::str::from_utf8(&breaks).unwrap())]);
    }
}
