//! Values of SQLite as JSON. Each value of JSON stands for itself; an object with one member stands for a value that
//! JSON does not have: a blob, an infinite real, a text that is not UTF-8.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use consort_db::write::job::SqlValue;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

const BLOB: &str = "blob";
const REAL: &str = "real";
const TEXT: &str = "text";

/// The infinite reals.
const INFINITE: [(&str, f64); 2] = [("inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY)];

/// An argument of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArgumentValue(pub(crate) SqlValue);

/// A value of a row, on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownValue<'a>(pub(crate) &'a SqlValue);

impl<'de> Deserialize<'de> for ArgumentValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ArgumentVisitor).map(ArgumentValue)
    }
}

struct ArgumentVisitor;

impl<'de> Visitor<'de> for ArgumentVisitor {
    type Value = SqlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "null, a number, a text, true, false, {\"blob\": BASE64}, {\"real\": \"inf\"} or {\"text\": BASE64}",
        )
    }

    fn visit_unit<E>(self) -> Result<SqlValue, E> {
        Ok(SqlValue::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<SqlValue, E> {
        Ok(SqlValue::Integer(flag.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<SqlValue, E> {
        Ok(SqlValue::Integer(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SqlValue, E> {
        let integer = i64::try_from(number).map_err(|_| {
            E::custom(format!("{number} is not an integer of 64 bits; send it as a real or a text"))
        });
        integer.map(SqlValue::Integer)
    }

    fn visit_f64<E: de::Error>(self, real: f64) -> Result<SqlValue, E> {
        Ok(SqlValue::Real(real))
    }

    fn visit_str<E>(self, text: &str) -> Result<SqlValue, E> {
        Ok(SqlValue::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<SqlValue, E> {
        Ok(SqlValue::Text(Bytes::from(text)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SqlValue, A::Error> {
        let Some((kind, text)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::invalid_length(0, &self));
        };
        let value = read_special(&kind, text).map_err(de::Error::custom)?;
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(_) => Err(de::Error::custom("the object of a value has one member")),
        }
    }
}

fn read_special(kind: &str, text: String) -> Result<SqlValue, String> {
    let decoded = |text: String| {
        let bytes = STANDARD.decode(text).map(Bytes::from);
        bytes.map_err(|error| format!("\"{kind}\" is not base64: {error}"))
    };
    match kind {
        BLOB => decoded(text).map(SqlValue::Blob),
        TEXT => decoded(text).map(SqlValue::Text),
        REAL => {
            let real = INFINITE.iter().find(|(name, _)| *name == text).map(|(_, real)| *real);
            let known = "\"real\" is \"inf\" or \"-inf\"; every other real is a number";
            real.map(SqlValue::Real).ok_or_else(|| known.to_owned())
        }
        _ => Err(format!(
            "the object of a value has the member \"blob\", \"real\" or \"text\", not \"{kind:.40}\""
        )),
    }
}

impl Serialize for ShownValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let special = |to: S, kind: &str, text: &str| {
            let mut map = to.serialize_map(Some(1))?;
            map.serialize_entry(kind, text)?;
            map.end()
        };
        match self.0 {
            SqlValue::Null => to.serialize_unit(),
            SqlValue::Integer(number) => to.serialize_i64(*number),
            SqlValue::Real(real) if real.is_finite() => to.serialize_f64(*real),
            SqlValue::Real(real) => match INFINITE.iter().find(|(_, known)| known == real) {
                Some((name, _)) => special(to, REAL, name),
                // SQLite stores NULL in its place.
                None => to.serialize_unit(),
            },
            SqlValue::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => to.serialize_str(text),
                Err(_) => special(to, TEXT, &STANDARD.encode(text)),
            },
            SqlValue::Blob(blob) => special(to, BLOB, &STANDARD.encode(blob)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SqlValue, String> {
        let read = serde_json::from_str::<ArgumentValue>(text);
        read.map(|value| value.0).map_err(|error| error.to_string())
    }

    #[test]
    fn every_value_of_sqlite_has_one_form_in_json_and_comes_back_from_it() {
        let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
        for (json, value) in [
            ("null", SqlValue::Null),
            ("-9223372036854775808", SqlValue::Integer(i64::MIN)),
            ("9223372036854775807", SqlValue::Integer(i64::MAX)),
            ("0.1", SqlValue::Real(0.1)),
            ("1.0", SqlValue::Real(1.0)),
            ("-0.0", SqlValue::Real(-0.0)),
            (r#"{"real":"inf"}"#, SqlValue::Real(f64::INFINITY)),
            (r#"{"real":"-inf"}"#, SqlValue::Real(f64::NEG_INFINITY)),
            (r#""ä\u0000\"""#, SqlValue::from("ä\0\"")),
            (r#"{"text":"/w=="}"#, SqlValue::Text(bytes(b"\xff"))),
            (r#"{"blob":""}"#, SqlValue::Blob(bytes(b""))),
            (r#"{"blob":"AAH/"}"#, SqlValue::Blob(bytes(b"\0\x01\xff"))),
        ] {
            assert_eq!(read(json), Ok(value.clone()), "{json}");
            assert_eq!(serde_json::to_string(&ShownValue(&value)).unwrap(), json);
        }
    }

    #[test]
    fn some_values_come_in_more_than_one_form() {
        for (json, value) in [
            ("true", SqlValue::Integer(1)),
            ("false", SqlValue::Integer(0)),
            ("1e2", SqlValue::Real(100.0)),
            (r#"{"text":"YQ=="}"#, SqlValue::from("a")),
        ] {
            assert_eq!(read(json), Ok(value), "{json}");
        }
        let not_a_number = SqlValue::Real(f64::NAN);
        assert_eq!(serde_json::to_string(&ShownValue(&not_a_number)).unwrap(), "null");
    }

    #[test]
    fn all_else_is_refused_with_what_a_value_may_be() {
        for (json, told) in [
            ("9223372036854775808", "not an integer of 64 bits"),
            ("[1]", "expected null, a number, a text"),
            ("{}", "expected null, a number, a text"),
            (r#"{"blob":"?"}"#, "\"blob\" is not base64"),
            (r#"{"blob":1}"#, "expected a string"),
            (r#"{"real":"nan"}"#, "\"inf\" or \"-inf\""),
            (r#"{"int":"1"}"#, "not \"int\""),
            (r#"{"blob":"","text":""}"#, "one member"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
