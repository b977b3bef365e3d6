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
    /// Where the next of these lines begins.
    at: usize,
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
        debug_assert!(self.is_used_up(), "what is whole was not used up");
        // A line ends with a line break only.
        let ends = memchr::memchr(b'\n', &piece).is_some();
        self.rest.extend_from_slice(&piece);
        if ends && self.rest.len() >= self.look_from {
            self.look_again();
        }
        self.skip();
    }

    fn next(&mut self) -> Option<Line<'_>> {
        if self.is_used_up() {
            // Its memory is for what comes next.
            self.use_up();
            return None;
        }
        if self.skipping {
            return self.skip_to_the_end();
        }
        let left = &self.whole[self.at..];
        let (line, breaks) = consort_line::first_line(left);
        let length = line.len();
        let end = match left[length..] {
            [b'\n', ..] => length + 1,
            [b'\r', b'\n', ..] => length + 2,
            // It has not come whole.
            _ => {
                self.rest = BytesMut::from(left);
                self.use_up();
                self.look_from = self.rest.len() + self.rest.len() / 4;
                self.skip();
                return None;
            }
        };
        let line = self.at..self.at + length;
        self.at += end;
        self.look_from = 0;
        let too_long = length > self.most;
        let whole = Line::Whole(&self.whole[line], breaks as u64);
        Some(if too_long { Line::TooLong } else { whole })
    }

    fn held(&self) -> usize {
        self.rest.len() + self.whole.len()
    }

    fn look_again(&mut self) {
        if self.is_used_up() {
            (self.whole, self.at) = (self.rest.split().freeze(), 0);
        }
    }

    fn last(&mut self) -> Option<Line<'_>> {
        if self.skipping {
            return Some(Line::TooLong);
        }
        let line = self.rest.strip_suffix(b"\r").unwrap_or(&self.rest);
        let breaks = memchr::memchr_iter(b'\n', line).count() as u64;
        (!line.is_empty()).then_some(Line::Whole(line, breaks))
    }
}

impl PointLines {
    /// For lines of at most so many bytes.
    pub fn new(most: usize) -> PointLines {
        let (rest, whole) = (BytesMut::new(), Bytes::new());
        PointLines { most, rest, whole, at: 0, look_from: 0, skipping: false }
    }

    /// Whether [`look_again`](Split::look_again) may find what has not been looked at.
    pub fn waits(&self) -> bool {
        self.look_from > 0 && self.rest.len() > self.look_from * 4 / 5
    }

    fn is_used_up(&self) -> bool {
        self.at == self.whole.len()
    }

    fn use_up(&mut self) {
        (self.whole, self.at) = (Bytes::new(), 0);
    }

    /// Lets go of a line that is too long, up to its end. Where that is within a text nobody can tell any more, so
    /// it is the next line break.
    fn skip(&mut self) {
        if self.rest.len() > self.most {
            self.skipping = true;
        }
        if self.skipping && self.is_used_up() {
            match memchr::memchr(b'\n', &self.rest) {
                Some(_) => self.look_again(),
                None => self.rest.clear(),
            }
        }
    }

    fn skip_to_the_end(&mut self) -> Option<Line<'static>> {
        let Some(end) = memchr::memchr(b'\n', &self.whole[self.at..]) else {
            self.use_up();
            return None;
        };
        self.at += end + 1;
        (self.skipping, self.look_from) = (false, 0);
        Some(Line::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line and the line breaks within it; none for one that is too long.
    type Told = Option<(String, u64)>;

    fn split(pieces: &[&[u8]]) -> Vec<Told> {
        let mut lines = PointLines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(Bytes::copy_from_slice(piece));
            tell(&mut lines, &mut found);
        }
        lines.look_again();
        tell(&mut lines, &mut found);
        found.extend(lines.last().map(told));
        found
    }

    fn tell(lines: &mut PointLines, found: &mut Vec<Told>) {
        while let Some(line) = lines.next() {
            found.push(told(line));
        }
    }

    fn told(line: Line<'_>) -> Told {
        match line {
            Line::Whole(line, breaks) => Some((String::from_utf8(line.to_vec()).unwrap(), breaks)),
            Line::TooLong => None,
        }
    }

    fn whole(text: &str) -> Told {
        Some((text.into(), text.matches('\n').count() as u64))
    }

    #[test]
    fn lines_are_the_same_however_the_body_is_cut() {
        let body = "m f=1\r\nm,t=\\\"a f=\"x\ny\\\"\n\",g=2 5\n\n# \"no text\nn f=\"a\\\\\"\r\nlast f=\"1\n\"";
        let expected: Vec<Told> = consort_line::lines(body.as_bytes())
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
        assert_eq!(found, [None, whole("next f=1"), None]);
        let at_once = [&long[..], &long, b"\nnext f=1"].concat();
        assert_eq!(split(&[&at_once]), [None, whole("next f=1")]);
    }

    #[test]
    fn a_text_that_is_never_closed_takes_no_more_than_a_line_may() {
        let open = [b"m f=\"", &vec![b'x'; LINE_MOST][..]].concat();
        let found = split(&[&open, b"x\nnext f=1\n"]);
        assert_eq!(found, [None, whole("next f=1")]);
        let breaks = [b"m f=\"", &b"\n".repeat(1_000)[..]].concat();
        let pieces: Vec<&[u8]> = breaks.chunks(1).collect();
        let found = split(&pieces);
        assert_eq!(found, [whole(std::str::from_utf8(&breaks).unwrap())]);
    }
}
