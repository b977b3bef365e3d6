//! Where a piece stands in the log of its collection.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A piece's coordinates in the log. Its text is `PARTITION-ERA-OFFSET-RECORD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PiecePlace {
    /// The partition of the collection's log.
    pub partition: u32,
    /// The partition's era: offsets count anew in each.
    pub era: u64,
    /// The frame.
    pub offset: u64,
    /// The record within the frame.
    pub record: u32,
}

/// A text is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no place: write PARTITION-ERA-OFFSET-RECORD, such as 3-0-41872-5")]
pub struct PiecePlaceError(String);

impl fmt::Display for PiecePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.partition, self.era, self.offset, self.record)
    }
}

impl FromStr for PiecePlace {
    type Err = PiecePlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('-');
        let place = (|| {
            Some(PiecePlace {
                partition: number(parts.next()?)?,
                era: number(parts.next()?)?,
                offset: number(parts.next()?)?,
                record: number(parts.next()?)?,
            })
        })();
        place
            .filter(|_| parts.next().is_none())
            .ok_or_else(|| PiecePlaceError(text.chars().take(100).collect()))
    }
}

/// A number as `Display` writes it: no sign, no leading zeros, so that a place has one text.
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let short = text == "0" || !text.starts_with('0');
    (plain && short).then(|| text.parse().ok())?
}

impl Serialize for PiecePlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PiecePlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_text() {
        let place = PiecePlace { partition: 3, era: 0, offset: 41_872, record: 5 };
        assert_eq!(place.to_string(), "3-0-41872-5");
        assert_eq!("3-0-41872-5".parse(), Ok(place));
        for wrong in ["", "3-0-41872", "3-0-41872-5-1", "03-0-1-1", "+3-0-1-1", "3-0-1-", "a-0-1-1"]
        {
            assert!(wrong.parse::<PiecePlace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_of_a_partition_sort_as_the_log() {
        let place = |text: &str| text.parse::<PiecePlace>().unwrap();
        let places = ["3-0-9-1", "3-0-10-0", "3-0-10-2", "3-1-0-0"].map(place);
        assert!(places.is_sorted());
    }
}
