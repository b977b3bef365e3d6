//! What a query found, and how it is written: JSON, CSV, or a shape of the view's own.

use std::iter::once;

use consort_kernel::Moment;
use serde_json::value::RawValue;

use crate::value::{Kind, Value, push_json_text};
use crate::view::{Answer, Shown, View};

/// An answer in parts, each of a group at most: a long answer is written with yields between them.
pub type Parts<'a> = Box<dyn Iterator<Item = String> + Send + 'a>;

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Whether one group was asked for.
    pub single: bool,
    /// The groups, ordered by their fields.
    pub rows: Vec<Row>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The values of the fields of `by`.
    pub group: Vec<Value>,
    /// The window it is of, if the view has windows.
    pub window: Option<InWindow>,
    /// What is kept of it.
    pub outcome: Outcome,
    /// Whether its set has members that are not shown.
    pub more: bool,
}

/// A window, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InWindow {
    /// Where it begins.
    pub start: Moment,
    /// Where it ends.
    pub end: Moment,
    /// `open`, `closing`, `closed`, or `gone` when it was let go.
    pub state: &'static str,
}

/// What is kept of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value; none where nothing was ever seen.
    Value(Option<Value>),
    /// The members of a set.
    Members(Vec<Value>),
}

impl Page {
    /// The answer as JSON, in its usual form.
    pub fn json<'a>(&'a self, view: &'a View) -> Parts<'a> {
        let mut head = String::from("{\"view\":");
        push_json_text(&mut head, view.name.as_str());
        let mut tail = String::new();
        match &self.rows[..] {
            [row] if self.single => {
                head.push(',');
                row.write_json(view, &mut head);
                // Only a set that is too large for one answer has more.
                if self.next.is_some() {
                    self.write_next(&mut tail);
                }
                tail.push('}');
                Box::new([head, tail].into_iter())
            }
            rows => {
                head.push_str(",\"groups\":[");
                tail.push(']');
                self.write_next(&mut tail);
                tail.push('}');
                let rows = rows.iter().enumerate().map(|(at, row)| row.listed(at, view));
                Box::new(once(head).chain(rows).chain(once(tail)))
            }
        }
    }

    fn write_next(&self, text: &mut String) {
        text.push_str(",\"next\":");
        match &self.next {
            Some(next) => push_json_text(text, next),
            None => text.push_str("null"),
        }
    }

    /// The answer in the shape that the view's routes have; several groups have their usual form.
    pub fn shaped<'a>(&'a self, view: &'a View, answer: &Answer) -> Parts<'a> {
        let (true, [row]) = (self.single, &self.rows[..]) else { return self.json(view) };
        let mut text = String::new();
        match answer {
            Answer::Bare => row.outcome.write_json(view.aggregate.kind(), &mut text),
            Answer::Object(names) => {
                text.push('{');
                for (at, (name, shown)) in names.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    push_json_text(&mut text, name);
                    text.push(':');
                    match shown {
                        Shown::Value => row.outcome.write_json(view.aggregate.kind(), &mut text),
                        Shown::Group(at) => {
                            row.group[*at].write_json(view.by[*at].expression.kind(), &mut text);
                        }
                    }
                }
                text.push('}');
            }
        }
        Box::new(once(text))
    }

    /// The groups as CSV (RFC 4180), with a line of names.
    pub fn csv<'a>(&'a self, view: &'a View) -> Parts<'a> {
        let window = match view.windows {
            Some(_) => &["start", "end", "state"][..],
            None => &[],
        };
        let window = window.iter().map(|name| (*name).to_owned());
        let names = view.by.iter().map(|field| quoted(&field.name));
        let head = line(window.chain(names).chain(["value".into()]));
        Box::new(once(head).chain(self.rows.iter().map(|row| row.csv(view))))
    }
}

impl Row {
    /// Bytes of the values that it shows.
    pub(super) fn bytes(&self) -> usize {
        let outcome = match &self.outcome {
            Outcome::Value(value) => value.as_slice(),
            Outcome::Members(members) => members,
        };
        let text = |value: &Value| match value {
            Value::Text(text) => text.len(),
            _ => 0,
        };
        self.group.iter().chain(outcome).map(|value| size_of::<Value>() + text(value)).sum()
    }

    /// As one of several groups, with the comma before it.
    fn listed(&self, at: usize, view: &View) -> String {
        let mut text = String::from(if at > 0 { ",{" } else { "{" });
        self.write_json(view, &mut text);
        text.push_str(if self.more { ",\"more\":true}" } else { "}" });
        text
    }

    fn csv(&self, view: &View) -> String {
        let values = self.group.iter().zip(view.kinds());
        let values = values.map(|(value, kind)| quoted(&value.shown(kind)));
        let outcome = quoted(&self.outcome.csv(view.aggregate.kind()));
        let window = self.window.iter().flat_map(|window| {
            [window.start.to_string(), window.end.to_string(), window.state.to_owned()]
        });
        line(window.chain(values).chain([outcome]))
    }

    fn write_json(&self, view: &View, text: &mut String) {
        text.push_str("\"group\":");
        text.push_str(&group_json(view, &self.group));
        if let Some(InWindow { start, end, state }) = &self.window {
            text.push_str(&format!(
                ",\"window\":{{\"start\":\"{start}\",\"end\":\"{end}\",\"state\":\"{state}\"}}"
            ));
        }
        text.push_str(",\"value\":");
        self.outcome.write_json(view.aggregate.kind(), text);
    }
}

impl Outcome {
    fn write_json(&self, kind: Kind, text: &mut String) {
        match self {
            Outcome::Value(Some(value)) => value.write_json(kind, text),
            Outcome::Value(None) => text.push_str("null"),
            Outcome::Members(members) => {
                text.push('[');
                for (at, member) in members.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    member.write_json(kind, text);
                }
                text.push(']');
            }
        }
    }

    /// Its JSON.
    pub(crate) fn json(&self, kind: Kind) -> String {
        let mut text = String::new();
        self.write_json(kind, &mut text);
        text
    }

    /// A value plainly, a set as JSON.
    fn csv(&self, kind: Kind) -> String {
        match self {
            Outcome::Value(value) => {
                value.as_ref().map_or_else(String::new, |value| value.shown(kind))
            }
            Outcome::Members(_) => self.json(kind),
        }
    }
}

/// A group as a JSON object.
pub fn group_json(view: &View, group: &[Value]) -> String {
    let mut text = String::from("{");
    for (at, (field, value)) in view.by.iter().zip(group).enumerate() {
        if at > 0 {
            text.push(',');
        }
        push_json_text(&mut text, &field.name);
        text.push(':');
        value.write_json(field.expression.kind(), &mut text);
    }
    text.push('}');
    text
}

/// The fields of a group, each with its JSON.
pub(crate) fn group_fields(
    view: &View,
    group: &[Value],
) -> impl Iterator<Item = (String, Box<RawValue>)> {
    view.by.iter().zip(group).map(|(field, value)| {
        let mut text = String::new();
        value.write_json(field.expression.kind(), &mut text);
        (field.name.clone(), json_of(text))
    })
}

/// JSON that was just written.
pub(crate) fn json_of(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn line(values: impl Iterator<Item = String>) -> String {
    let mut text = values.collect::<Vec<_>>().join(",");
    text.push_str("\r\n");
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
