//! How cluster cells are stored: one byte of format version, then JSON, which operators can read.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) const VERSION: u8 = 1;

/// Why a stored cell cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Written by a later release.
    #[error("format version {0} is unknown: this release reads versions up to {1}")]
    Version(u8, u8),
    /// Not what this release writes.
    #[error("the cell is malformed: {0}")]
    Malformed(String),
}

/// The bytes to store.
pub fn encode<T: Serialize>(value: &T) -> Bytes {
    encode_as(VERSION, value)
}

/// Reads what [`encode`] wrote.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    decode_as(VERSION, bytes)
}

/// As [`encode`], for a cell whose form has changed since version 1.
pub(crate) fn encode_as<T: Serialize>(version: u8, value: &T) -> Bytes {
    let mut bytes = vec![version];
    // Plain structs with text keys: writing them into memory cannot fail.
    if let Err(error) = serde_json::to_writer(&mut bytes, value) {
        panic!("a cell could not be encoded: {error}");
    }
    bytes.into()
}

/// Reads what [`encode_as`] wrote with this version.
pub(crate) fn decode_as<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, FormatError> {
    match bytes.split_first() {
        Some((&found, json)) if found == version => {
            serde_json::from_slice(json).map_err(|error| FormatError::Malformed(error.to_string()))
        }
        Some((&found, _)) => Err(FormatError::Version(found, version)),
        None => Err(FormatError::Malformed("it is empty".into())),
    }
}

/// A timestamp as a plain number of milliseconds, for `#[serde(with = "millis")]`.
pub(crate) mod millis {
    use consort_kernel::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(time.0)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(from).map(Timestamp)
    }
}

/// An optional timestamp, for `#[serde(with = "maybe_millis")]`.
pub(crate) mod maybe_millis {
    use consort_kernel::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(to)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::deserialize(from)?.map(Timestamp))
    }
}

/// Numbers with their times, for `#[serde(with = "timed")]`.
pub(crate) mod timed {
    use consort_kernel::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        samples: &[(Timestamp, u64)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(samples.iter().map(|(time, number)| (time.0, number)))
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Vec<(Timestamp, u64)>, D::Error> {
        let samples: Vec<(u64, u64)> = Vec::deserialize(from)?;
        Ok(samples.into_iter().map(|(time, number)| (Timestamp(time), number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_carries_its_version() {
        let bytes = encode(&("a", 7));
        assert_eq!(&bytes[..], b"\x01[\"a\",7]");
        assert_eq!(decode(&bytes), Ok(("a".to_string(), 7)));
        assert_eq!(decode::<u8>(b"\x027"), Err(FormatError::Version(2, 1)));
        assert!(matches!(decode::<u8>(b""), Err(FormatError::Malformed(_))));
        assert!(matches!(decode::<u8>(b"\x01x"), Err(FormatError::Malformed(_))));
    }
}
