//! A row as others see it, in JSON.

use consort_kernel::Row;
use consort_kernel::row::Group;
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct Shown<'a> {
    view: &'a str,
    group: &'a Group,
    window: Window,
    value: &'a RawValue,
    revision: u64,
}

#[derive(Serialize)]
struct Window {
    start: String,
    end: String,
}

/// `{"view": …, "group": {…}, "window": {"start": …, "end": …}, "value": …, "revision": n}`, in one line.
pub fn row_json(row: &Row) -> String {
    let shown = Shown {
        view: &row.name,
        group: &row.group,
        window: Window { start: row.start.to_string(), end: row.end.to_string() },
        value: &row.value,
        revision: row.revision,
    };
    match serde_json::to_string(&shown) {
        // JSON that came from elsewhere may have line ends between its parts, where they mean nothing.
        Ok(text) if text.contains(['\n', '\r']) => text.replace(['\n', '\r'], " "),
        Ok(text) => text,
        // Texts, numbers and JSON: writing them into memory cannot fail.
        Err(error) => panic!("a row could not be shown: {error}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use consort_kernel::Moment;

    pub(crate) fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    /// A row of the minute 2016-12-04T18:38.
    pub(crate) fn row(name: &str, group: &[(&str, &str)], value: &str, revision: u64) -> Row {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), json(value));
        Row {
            name: name.into(),
            group: Group(group.iter().map(field).collect()),
            start: Moment(1_480_876_680_000_000_000),
            end: Moment(1_480_876_740_000_000_000),
            value: json(value),
            revision,
        }
    }

    #[test]
    fn a_row_is_shown_as_one_line() {
        let row = row("v", &[("user", "\"a\\nb\""), ("day", "3")], "[1,\n2]", 4);
        let expected = concat!(
            r#"{"view":"v","group":{"user":"a\nb","day":3},"#,
            r#""window":{"start":"2016-12-04T18:38:00Z","end":"2016-12-04T18:39:00Z"},"#,
            r#""value":[1, 2],"revision":4}"#
        );
        assert_eq!(row_json(&row), expected);
    }
}
