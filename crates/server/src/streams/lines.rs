//! Splits a body that comes in pieces into lines, in bounded memory: what that means for all forms, and how it is
//! done for JSON.

use bytes::{Buf, Bytes, BytesMut};

/// The longest line. A longer one is skipped to its end, and told.
pub(crate) const LINE_MOST: usize = consort_kernel::limits::RECORD_BYTES;

/// Finds the lines of a body that comes in pieces.
pub trait Split: Send {
    /// Takes the next piece, when [`next`](Split::next) has no more lines.
    fn feed(&mut self, piece: Bytes);

    /// The next line that has come whole.
    fn next(&mut self) -> Option<Line<'_>>;

    /// How many bytes it keeps.
    fn held(&self) -> usize;

    /// Nothing has come for a while: what was left for later is to be looked at.
    fn look_again(&mut self) {}

    /// The last line, if the body did not end with the end of a line. To be asked when
    /// [`look_again`](Split::look_again) and [`next`](Split::next) brought no more.
    fn last(&mut self) -> Option<Line<'_>>;
}

/// Where a body has been split so far.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come.
    rest: BytesMut,
    /// What came last, and was not split yet.
    piece: Bytes,
    /// The line that was told last.
    line: Bytes,
    skipping: bool,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Its bytes, without the end of the line; and how many line breaks stand within it.
    Whole(&'a [u8], u64),
    /// It was longer than a line may be.
    TooLong,
}

impl Line<'_> {
    /// How many bytes of it were looked at.
    pub(crate) fn length(&self) -> usize {
        match self {
            Line::Whole(line, _) => line.len(),
            // Its bytes were counted when they came.
            Line::TooLong => 0,
        }
    }
}

impl Split for Lines {
    fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "the last piece was not used up");
        self.piece = piece;
    }

    fn next(&mut self) -> Option<Line<'_>> {
        let Some(end) = memchr::memchr(b'\n', &self.piece) else {
            if !self.skipping {
                self.rest.extend_from_slice(&self.piece);
            }
            self.piece.clear();
            if self.rest.len() > LINE_MOST {
                self.rest.clear();
                self.skipping = true;
            }
            return None;
        };
        let part = self.piece.split_to(end);
        self.piece.advance(1);
        if std::mem::take(&mut self.skipping) {
            return Some(Line::TooLong);
        }
        // Most lines come whole, and are not copied.
        self.line = match self.rest.is_empty() {
            true => part,
            false => {
                self.rest.extend_from_slice(&part);
                self.rest.split().freeze()
            }
        };
        let too_long = self.line.len() > LINE_MOST;
        Some(if too_long { Line::TooLong } else { Line::Whole(&self.line, 0) })
    }

    fn held(&self) -> usize {
        self.rest.len() + self.piece.len()
    }

    fn last(&mut self) -> Option<Line<'_>> {
        if self.skipping {
            return Some(Line::TooLong);
        }
        (!self.rest.is_empty()).then_some(Line::Whole(&self.rest, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines; none for one that is too long.
    fn split(pieces: &[&[u8]]) -> Vec<Option<String>> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next() {
                found.push(told(line));
            }
        }
        found.extend(lines.last().map(told));
        found
    }

    fn told(line: Line<'_>) -> Option<String> {
        match line {
            Line::Whole(line, 0) => Some(String::from_utf8(line.to_vec()).unwrap()),
            Line::Whole(..) => panic!("no line break stands within a line of JSON"),
            Line::TooLong => None,
        }
    }

    #[test]
    fn lines_are_the_same_however_the_body_is_cut() {
        let body = b"one\ntwo\n\nthree";
        let expected = ["one", "two", "", "three"].map(|line| Some(line.to_string()));
        for first in 0..body.len() {
            for second in first..body.len() {
                let pieces = [&body[..first], &body[first..second], &body[second..]];
                assert_eq!(split(&pieces), expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_found() {
        let long = vec![b'x'; LINE_MOST / 2 + 1];
        let found = split(&[&long, &long, b"x\nnext\n", &long, &long]);
        assert_eq!(found, [None, Some("next".into()), None]);
        let at_once = [&long[..], &long, b"\n"].concat();
        assert_eq!(split(&[&at_once]), [None]);
    }
}
