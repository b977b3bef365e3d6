//! The form in which a stream's events come, and the fields that lines have without declaring them.

use std::fmt;

use consort_line::Dialect;

/// The field with the event's time, in nanoseconds since the Unix epoch: of a line its timestamp, of a JSON
/// event the field that the stream names with `time`.
pub const TIME: &str = "_time";

/// The field with the measurement of a line.
pub const MEASUREMENT: &str = "_measurement";

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// One JSON object each.
    #[default]
    Json,
    /// One line of line protocol each.
    Line(Dialect),
}

impl Form {
    /// All forms, by the words of a config.
    pub const NAMES: [(&str, Form); 3] = [
        ("json", Form::Json),
        ("line", Form::Line(Dialect::Strict)),
        ("line-loose", Form::Line(Dialect::Loose)),
    ];

    /// Whether it is one of line protocol.
    pub fn is_line(self) -> bool {
        matches!(self, Form::Line(_))
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, form)| form == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}
