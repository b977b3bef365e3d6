//! Values of SQLite as Hrana has them: an object with a type. Integers are texts, so that all 64 bits survive.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use consort_db::write::job::SqlValue;
use serde::de::Error as _;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Clients send blobs with or without padding, and take both. sqld leaves it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An argument of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HranaArgument(pub(super) SqlValue);

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct HranaValue<'a>(pub(super) &'a SqlValue);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    Null,
    Integer { value: String },
    Float { value: f64 },
    Text { value: String },
    Blob { base64: String },
}

impl<'de> Deserialize<'de> for HranaArgument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(HranaArgument(match Wire::deserialize(from)? {
            Wire::Null => SqlValue::Null,
            Wire::Integer { value } => {
                let number = value.parse().map_err(|_| {
                    D::Error::custom("the value of an integer is a text of an integer of 64 bits")
                });
                SqlValue::Integer(number?)
            }
            Wire::Float { value } => SqlValue::Real(value),
            Wire::Text { value } => SqlValue::Text(Bytes::from(value)),
            Wire::Blob { base64 } => {
                let bytes = BASE64.decode(base64);
                let bytes = bytes.map_err(|error| {
                    D::Error::custom(format!("\"base64\" is not base64: {error}"))
                });
                SqlValue::Blob(Bytes::from(bytes?))
            }
        }))
    }
}

impl Serialize for HranaValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut wire = to.serialize_struct("Value", 2)?;
        match self.0 {
            SqlValue::Null => wire.serialize_field("type", "null")?,
            SqlValue::Integer(number) => {
                wire.serialize_field("type", "integer")?;
                wire.serialize_field("value", &number.to_string())?;
            }
            SqlValue::Real(real) => {
                wire.serialize_field("type", "float")?;
                // JSON has no infinite number: it becomes null there, as with sqld.
                wire.serialize_field("value", real)?;
            }
            SqlValue::Text(text) => {
                let text = std::str::from_utf8(text);
                let text = text.map_err(|_| S::Error::custom("the text is not UTF-8"))?;
                wire.serialize_field("type", "text")?;
                wire.serialize_field("value", text)?;
            }
            SqlValue::Blob(blob) => {
                wire.serialize_field("type", "blob")?;
                wire.serialize_field("base64", &BASE64.encode(blob))?;
            }
        }
        wire.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SqlValue, String> {
        let read = serde_json::from_str::<HranaArgument>(text);
        read.map(|value| value.0).map_err(|error| error.to_string())
    }

    #[test]
    fn every_value_has_one_form_and_comes_back_from_it() {
        for (json, value) in [
            (r#"{"type":"null"}"#, SqlValue::Null),
            (r#"{"type":"integer","value":"-9223372036854775808"}"#, SqlValue::Integer(i64::MIN)),
            (r#"{"type":"float","value":0.1}"#, SqlValue::Real(0.1)),
            (r#"{"type":"text","value":"ä\u0000\""}"#, SqlValue::from("ä\0\"")),
            (
                r#"{"type":"blob","base64":"AAH/AA"}"#,
                SqlValue::Blob(Bytes::from_static(b"\0\x01\xff\0")),
            ),
        ] {
            assert_eq!(read(json), Ok(value.clone()), "{json}");
            assert_eq!(serde_json::to_string(&HranaValue(&value)).unwrap(), json);
        }
    }

    #[test]
    fn other_forms_of_clients_are_read_and_all_else_is_refused() {
        assert_eq!(read(r#"{"type":"float","value":3}"#), Ok(SqlValue::Real(3.0)));
        let padded = read(r#"{"base64":"AA==","type":"blob"}"#);
        assert_eq!(padded, Ok(SqlValue::Blob(Bytes::from_static(b"\0"))));
        for bad in [
            r#"{"type":"integer","value":1}"#,
            r#"{"type":"integer","value":"1.5"}"#,
            r#"{"type":"integer","value":"9223372036854775808"}"#,
            r#"{"type":"blob","base64":"?"}"#,
            r#"{"type":"date","value":"x"}"#,
            "1",
            "null",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let broken = SqlValue::Text(Bytes::from_static(b"\xff"));
        assert!(serde_json::to_string(&HranaValue(&broken)).is_err());
        let infinite = SqlValue::Real(f64::INFINITY);
        let shown = serde_json::to_string(&HranaValue(&infinite)).unwrap();
        assert_eq!(shown, r#"{"type":"float","value":null}"#);
    }
}
