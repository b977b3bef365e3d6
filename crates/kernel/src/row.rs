//! A row: what a window comes to, on its way from the part that emits it to those who are told.
//!
//! Its identity is its name, its group and its window. A later revision of the same row replaces it.

use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::moment::Moment;
use crate::name::{Name, NameError};

/// The format of stored rows.
const VERSION: u8 = 1;

/// One row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What it is of: a view.
    pub name: String,
    /// The fields of its group in their order, each with its JSON value.
    pub group: Group,
    /// Where its window begins: the row's own time.
    pub start: Moment,
    /// Where its window ends; this moment is not part of it.
    pub end: Moment,
    /// Its value as JSON.
    pub value: Box<RawValue>,
    /// Which version of the row it is, from 1. Only grows.
    pub revision: u64,
}

/// Fields with their JSON values, in their order.
#[derive(Clone, Debug, Default)]
pub struct Group(pub Vec<(String, Box<RawValue>)>);

/// Why stored bytes are no row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Written by a later release.
    #[error("row format {0} is unknown: this release reads {VERSION}")]
    Version(u8),
    /// Not what this release writes.
    #[error("the row is malformed: {0}")]
    Malformed(String),
}

impl Row {
    /// The feed that the rows of a view stand in, each in the shard of its group.
    pub fn feed(view: &str) -> Result<Name, NameError> {
        Name::new(&format!("rows.{view}"))
    }

    /// The entry of a feed: one byte of format version, then JSON.
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        // Texts, numbers and JSON: writing them into memory cannot fail.
        if let Err(error) = serde_json::to_writer(&mut bytes, self) {
            panic!("a row could not be encoded: {error}");
        }
        bytes.into()
    }

    /// Reads what [`encode`](Row::encode) wrote.
    pub fn decode(entry: &[u8]) -> Result<Row, RowError> {
        match entry.split_first() {
            Some((&VERSION, json)) => {
                serde_json::from_slice(json).map_err(|error| RowError::Malformed(error.to_string()))
            }
            Some((&version, _)) => Err(RowError::Version(version)),
            None => Err(RowError::Malformed("it is empty".into())),
        }
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.encode() == other.encode()
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'a> Deserialize<'a> for Group {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'a> Visitor<'a> for Fields {
            type Value = Group;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the fields of a group")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Group, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Group(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let json = |text: &str| RawValue::from_string(text.into()).unwrap();
        let row = Row {
            name: "unique_user_event".into(),
            group: Group(vec![
                ("product".into(), json("\"productA\"")),
                ("event_type".into(), json("5")),
            ]),
            start: Moment(1_480_876_680_000_000_000),
            end: Moment(1_480_876_740_000_000_000),
            value: json("1.50"),
            revision: 2,
        };
        let stored = concat!(
            "\x01{\"name\":\"unique_user_event\",\"group\":{\"product\":\"productA\",\"event_type\":5},",
            "\"start\":1480876680000000000,\"end\":1480876740000000000,\"value\":1.50,\"revision\":2}"
        );
        assert_eq!(row.encode(), stored);
        assert_eq!(Row::decode(stored.as_bytes()), Ok(row));
        assert_eq!(Row::decode(b"\x07{}"), Err(RowError::Version(7)));
        assert!(matches!(Row::decode(b"\x01{}"), Err(RowError::Malformed(_))));
        assert!(matches!(Row::decode(b""), Err(RowError::Malformed(_))));
    }
}
