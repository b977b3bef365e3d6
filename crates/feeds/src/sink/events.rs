//! Rows as CloudEvents 1.0.

use consort_kernel::{Digest, Row};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::shown::row_json;

#[derive(Serialize)]
struct Event<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    r#type: &'static str,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    data: Box<RawValue>,
}

/// What every row is, to whoever sorts events by their type.
const TYPE: &str = "consort.row.v1";

/// The same for each repeat of a revision of a row, and another for everything else: the digest of its name,
/// group, window and revision.
pub(super) fn id(row: &Row) -> String {
    let identity = (&row.name, &row.group, row.start, row.revision);
    match serde_json::to_vec(&identity) {
        Ok(identity) => Digest::of(&identity).to_string(),
        // Texts, numbers and JSON: writing them into memory cannot fail.
        Err(error) => panic!("a row's identity could not be written: {error}"),
    }
}

/// The row as an event, in JSON. Its time is the end of its window.
pub(super) fn event(row: &Row) -> Result<Box<RawValue>, String> {
    let event = Event {
        specversion: "1.0",
        id: id(row),
        source: format!("/consort/views/{}", row.name),
        r#type: TYPE,
        subject: &row.name,
        time: row.end.to_string(),
        datacontenttype: "application/json",
        data: RawValue::from_string(row_json(row)).map_err(|error| error.to_string())?,
    };
    serde_json::value::to_raw_value(&event).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::tests::row;

    #[test]
    fn an_event_says_what_it_is_and_which() {
        let row = row("v", &[("a", "1")], "2", 3);
        let expected = concat!(
            r#"{"specversion":"1.0","id":"ID","source":"/consort/views/v","#,
            r#""type":"consort.row.v1","subject":"v","time":"2016-12-04T18:39:00Z","#,
            r#""datacontenttype":"application/json","data":DATA}"#
        );
        let expected = expected.replace("ID", &id(&row)).replace("DATA", &row_json(&row));
        assert_eq!(event(&row).unwrap().get(), expected);
    }

    #[test]
    fn ids_are_those_of_every_release_and_differ_by_revision() {
        let of = |group: &[(&str, &str)], revision| id(&row("v", group, "2", revision));
        assert_eq!(of(&[("a", "1")], 3), "d48c506c19b1aea51777f3624791a887");
        assert_ne!(of(&[("a", "1")], 3), of(&[("a", "1")], 4));
        assert_ne!(of(&[("a", "1")], 3), of(&[("a", "\"1\"")], 3));
    }
}
