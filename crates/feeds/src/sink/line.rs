//! A row as a line of InfluxDB line protocol.

use std::borrow::Cow;

use consort_kernel::Row;
use consort_line::{FieldValue, Point, WriteError};
use serde_json::Value;
use serde_json::value::RawValue;

/// Appends the row to `text`, with its line end: the row's name as the measurement, the fields of its group
/// as tags, and its value as the field `value`, at the beginning of its window.
///
/// InfluxDB has no empty tags: a field of the group that is empty or null is left out, which reads the same.
pub(crate) fn write(row: &Row, text: &mut String) -> Result<(), String> {
    let tags = row.group.0.iter().filter_map(|(name, value)| {
        let value = plain(value).filter(|value| !value.is_empty())?;
        Some((Cow::Borrowed(name.as_str()), Cow::Owned(value)))
    });
    let point = Point {
        measurement: Some(Cow::Borrowed(&row.name)),
        tags: tags.collect(),
        fields: vec![(Cow::Borrowed("value"), field(&row.value)?)],
        time: Some(row.start.0),
    };
    let told = |error: WriteError| format!("line protocol cannot say it: {error}");
    consort_line::write(&point, text).map_err(told)?;
    text.push('\n');
    Ok(())
}

/// A JSON value as plain text; none for null.
fn plain(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => None,
        Ok(Value::String(text)) => Some(text),
        _ => Some(value.get().to_owned()),
    }
}

/// A number is always a float, so that a field has one type whether its values are whole or not.
fn field(value: &RawValue) -> Result<FieldValue<'static>, String> {
    match serde_json::from_str(value.get()) {
        Ok(Value::Bool(truth)) => Ok(FieldValue::Boolean(truth)),
        Ok(Value::String(text)) => Ok(FieldValue::Text(text.into())),
        Ok(Value::Number(number)) => match number.as_f64() {
            Some(float) => Ok(FieldValue::Float(float)),
            None => Err(format!("the value {number} does not fit a float")),
        },
        Ok(Value::Null) => Err("line protocol cannot say that there is no value".into()),
        Ok(Value::Array(_) | Value::Object(_)) => {
            Ok(FieldValue::Text(value.get().to_owned().into()))
        }
        Err(error) => Err(format!("the value is no JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::tests::row;

    #[test]
    fn values_and_groups_are_written_in_their_form() {
        type Fields = &'static [(&'static str, &'static str)];
        let cases: [(Fields, &str, &str); 8] = [
            (
                &[("event_type", "\"http-5xx\""), ("product", "\"productA\"")],
                "2",
                "v,event_type=http-5xx,product=productA value=2",
            ),
            (&[("a", "7"), ("b", "true")], "1.50", "v,a=7,b=true value=1.5"),
            (&[("a", "\"x y,z=1\"")], "true", "v,a=x\\ y\\,z\\=1 value=true"),
            (&[("a", "\"\""), ("b", "null"), ("c", "\"é\"")], "1", "v,c=é value=1"),
            (&[], "\"say \\\"hi\\\"\"", "v value=\"say \\\"hi\\\"\""),
            (&[], "[1,\"a\"]", "v value=\"[1,\\\"a\\\"]\""),
            (&[], "9007199254740993", "v value=9007199254740992"),
            (&[], "-1e21", "v value=-1e+21"),
        ];
        for (group, value, expected) in cases {
            let mut text = String::new();
            write(&row("v", group, value, 1), &mut text).unwrap();
            assert_eq!(text, format!("{expected} 1480876680000000000\n"));
        }
    }

    #[test]
    fn what_no_line_can_say_is_told() {
        let cases = [
            (row("v", &[("a", "\"x\\ny\"")], "1", 1), "control characters"),
            (row("v", &[("a", "\"x\\\\\"")], "1", 1), "a backslash at its end"),
            (row("v", &[], "null", 1), "no value"),
        ];
        for (row, words) in cases {
            let mut text = String::from("before\n");
            let error = write(&row, &mut text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert_eq!(text, "before\n");
        }
    }
}
