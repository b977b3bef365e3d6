//! A row as a point of line protocol.

use std::borrow::Cow;

use consort_line::{FieldValue, Point};
use serde_json::Value;
use serde_json::value::RawValue;

use super::WindowRow;

impl WindowRow {
    /// The row as a point at the start of its window: the view is the measurement, the fields of the group
    /// are tags, and the value is the field `value`.
    ///
    /// InfluxDB has no empty tags. A group field that is empty or null is left out, which reads the same.
    pub fn point(&self) -> Result<Point<'static>, String> {
        let tags = self.group.0.iter().filter_map(|(name, value)| {
            let value = plain(value).filter(|value| !value.is_empty())?;
            Some((Cow::Owned(name.clone()), Cow::Owned(value)))
        });
        Ok(Point {
            measurement: Some(Cow::Owned(self.view.clone())),
            tags: tags.collect(),
            fields: vec![(Cow::Borrowed("value"), field(&self.value)?)],
            time: Some(self.start.0),
        })
    }
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
    use super::super::tests::row;

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
            let point = row("v", group, value, 1).point().unwrap();
            consort_line::write(&point, &mut text).unwrap();
            assert_eq!(text, format!("{expected} 1480876680000000000"));
        }
    }

    #[test]
    fn a_row_without_a_value_is_no_point() {
        let error = row("v", &[], "null", 1).point().unwrap_err();
        assert!(error.contains("no value"), "{error}");
    }
}
