//! The form of the cell that settles the definitions.
//!
//! A new cell has format version 2. Release 0.1 wrote version 1, which knows streams and views only, and
//! gave numbers to views only. Such a cell is read, and it stays as it is: then nodes of both releases can
//! work on the same store. A node of release 0.1 refuses version 2 by its number.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::format::{self, FormatError};

/// Version 1 has the version byte of all cells of the cluster.
pub(crate) const VERSION: u8 = 2;

/// The definitions that the cluster settled on: by kind, then by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Settled {
    kinds: BTreeMap<String, BTreeMap<String, Numbered>>,
}

/// One definition with its number, which never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Numbered {
    number: u64,
    definition: Json,
}

/// Version 1 of the cell.
#[derive(Deserialize)]
struct FirstForm {
    streams: BTreeMap<String, Json>,
    views: BTreeMap<String, Json>,
    /// The numbers of the views.
    numbers: BTreeMap<String, u64>,
}

impl Settled {
    /// Numbers definitions for the first time: within each kind from 1 on, in the order of their names.
    pub(super) fn first(definitions: &BTreeMap<String, BTreeMap<String, Json>>) -> Self {
        let numbered = |(kind, names): (&String, &BTreeMap<String, Json>)| {
            let entries = names.iter().zip(1..).map(|((name, definition), number)| {
                (name.clone(), Numbered { number, definition: definition.clone() })
            });
            (kind.clone(), entries.collect())
        };
        Settled { kinds: definitions.iter().map(numbered).collect() }
    }

    pub(super) fn definitions(&self) -> BTreeMap<String, BTreeMap<String, Json>> {
        self.each(|entry| entry.definition.clone())
    }

    pub(super) fn numbers(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        self.each(|entry| entry.number)
    }

    fn each<T>(&self, of: impl Fn(&Numbered) -> T) -> BTreeMap<String, BTreeMap<String, T>> {
        let kind = |(kind, names): (&String, &BTreeMap<String, Numbered>)| {
            let names = names.iter().map(|(name, entry)| (name.clone(), of(entry)));
            (kind.clone(), names.collect())
        };
        self.kinds.iter().map(kind).collect()
    }

    pub(super) fn encode(&self) -> Bytes {
        format::encode_as(VERSION, self)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        match bytes.first() {
            Some(&VERSION) => format::decode_as(VERSION, bytes),
            Some(&version) if version > VERSION => Err(FormatError::Version(version, VERSION)),
            _ => Settled::from_first_form(format::decode(bytes)?),
        }
    }

    /// Views keep their numbers. Streams get numbers as in a new cell: the cell never changes, so these do
    /// not change either.
    fn from_first_form(stored: FirstForm) -> Result<Self, FormatError> {
        let FirstForm { streams, views, numbers } = stored;
        let kinds = BTreeMap::from([("stream".to_owned(), streams), ("view".to_owned(), views)]);
        let mut settled = Settled::first(&kinds);
        for (name, view) in settled.kinds.get_mut("view").into_iter().flatten() {
            let number = numbers.get(name).copied();
            view.number = number.ok_or_else(|| {
                FormatError::Malformed(format!("the view '{name}' has no number"))
            })?;
        }
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A cell as release 0.1 wrote it.
    const FIRST_FORM: &[u8] =
        b"\x01{\"streams\":{\"rides\":{\"field lift\":\"int\",\"partitions\":\"4\"}},\
        \"views\":{\"b_days\":{\"from\":\"rides\"},\"c_days\":{\"from\":\"rides\"}},\
        \"numbers\":{\"b_days\":7,\"c_days\":2}}";

    const UNNUMBERED: &[u8] = b"\x01{\"streams\":{},\"views\":{\"a\":{}},\"numbers\":{}}";

    /// A cell as this release writes it.
    const SECOND_FORM: &[u8] = b"\x02{\"kinds\":{\
        \"stream\":{\"rides\":{\"number\":1,\"definition\":{\"partitions\":\"4\"}}},\
        \"view\":{\"a\":{\"number\":1,\"definition\":{}},\"b\":{\"number\":2,\"definition\":{}}}}}";

    fn numbers(settled: &Settled, kind: &str) -> Vec<(String, u64)> {
        settled.numbers().remove(kind).unwrap().into_iter().collect()
    }

    #[test]
    fn the_cell_of_release_0_1_is_read_and_keeps_its_numbers() {
        let settled = Settled::decode(FIRST_FORM).unwrap();
        assert_eq!(numbers(&settled, "view"), [("b_days".into(), 7), ("c_days".into(), 2)]);
        assert_eq!(numbers(&settled, "stream"), [("rides".into(), 1)]);
        let rides = json!({"field lift": "int", "partitions": "4"});
        assert_eq!(settled.definitions()["stream"]["rides"], rides);
        assert_eq!(settled.definitions()["view"]["b_days"], json!({"from": "rides"}));
    }

    #[test]
    fn the_cell_has_this_form_and_is_read_back() {
        let (stream, view) = (json!({"partitions": "4"}), json!({}));
        let definitions = BTreeMap::from([
            ("stream".into(), BTreeMap::from([("rides".into(), stream)])),
            ("view".into(), BTreeMap::from([("a".into(), view.clone()), ("b".into(), view)])),
        ]);
        let settled = Settled::first(&definitions);
        // Members have an order of their own where another crate asks for that.
        let written: Json = serde_json::from_slice(&settled.encode()[1..]).unwrap();
        let expected: Json = serde_json::from_slice(&SECOND_FORM[1..]).unwrap();
        assert_eq!((settled.encode()[0], written), (SECOND_FORM[0], expected));
        assert_eq!(Settled::decode(SECOND_FORM), Ok(settled.clone()));
        assert_eq!(settled.definitions(), definitions);
    }

    #[test]
    fn a_cell_of_a_later_release_or_a_damaged_one_is_refused() {
        assert_eq!(Settled::decode(b"\x03{}"), Err(FormatError::Version(3, 2)));
        for damaged in [&b""[..], b"\x01{}", b"\x02{", b"\x00{}", UNNUMBERED] {
            assert!(Settled::decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
