//! An event, and its compact form in the log: version, id, then a tag and a value for each field.

use bytes::{Buf, Bytes};
use consort_kernel::Part;
use smallvec::SmallVec;

use crate::schema::Schema;
use crate::value::{Kind, Value};

pub(crate) const VERSION: u8 = 1;

/// Tags of stored values.
const ABSENT: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const TEXT: u8 = 4;

/// Most events have no more fields, and are read without memory of their own.
const FEW_FIELDS: usize = 8;

/// The most bytes that a number takes.
const NUMBER_MOST: usize = 10;

/// A valid event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The id that its sender gave it.
    pub id: Option<String>,
    /// A value for each field of the schema; none where an optional field is absent.
    pub values: Vec<Option<Value>>,
}

/// Why a stored event cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event cannot be read: {0}")]
pub struct EventError(&'static str);

impl Event {
    /// The record to append.
    pub fn encode(&self) -> Bytes {
        let texts = self.values.iter().map(|value| match value {
            Some(Value::Text(text)) => text.len(),
            _ => NUMBER_MOST,
        });
        // Enough for all but very long texts, so that it is made at once.
        let size =
            texts.map(|size| size + 3).sum::<usize>() + self.id.as_ref().map_or(0, String::len);
        let mut bytes = Vec::with_capacity(size + 4);
        self.encode_to(&mut bytes);
        bytes.into()
    }

    /// Writes the record behind what is there.
    pub fn encode_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(VERSION);
        match &self.id {
            None => put_varint(bytes, 0),
            Some(id) => {
                put_varint(bytes, id.len() as u64 + 1);
                bytes.extend_from_slice(id.as_bytes());
            }
        }
        for value in &self.values {
            match value {
                None => bytes.push(ABSENT),
                Some(Value::Bool(false)) => bytes.push(FALSE),
                Some(Value::Bool(true)) => bytes.push(TRUE),
                Some(Value::Int(number) | Value::Decimal(number)) => {
                    bytes.push(NUMBER);
                    put_varint(bytes, zigzag(*number));
                }
                Some(Value::Text(text)) => {
                    bytes.push(TEXT);
                    put_varint(bytes, text.len() as u64);
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
    }

    /// Reads a record. A field that was declared after the record was written is absent.
    pub fn decode(schema: &Schema, bytes: &[u8]) -> Result<Self, EventError> {
        Ok(Stored::read(schema, bytes)?.to_event())
    }

    /// The id of a record, without reading the rest.
    pub fn id_of(record: &[u8]) -> Option<&[u8]> {
        id_and_rest(record).ok()?.0
    }
}

/// An event as it stands in the log: nothing is copied.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    id: Option<&'a str>,
    /// A value for each field of the schema, as [`Event::values`].
    pub(crate) values: SmallVec<[Option<Field<'a>>; FEW_FIELDS]>,
}

/// The value of a field, where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Bool(bool),
    Int(i64),
    Decimal(i64),
    Text(&'a str),
}

impl<'a> Stored<'a> {
    /// Reads a record. A field that was declared after the record was written is absent.
    pub(crate) fn read(schema: &Schema, bytes: &'a [u8]) -> Result<Self, EventError> {
        let (id, mut rest) = id_and_rest(bytes)?;
        let id = id.map(text_of).transpose()?;
        let mut values = SmallVec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let absent = !rest.has_remaining();
            values.push(if absent { None } else { value(&mut rest, field.ty.kind)? });
        }
        Ok(Stored { id, values })
    }

    pub(crate) fn to_event(&self) -> Event {
        let values = self.values.iter().map(|value| value.map(Field::to_value));
        Event { id: self.id.map(Into::into), values: values.collect() }
    }
}

impl<'a> Field<'a> {
    fn to_value(self) -> Value {
        match self {
            Field::Bool(value) => Value::Bool(value),
            Field::Int(number) => Value::Int(number),
            Field::Decimal(number) => Value::Decimal(number),
            Field::Text(text) => Value::Text(text.into()),
        }
    }

    /// What it is as an element of a key: see [`Value::element`].
    pub(crate) fn part(self) -> Part<'a> {
        match self {
            Field::Bool(value) => Part::Number(value.into()),
            Field::Int(number) | Field::Decimal(number) => Part::Number(number.into()),
            Field::Text(text) => Part::Text(text),
        }
    }
}

fn id_and_rest(mut bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), EventError> {
    let from = &mut bytes;
    if !from.has_remaining() || from.get_u8() != VERSION {
        return Err(EventError("its format is unknown"));
    }
    let id = match varint(from)? {
        0 => None,
        length => Some(part(from, length - 1)?),
    };
    Ok((id, from))
}

fn value<'a>(from: &mut &'a [u8], kind: Kind) -> Result<Option<Field<'a>>, EventError> {
    match (from.get_u8(), kind) {
        (ABSENT, _) => Ok(None),
        (FALSE, Kind::Bool) => Ok(Some(Field::Bool(false))),
        (TRUE, Kind::Bool) => Ok(Some(Field::Bool(true))),
        (NUMBER, Kind::Int) => Ok(Some(Field::Int(unzigzag(varint(from)?)))),
        (NUMBER, Kind::Decimal(_)) => Ok(Some(Field::Decimal(unzigzag(varint(from)?)))),
        (TEXT, Kind::Text) => {
            let length = varint(from)?;
            Ok(Some(Field::Text(text_of(part(from, length)?)?)))
        }
        _ => Err(EventError("a value is of another type than its field")),
    }
}

fn part<'a>(from: &mut &'a [u8], length: u64) -> Result<&'a [u8], EventError> {
    match usize::try_from(length) {
        Ok(length) if length <= from.len() => {
            let (part, rest) = from.split_at(length);
            *from = rest;
            Ok(part)
        }
        _ => Err(EventError("a text has no end")),
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, EventError> {
    std::str::from_utf8(bytes).map_err(|_| EventError("a text is not UTF-8"))
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn varint(from: &mut &[u8]) -> Result<u64, EventError> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        if !from.has_remaining() {
            break;
        }
        let byte = from.get_u8();
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(EventError("a number has no end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Unknown};
    use proptest::prelude::*;

    fn schema() -> Schema {
        let fields = [("a", "int?"), ("b", "text?"), ("c", "bool?"), ("d", "decimal(3)?")];
        let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
        Schema::new(fields.map(field).into(), Unknown::Reject)
    }

    fn event() -> impl Strategy<Value = Event> {
        let a = prop::option::of(any::<i64>().prop_map(Value::Int));
        let b = prop::option::of(any::<String>().prop_map(|text| Value::Text(text.into())));
        let c = prop::option::of(any::<bool>().prop_map(Value::Bool));
        let d = prop::option::of(any::<i64>().prop_map(Value::Decimal));
        let values = (a, b, c, d).prop_map(|(a, b, c, d)| vec![a, b, c, d]);
        (prop::option::of(any::<String>()), values).prop_map(|(id, values)| Event { id, values })
    }

    proptest! {
        #[test]
        fn a_record_gives_its_event_back(event in event()) {
            let record = event.encode();
            prop_assert_eq!(Event::id_of(&record), event.id.as_deref().map(str::as_bytes));
            prop_assert_eq!(Event::decode(&schema(), &record), Ok(event));
        }

        #[test]
        fn any_bytes_are_an_event_or_an_error_and_never_a_panic(bytes: Vec<u8>) {
            let _ = Event::decode(&schema(), &bytes);
            let _ = Event::id_of(&bytes);
        }
    }

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let values = vec![Some(Value::Int(-3)), Some(Value::Text("é".into())), None];
        let event = Event { id: Some("x".into()), values };
        assert_eq!(&event.encode()[..], b"\x01\x02x\x03\x05\x04\x02\xc3\xa9\x00");
        let mut read = Event::decode(&schema(), &event.encode()).unwrap();
        assert_eq!(read.values.pop(), Some(None), "a field that came later is absent");
        assert_eq!(read, event);
    }
}
