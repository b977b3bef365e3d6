//! A window row: the value of one group of a view in one window, and how it travels as a change.
//!
//! A row is identified by view, group and window. A later revision of the same row replaces it.

mod line;

use bytes::Bytes;
use consort_kernel::{Change, ChangeError, Digest, Moment, Name, NameError};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The format of rows that releases before the change wrote: their fields alone, without an envelope.
const BARE_ROW: u8 = 1;

/// One row. Its serialised form is that of [`BARE_ROW`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowRow {
    /// The view.
    #[serde(rename = "name")]
    pub view: String,
    /// The group that the value belongs to.
    pub group: GroupFields,
    /// The window's first moment.
    pub start: Moment,
    /// The moment at which the window ends; it is not part of it.
    pub end: Moment,
    /// The value as JSON.
    pub value: Box<RawValue>,
    /// The revision of the row, from 1. It only grows.
    pub revision: u64,
}

/// The fields of a group with their JSON values, in the order that the view declares.
#[derive(Clone, Debug, Default)]
pub struct GroupFields(pub Vec<(String, Box<RawValue>)>);

/// The payload of a row's change: the row as subscribers see it.
#[derive(Serialize)]
struct RowPayload<'a> {
    view: &'a str,
    group: &'a GroupFields,
    window: WindowText,
    value: &'a RawValue,
    revision: u64,
}

/// The same, as it is read.
#[derive(Deserialize)]
struct StoredPayload {
    view: String,
    group: GroupFields,
    window: WindowText,
    value: Box<RawValue>,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct WindowText {
    start: String,
    end: String,
}

impl WindowRow {
    /// The feed of a view's rows. Each row stands in the shard of its group.
    pub fn feed(view: &str) -> Result<Name, NameError> {
        Name::new(&format!("rows.{view}"))
    }

    /// The row as an entry of the view's feed.
    pub fn encode(&self) -> Bytes {
        self.change().encode()
    }

    /// Reads a row from an entry of a feed, written by this release or an earlier one.
    pub fn decode(entry: &[u8]) -> Result<WindowRow, ChangeError> {
        match entry.split_first() {
            Some((&BARE_ROW, json)) => serde_json::from_slice(json)
                .map_err(|error| ChangeError::Malformed(error.to_string())),
            _ => WindowRow::from_change(&Change::decode(entry)?),
        }
    }

    /// Reads the change in an entry of a feed of rows, written by this release or an earlier one.
    pub fn decode_change(entry: &[u8]) -> Result<Change, ChangeError> {
        match entry.first() {
            Some(&BARE_ROW) => WindowRow::decode(entry).map(|row| row.change()),
            _ => Change::decode(entry),
        }
    }

    /// The row as a change: the subject is the view, and the time is the end of the window.
    pub fn change(&self) -> Change {
        let window = WindowText { start: self.start.to_string(), end: self.end.to_string() };
        let (view, group, value, revision) =
            (self.view.as_str(), &self.group, &*self.value, self.revision);
        let payload = RowPayload { view, group, window, value, revision };
        match serde_json::value::to_raw_value(&payload) {
            Ok(payload) => Change { subject: self.view.clone(), time: self.end, revision, payload },
            // Texts, numbers and JSON: writing them into memory cannot fail.
            Err(error) => panic!("a row could not be written: {error}"),
        }
    }

    /// The row in a change.
    pub fn from_change(change: &Change) -> Result<WindowRow, ChangeError> {
        let malformed = |reason: String| ChangeError::Malformed(reason);
        let payload: StoredPayload = serde_json::from_str(change.payload.get())
            .map_err(|error| malformed(error.to_string()))?;
        let StoredPayload { view, group, window, value, revision } = payload;
        let moment = |text: &str| text.parse().map_err(|error| malformed(format!("{error}")));
        let (start, end) = (moment(&window.start)?, moment(&window.end)?);
        Ok(WindowRow { view, group, start, end, value, revision })
    }

    /// The id of this revision of the row: the digest of view, group, window and revision. A repeat has the
    /// same id.
    pub fn id(&self) -> String {
        let identity = (&self.view, &self.group, self.start, self.revision);
        match serde_json::to_vec(&identity) {
            Ok(identity) => Digest::of(&identity).to_string(),
            // Texts, numbers and JSON: writing them into memory cannot fail.
            Err(error) => panic!("a row's identity could not be written: {error}"),
        }
    }
}

impl Serialize for GroupFields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'a> Deserialize<'a> for GroupFields {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'a> Visitor<'a> for Fields {
            type Value = GroupFields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the fields of a group")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<GroupFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(GroupFields(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    /// A row of the minute 2016-12-04T18:38.
    pub(super) fn row(view: &str, group: &[(&str, &str)], value: &str, revision: u64) -> WindowRow {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), json(value));
        WindowRow {
            view: view.into(),
            group: GroupFields(group.iter().map(field).collect()),
            start: Moment(1_480_876_680_000_000_000),
            end: Moment(1_480_876_740_000_000_000),
            value: json(value),
            revision,
        }
    }

    fn events() -> WindowRow {
        let group = [("product", "\"productA\""), ("event_type", "5")];
        row("unique_user_event", &group, "1.50", 2)
    }

    const SHOWN: &str = concat!(
        r#"{"view":"unique_user_event","group":{"product":"productA","event_type":5},"#,
        r#""window":{"start":"2016-12-04T18:38:00Z","end":"2016-12-04T18:39:00Z"},"#,
        r#""value":1.50,"revision":2}"#
    );

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let stored = concat!(
            "\x02{\"subject\":\"unique_user_event\",\"time\":1480876740000000000,\"revision\":2,",
            "\"payload\":SHOWN}"
        );
        let stored = stored.replace("SHOWN", SHOWN);
        assert_eq!(events().encode(), stored);
        assert_eq!(WindowRow::decode(stored.as_bytes()).unwrap().encode(), stored);
        assert_eq!(WindowRow::decode_change(stored.as_bytes()), Ok(events().change()));
    }

    #[test]
    fn rows_of_earlier_releases_are_read_and_shown_as_before() {
        let stored = concat!(
            "\x01{\"name\":\"unique_user_event\",\"group\":{\"product\":\"productA\",\"event_type\":5},",
            "\"start\":1480876680000000000,\"end\":1480876740000000000,\"value\":1.50,\"revision\":2}"
        );
        let change = WindowRow::decode_change(stored.as_bytes()).unwrap();
        assert_eq!(change, events().change());
        assert_eq!(change.payload_line(), SHOWN);
        assert_eq!(WindowRow::decode(stored.as_bytes()).unwrap().encode(), events().encode());
    }

    #[test]
    fn bytes_that_are_no_row_are_refused() {
        assert_eq!(WindowRow::decode_change(b"\x07{}"), Err(ChangeError::Version(7)));
        for wrong in [&b""[..], b"\x01{}", b"\x02{}"] {
            let read = WindowRow::decode_change(wrong);
            assert!(matches!(read, Err(ChangeError::Malformed(_))), "{wrong:?}");
        }
        let another = Change { payload: json("{\"id\":\"a\"}"), ..events().change() };
        assert!(matches!(WindowRow::from_change(&another), Err(ChangeError::Malformed(_))));
        let moment = SHOWN.replace("2016-12-04T18:38:00Z", "yesterday");
        let another = Change { payload: json(&moment), ..events().change() };
        assert!(matches!(WindowRow::from_change(&another), Err(ChangeError::Malformed(_))));
    }

    #[test]
    fn a_row_is_shown_as_one_line() {
        let row = row("v", &[("user", "\"a\\nb\""), ("day", "3")], "[1,\n2]", 4);
        let expected = concat!(
            r#"{"view":"v","group":{"user":"a\nb","day":3},"#,
            r#""window":{"start":"2016-12-04T18:38:00Z","end":"2016-12-04T18:39:00Z"},"#,
            r#""value":[1, 2],"revision":4}"#
        );
        assert_eq!(row.change().payload_line(), expected);
    }

    #[test]
    fn ids_are_those_of_every_release_and_differ_by_revision() {
        let id = |group: &[(&str, &str)], revision| row("v", group, "2", revision).id();
        assert_eq!(id(&[("a", "1")], 3), "d48c506c19b1aea51777f3624791a887");
        assert_ne!(id(&[("a", "1")], 3), id(&[("a", "1")], 4));
        assert_ne!(id(&[("a", "1")], 3), id(&[("a", "\"1\"")], 3));
    }
}
