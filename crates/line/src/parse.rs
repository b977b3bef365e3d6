//! One line read as a [`Point`], in one walk from left to right.

use std::borrow::Cow;

use crate::error::{Fault, Found, LineError, shown};
use crate::number::{self, Word};
use crate::point::{FieldValue, Point};
use crate::precision::Precision;
use crate::scan::{Name, closing_quote, is_control, spaces_end, text_escape, unescape};

/// How lines are written; the crate's own page has the rules of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The protocol as InfluxDB takes it.
    #[default]
    Strict,
    /// The measurement may be missing, and a text needs no quotes.
    Loose,
}

/// Reads one line, as [`lines()`](crate::lines()) gives it: without its line end. `None`: the line is
/// blank or a comment.
pub fn parse(
    line: &[u8],
    dialect: Dialect,
    precision: Precision,
) -> Result<Option<Point<'_>>, LineError> {
    let mut point = Point::default();
    let is_point = parse_into(&mut point, line, dialect, precision)?;
    Ok(is_point.then_some(point))
}

/// As [`parse`], but into a point that is used again and again, which spares the making of its lists:
/// for all lines of one body. `false`: the line is blank or a comment. Then, and after an error, the
/// point is empty.
pub fn parse_into<'a>(
    point: &mut Point<'a>,
    line: &'a [u8],
    dialect: Dialect,
    precision: Precision,
) -> Result<bool, LineError> {
    point.clear();
    let start = spaces_end(line, 0);
    match line.get(start) {
        None => return Ok(false),
        Some(b'#') => return comment(line, start).map(|()| false),
        Some(_) => {}
    }
    let text =
        std::str::from_utf8(line).map_err(|error| fault_at(error.valid_up_to(), Fault::NotUtf8))?;
    let mut reader = Reader { text, line, at: start, dialect };
    let read = reader.point(point, precision);
    if read.is_err() {
        point.clear();
    }
    read.map(|()| true)
}

/// A comment is not read, so its characters need not be valid; but a control character in it is a sign
/// that the sender means something else.
fn comment(line: &[u8], start: usize) -> Result<(), LineError> {
    match line[start..].iter().position(|&byte| is_control(byte)) {
        None => Ok(()),
        Some(control) => {
            let at = start + control;
            Err(fault_at(at, Fault::InComment(Found(Some(char::from(line[at]))))))
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The bytes of `text`.
    line: &'a [u8],
    /// What comes next. It is always the first byte of a character.
    at: usize,
    dialect: Dialect,
}

impl<'a> Reader<'a> {
    fn point(&mut self, point: &mut Point<'a>, precision: Precision) -> Result<(), LineError> {
        if !self.begins_with_tags() {
            point.measurement = Some(self.measurement()?);
        }
        let tags_start = self.at;
        if self.peek() != Some(b' ') {
            self.tags(&mut point.tags)?;
            if let Some(index) = second_of_a_key(&point.tags) {
                let key = shown(&point.tags[index].0);
                return Err(fault_at(self.tag_start(tags_start, index), Fault::TagTwice(key)));
            }
        }
        self.at = spaces_end(self.line, self.at);
        self.fields(&mut point.fields)?;
        self.at = spaces_end(self.line, self.at);
        if self.peek().is_some() {
            point.time = Some(self.time(precision)?);
        }
        Ok(())
    }

    /// Whether the first part is a list of tags: in the loose dialect, when `=` comes before the first
    /// comma or space.
    fn begins_with_tags(&self) -> bool {
        self.dialect == Dialect::Loose
            && self.line.get(Name::Key.end(self.line, self.at).0) == Some(&b'=')
    }

    /// The measurement, and the comma after it.
    fn measurement(&mut self) -> Result<Cow<'a, str>, LineError> {
        let (end, escaped) = Name::Measurement.end(self.line, self.at);
        if end == self.at {
            return Err(self.fault(Fault::NoMeasurement(self.found())));
        }
        let name = Name::Measurement.unescaped(&self.text[self.at..end], escaped);
        self.at = end;
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(b' ') => return Ok(name),
            None => return Err(self.fault(Fault::NoFields)),
            Some(_) => return Err(self.fault(Fault::InMeasurement(self.found()))),
        }
        // A space straight after the comma would otherwise be taken for the end of the tags.
        match self.peek() {
            None | Some(b' ') => Err(self.fault(Fault::NoTag(self.found()))),
            Some(_) => Ok(name),
        }
    }

    /// One or more tags, up to the space after them.
    fn tags(&mut self, tags: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Result<(), LineError> {
        loop {
            let (end, escaped) = Name::Key.end(self.line, self.at);
            if end == self.at {
                return Err(self.fault(Fault::NoTag(self.found())));
            }
            let key = Name::Key.unescaped(&self.text[self.at..end], escaped);
            self.at = end;
            if self.peek() != Some(b'=') {
                let fault = Fault::NoTagEquals { key: shown(&key), found: self.found() };
                return Err(self.fault(fault));
            }
            self.at += 1;
            let (end, escaped) = Name::Key.end(self.line, self.at);
            if end == self.at {
                return Err(self.fault(Fault::NoTagValue(shown(&key))));
            }
            let value = Name::Key.unescaped(&self.text[self.at..end], escaped);
            self.at = end;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b' ') => {
                    tags.push((key, value));
                    return Ok(());
                }
                None => return Err(self.fault(Fault::NoFields)),
                Some(_) => {
                    let fault = Fault::AfterTag { key: shown(&key), found: self.found() };
                    return Err(self.fault(fault));
                }
            }
            tags.push((key, value));
        }
    }

    /// Where the tag of this index begins, for a message. The tags are known to be well formed.
    fn tag_start(&self, tags_start: usize, index: usize) -> usize {
        let after = |at| Name::Key.end(self.line, at).0 + 1;
        (0..index).fold(tags_start, |at, _| after(after(at)))
    }

    /// One or more fields, up to the space after them or the end of the line.
    fn fields(
        &mut self,
        fields: &mut Vec<(Cow<'a, str>, FieldValue<'a>)>,
    ) -> Result<(), LineError> {
        if self.peek().is_none() {
            return Err(self.fault(Fault::NoFields));
        }
        loop {
            let (end, escaped) = Name::Key.end(self.line, self.at);
            if end == self.at {
                return Err(self.fault(Fault::NoField(self.found())));
            }
            let key = Name::Key.unescaped(&self.text[self.at..end], escaped);
            self.at = end;
            if self.peek() != Some(b'=') {
                let fault = Fault::NoFieldEquals { key: shown(&key), found: self.found() };
                return Err(self.fault(fault));
            }
            self.at += 1;
            let value =
                if self.peek() == Some(b'"') { self.quoted(&key)? } else { self.word(&key)? };
            fields.push((key, value));
            if self.peek() != Some(b',') {
                return Ok(());
            }
            self.at += 1;
        }
    }

    /// A text in quotes.
    fn quoted(&mut self, key: &str) -> Result<FieldValue<'a>, LineError> {
        let start = self.at + 1;
        let Some((end, backslashes)) = closing_quote(self.line, start) else {
            return Err(self.fault(Fault::OpenQuote(shown(key))));
        };
        let raw = &self.text[start..end];
        self.at = end + 1;
        if !matches!(self.peek(), None | Some(b',' | b' ')) {
            return Err(self.fault(Fault::AfterText { key: shown(key), found: self.found() }));
        }
        Ok(FieldValue::Text(if backslashes {
            unescape(raw, text_escape)
        } else {
            Cow::Borrowed(raw)
        }))
    }

    /// A value without quotes. No number or boolean has a backslash, so the escapes of bare words
    /// change nothing about what strict accepts.
    fn word(&mut self, key: &str) -> Result<FieldValue<'a>, LineError> {
        let start = self.at;
        let (end, escaped) = Name::Word.end(self.line, start);
        let word = &self.text[start..end];
        if !matches!(self.line.get(end), None | Some(b',' | b' ')) {
            self.at = end;
            return Err(self.fault(Fault::InWord { key: shown(key), found: self.found() }));
        }
        if word.is_empty() {
            return Err(self.fault(Fault::NoFieldValue(shown(key))));
        }
        let value = match number::read(word) {
            Word::Value(value) => value,
            Word::DoesNotFit(limit) => {
                let fault = Fault::DoesNotFit { key: shown(key), word: shown(word), limit };
                return Err(self.fault(fault));
            }
            Word::Other if self.dialect == Dialect::Loose => {
                FieldValue::Text(Name::Word.unescaped(word, escaped))
            }
            Word::Other => {
                let fault = Fault::NoValue { key: shown(key), word: shown(word) };
                return Err(self.fault(fault));
            }
        };
        self.at = end;
        Ok(value)
    }

    /// The timestamp, after which only spaces may come.
    fn time(&mut self, precision: Precision) -> Result<i64, LineError> {
        let rest = &self.text[self.at..];
        let word = rest.split(' ').next().unwrap_or(rest);
        let digits = word.strip_prefix('-').unwrap_or(word);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.fault(Fault::NoTime(shown(word))));
        }
        let Some(time) = word.parse().ok().and_then(|time| precision.in_nanoseconds(time)) else {
            return Err(self.fault(Fault::TimeDoesNotFit(shown(word))));
        };
        self.at = spaces_end(self.line, self.at + word.len());
        if self.peek().is_some() {
            return Err(self.fault(Fault::AfterTime(shown(&self.text[self.at..]))));
        }
        Ok(time)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// What comes next, for a message.
    fn found(&self) -> Found {
        Found(self.text[self.at..].chars().next())
    }

    fn fault(&self, fault: Fault) -> LineError {
        fault_at(self.at, fault)
    }
}

fn fault_at(at: usize, fault: Fault) -> LineError {
    LineError { column: at + 1, fault }
}

/// Up to this many tags each is compared with each: faster than sorting, and far more than points have.
const FEW_TAGS: usize = 16;

/// The index of a tag whose key another tag before it has too. A hostile line can have a hundred
/// thousand tags, so many are sorted instead of compared each with each.
fn second_of_a_key(tags: &[(Cow<'_, str>, Cow<'_, str>)]) -> Option<usize> {
    if tags.len() <= FEW_TAGS {
        return (1..tags.len())
            .find(|&index| tags[..index].iter().any(|(key, _)| *key == tags[index].0));
    }
    let mut order: Vec<usize> = (0..tags.len()).collect();
    order.sort_unstable_by(|&a, &b| tags[a].0.cmp(&tags[b].0).then(a.cmp(&b)));
    order.windows(2).filter(|pair| tags[pair[0]].0 == tags[pair[1]].0).map(|pair| pair[1]).min()
}
