//! A row of a collection's change feed: the payload of a kernel [`Change`].

use std::fmt;

use consort_kernel::{Change, Moment, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::place::PiecePlace;
use crate::PieceForm;

/// One version of a document, as subscribers see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GlueRow {
    /// The collection.
    pub collection: String,
    /// The tenant.
    pub tenant: String,
    /// The document.
    pub id: String,
    /// The place of the piece that created the document.
    pub life: PiecePlace,
    /// The version that the piece made.
    pub version: u64,
    /// The version before; 0 at first.
    pub was: u64,
    /// How the piece changed the document.
    pub form: RowForm,
    /// The piece: JSON, or an XML text. A delete has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<Box<RawValue>>,
    /// The sender's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The sender's number for the piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When the piece's frame was appended.
    #[serde(with = "rfc3339")]
    pub time: Moment,
    /// The document after the piece, if the collection stores it in rows, and in rows of states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Box<RawValue>>,
    /// The epoch of the partition's owner. Rows that are written again after a rollback differ by it, so a cursor
    /// tells them from those that it has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// The form of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// The row of a piece.
    Piece(PieceForm),
    /// The document's present state, in place of several pieces.
    State,
}

impl GlueRow {
    /// The feed entry.
    pub fn to_change(&self) -> Change {
        let payload = match serde_json::value::to_raw_value(self) {
            Ok(payload) => payload,
            // Texts, numbers and JSON: writing them into memory cannot fail.
            Err(error) => panic!("a row could not be encoded: {error}"),
        };
        Change { subject: self.id.clone(), time: self.time, revision: self.version, payload }
    }

    /// Reads the payload of a change.
    ///
    /// # Errors
    /// If the payload is no row.
    pub fn from_change(change: &Change) -> Result<Self, serde_json::Error> {
        serde_json::from_str(change.payload.get())
    }
}

impl PartialEq for GlueRow {
    fn eq(&self, other: &Self) -> bool {
        self.to_change() == other.to_change()
    }
}

/// The moment of a store time.
pub fn moment_of(time: Timestamp) -> Moment {
    Moment(i64::try_from(time.0).map_or(i64::MAX, |millis| millis.saturating_mul(1_000_000)))
}

impl RowForm {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            RowForm::Piece(form) => form.as_str(),
            RowForm::State => "state",
        }
    }

    /// The form of this name.
    pub fn parse(name: &str) -> Option<RowForm> {
        let piece = PieceForm::parse(name).map(RowForm::Piece);
        piece.or_else(|| (name == "state").then_some(RowForm::State))
    }
}

impl fmt::Display for RowForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RowForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RowForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        RowForm::parse(&name).ok_or_else(|| serde::de::Error::custom("an unknown form"))
    }
}

mod rfc3339 {
    //! A moment as RFC 3339 writes it.

    use consort_kernel::Moment;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Moment, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(time)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let row = GlueRow {
            collection: "content".into(),
            tenant: "a".into(),
            id: "crid://a/1".into(),
            life: "3-0-9-5".parse().unwrap(),
            version: 7,
            was: 6,
            form: RowForm::Piece(PieceForm::MergePatch),
            piece: Some(RawValue::from_string("{\"price\": 1.50}".into()).unwrap()),
            source: Some("epg".into()),
            seq: Some(12),
            time: moment_of(Timestamp(1_480_876_740_000)),
            document: None,
            epoch: Some(4),
        };
        let payload = concat!(
            "{\"collection\":\"content\",\"tenant\":\"a\",\"id\":\"crid://a/1\",\"life\":\"3-0-9-5\",",
            "\"version\":7,\"was\":6,\"form\":\"merge-patch\",\"piece\":{\"price\": 1.50},",
            "\"source\":\"epg\",\"seq\":12,\"time\":\"2016-12-04T18:39:00Z\",\"epoch\":4}"
        );
        let change = row.to_change();
        assert_eq!(change.payload.get(), payload);
        assert_eq!((change.subject.as_str(), change.revision), ("crid://a/1", 7));
        let stored = Change::decode(&change.encode()).unwrap();
        assert_eq!(GlueRow::from_change(&stored).unwrap(), row);
    }

    #[test]
    fn a_delete_has_no_piece_and_a_state_has_a_form_of_its_own() {
        let payload = concat!(
            "{\"collection\":\"c\",\"tenant\":\"a\",\"id\":\"i\",\"life\":\"3-0-9-5\",\"version\":7,",
            "\"was\":0,\"form\":\"state\",\"time\":\"2016-12-04T18:39:00Z\",\"document\":[1]}"
        );
        let row: GlueRow = serde_json::from_str(payload).unwrap();
        assert_eq!((row.form, row.piece.is_none()), (RowForm::State, true));
        assert_eq!(serde_json::to_string(&row).unwrap(), payload);
        assert!(serde_json::from_str::<GlueRow>(&payload.replace("state", "stat")).is_err());
    }
}
