//! A [`Point`] written as a line, such that it is read back as it was.

use std::fmt::Write;

use crate::error::shown;
use crate::point::{FieldValue, Point};
use crate::scan::{Name, is_control};

/// A point that no line can say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("a point needs at least one field")]
    NoFields,
    #[error("a point needs a measurement, or in the loose dialect at least one tag")]
    NoMeasurement,
    #[error("an empty {0} cannot be written")]
    Empty(&'static str),
    #[error("the {place} `{name}` cannot be written: control characters have no escape there")]
    Control { place: &'static str, name: String },
    #[error(
        "the {place} `{name}` cannot be written: a backslash at its end would escape what follows"
    )]
    Backslash { place: &'static str, name: String },
    #[error("the {place} `{name}` cannot be written: a line that begins with `#` is a comment")]
    Comment { place: &'static str, name: String },
    #[error("the field `{0}` is not a finite number")]
    NotFinite(String),
}

/// Appends the point to `line`, without a line end and with its time in nanoseconds. After an error
/// `line` is as it was.
///
/// What is written is strict, unless the point has no measurement: then it begins with its tags, and
/// only the loose dialect reads it. (The loose dialect, in turn, reads a measurement with `=` in it as
/// tags.) Line breaks and tabs in a text are written as the escapes `\n`, `\r` and `\t`, as the
/// reference encoder does, so a written point is always one line.
pub fn write(point: &Point<'_>, line: &mut String) -> Result<(), WriteError> {
    let before = line.len();
    let written = point_on(point, line);
    if written.is_err() {
        line.truncate(before);
    }
    written
}

fn point_on(point: &Point<'_>, line: &mut String) -> Result<(), WriteError> {
    if point.fields.is_empty() {
        return Err(WriteError::NoFields);
    }
    match &point.measurement {
        Some(measurement) => first_name(line, "measurement", measurement)?,
        None => {
            let (key, _) = point.tags.first().ok_or(WriteError::NoMeasurement)?;
            not_a_comment("tag key", key)?;
        }
    }
    for (index, (key, value)) in point.tags.iter().enumerate() {
        if index > 0 || point.measurement.is_some() {
            line.push(',');
        }
        name(line, "tag key", key, Name::Key)?;
        line.push('=');
        name(line, "tag value", value, Name::Key)?;
    }
    for (index, (key, value)) in point.fields.iter().enumerate() {
        line.push(if index == 0 { ' ' } else { ',' });
        name(line, "field key", key, Name::Key)?;
        line.push('=');
        field(line, key, value)?;
    }
    if let Some(time) = point.time {
        line.push(' ');
        number(line, time);
    }
    Ok(())
}

fn first_name(line: &mut String, place: &'static str, text: &str) -> Result<(), WriteError> {
    not_a_comment(place, text)?;
    name(line, place, text, Name::Measurement)
}

fn not_a_comment(place: &'static str, text: &str) -> Result<(), WriteError> {
    if text.starts_with('#') {
        return Err(WriteError::Comment { place, name: shown(text) });
    }
    Ok(())
}

fn name(line: &mut String, place: &'static str, text: &str, kind: Name) -> Result<(), WriteError> {
    if text.is_empty() {
        return Err(WriteError::Empty(place));
    }
    if text.bytes().any(is_control) {
        return Err(WriteError::Control { place, name: shown(text) });
    }
    if text.ends_with('\\') {
        return Err(WriteError::Backslash { place, name: shown(text) });
    }
    escaped(line, text, |byte| kind.escapes(byte).then_some(char::from(byte)));
    Ok(())
}

fn field(line: &mut String, key: &str, value: &FieldValue<'_>) -> Result<(), WriteError> {
    match value {
        FieldValue::Float(float) if !float.is_finite() => {
            return Err(WriteError::NotFinite(shown(key)));
        }
        FieldValue::Float(float) => plain_float(line, *float),
        FieldValue::Integer(integer) => {
            number(line, integer);
            line.push('i');
        }
        FieldValue::Unsigned(unsigned) => {
            number(line, unsigned);
            line.push('u');
        }
        FieldValue::Boolean(boolean) => line.push_str(if *boolean { "true" } else { "false" }),
        FieldValue::Text(text) => {
            line.push('"');
            escaped(line, text, text_escape_of);
            line.push('"');
        }
    }
    Ok(())
}

/// What stands after the backslash for a byte that has an escape in quoted texts.
fn text_escape_of(byte: u8) -> Option<char> {
    match byte {
        b'"' | b'\\' => Some(char::from(byte)),
        b'\n' => Some('n'),
        b'\r' => Some('r'),
        b'\t' => Some('t'),
        _ => None,
    }
}

/// Appends the text; a byte that has an escape as a backslash and that escape. Escaped bytes are all
/// ASCII, so the text is cut between characters only.
fn escaped(line: &mut String, text: &str, escape: impl Fn(u8) -> Option<char>) {
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(character) = escape(byte) {
            line.push_str(&text[written..at]);
            line.push('\\');
            line.push(character);
            written = at + 1;
        }
    }
    line.push_str(&text[written..]);
}

/// Up to here a float is written with all its digits, as most programs do; beyond, with an exponent.
const PLAIN_FLOATS: std::ops::Range<f64> = 1e-4..1e21;

/// The shortest digits that are read as the same float.
fn plain_float(line: &mut String, float: f64) {
    if float == 0.0 || PLAIN_FLOATS.contains(&float.abs()) {
        number(line, float);
    } else if float.abs() < 1.0 {
        number(line, format_args!("{float:e}"));
    } else {
        line.push_str(&format!("{float:e}").replace('e', "e+"));
    }
}

fn number(line: &mut String, number: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(line, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point<'a>(measurement: Option<&'a str>, tags: &[(&'a str, &'a str)]) -> Point<'a> {
        Point {
            measurement: measurement.map(Into::into),
            tags: tags.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
            fields: vec![("f".into(), FieldValue::Integer(1))],
            time: None,
        }
    }

    fn written(point: &Point<'_>) -> Result<String, WriteError> {
        let mut line = String::from("before\n");
        write(point, &mut line).inspect_err(|_| assert_eq!(line, "before\n"))?;
        Ok(line.split_off("before\n".len()))
    }

    #[test]
    fn names_are_escaped_for_their_place() {
        let special = " a,b=c\\d\"é";
        let mut point = point(Some(special), &[(special, special)]);
        point.fields[0].0 = special.into();
        point.time = Some(-5);
        assert_eq!(
            written(&point).unwrap(),
            "\\ a\\,b=c\\d\"é,\\ a\\,b\\=c\\d\"é=\\ a\\,b\\=c\\d\"é \\ a\\,b\\=c\\d\"é=1i -5"
        );
    }

    #[test]
    fn values_are_written_in_their_form() {
        let values = [
            (FieldValue::Float(1.0), "1"),
            (FieldValue::Float(-0.0), "-0"),
            (FieldValue::Float(0.0001), "0.0001"),
            (FieldValue::Float(0.00001), "1e-5"),
            (FieldValue::Float(1e20), "100000000000000000000"),
            (FieldValue::Float(-1e21), "-1e+21"),
            (FieldValue::Float(f64::MAX), "1.7976931348623157e+308"),
            (FieldValue::Float(5e-324), "5e-324"),
            (FieldValue::Integer(i64::MIN), "-9223372036854775808i"),
            (FieldValue::Unsigned(u64::MAX), "18446744073709551615u"),
            (FieldValue::Boolean(true), "true"),
            (FieldValue::Boolean(false), "false"),
            (FieldValue::Text("".into()), "\"\""),
            (FieldValue::Text("a, =b".into()), "\"a, =b\""),
            (FieldValue::Text("\"\\\n\r\té\\".into()), "\"\\\"\\\\\\n\\r\\té\\\\\""),
        ];
        for (value, expected) in values {
            let mut point = point(Some("m"), &[]);
            point.fields[0].1 = value;
            assert_eq!(written(&point).unwrap(), format!("m f={expected}"));
        }
    }

    #[test]
    fn a_point_without_measurement_begins_with_its_tags() {
        assert_eq!(written(&point(None, &[("a", "b"), ("c", "d")])).unwrap(), "a=b,c=d f=1i");
    }

    #[test]
    fn what_no_line_can_say_is_refused() {
        let refused = [
            (point(None, &[]), "needs a measurement"),
            (point(Some(""), &[]), "an empty measurement"),
            (point(Some("#m"), &[]), "is a comment"),
            (point(None, &[("#a", "b")]), "is a comment"),
            (point(Some("a\\"), &[]), "a backslash at its end"),
            (point(Some("m"), &[("", "b")]), "an empty tag key"),
            (point(Some("m"), &[("a", "")]), "an empty tag value"),
            (point(Some("m"), &[("a", "b\n")]), "the tag value `b\\n`"),
            (point(Some("m"), &[("a\\", "b")]), "the tag key `a\\`"),
            (Point { fields: vec![], ..point(Some("m"), &[]) }, "at least one field"),
            (
                Point {
                    fields: vec![("f".into(), FieldValue::Float(f64::NAN))],
                    ..point(Some("m"), &[])
                },
                "`f` is not a finite number",
            ),
        ];
        for (point, words) in refused {
            let error = written(&point).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
