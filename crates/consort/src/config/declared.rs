//! Streams, views and sinks as a file declares them: a tree of values with their spans, before anybody knows
//! what they should be.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::Raw;
use super::{once, sinks, streams, views};

/// A value with its span, and what is in it.
pub(super) struct Node {
    pub(super) raw: Raw,
    pub(super) span: Range<usize>,
    pub(super) parts: Parts,
}

/// What a value consists of.
pub(super) enum Parts {
    None,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A name in a table, with its value.
pub(super) struct Entry {
    pub(super) name: String,
    /// Of the name.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
}

/// What can be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    View,
    Sink,
    Once,
}

/// `[stream.NAME]`, `[view.NAME]`, `[sink.NAME]` or `[once.NAME]`.
pub(super) struct Declaration {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Of the name.
    pub(super) span: Range<usize>,
    pub(super) settings: Vec<Entry>,
    /// Whether something in it is not TOML, so that what is missing may just not have been understood.
    pub(super) broken: bool,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Stream, Kind::View, Kind::Sink, Kind::Once];

    /// The kind whose declarations stand in this table.
    pub(super) fn of(table: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.table() == table)
    }

    pub(super) fn table(self) -> &'static str {
        match self {
            Kind::Stream => "stream",
            Kind::View => "view",
            Kind::Sink => "sink",
            Kind::Once => "once",
        }
    }

    /// The settings that it takes.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Kind::Stream => &streams::SETTINGS,
            Kind::View => &views::SETTINGS,
            Kind::Sink => &sinks::SETTINGS,
            Kind::Once => &once::SETTINGS,
        }
    }

    /// The kind that takes a setting which this one is easily taken to have.
    pub(super) fn other_with(self, setting: &str) -> Option<Kind> {
        let other = match self {
            Kind::Stream => Kind::View,
            Kind::View => Kind::Stream,
            Kind::Sink | Kind::Once => return None,
        };
        other.settings().contains(&setting).then_some(other)
    }

    /// The settings of which nothing may be shown.
    pub(super) fn hidden(self) -> &'static [&'static str] {
        match self {
            Kind::Stream | Kind::View => &["amqp"],
            Kind::Sink => &sinks::HIDDEN,
            Kind::Once => &once::HIDDEN,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table())
    }
}

impl Node {
    pub(super) fn of(value: &Spanned<DeValue<'_>>) -> Node {
        let parts = match value.get_ref() {
            DeValue::Array(items) => Parts::List(items.iter().map(Node::of).collect()),
            DeValue::Table(table) => Parts::Table(entries(table)),
            _ => Parts::None,
        };
        Node { raw: raw(value.get_ref()), span: value.span(), parts }
    }
}

/// The entries of a table as they stand in the file, from top to bottom.
pub(super) fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        Entry { name: name.get_ref().to_string(), span: name.span(), value: Node::of(value) }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries
}

/// The spans of all names and plain values below `entry`, its own name included.
pub(super) fn spans(entry: &Entry, found: &mut Vec<Range<usize>>) {
    found.push(entry.span.clone());
    spans_in(&entry.value, found);
}

fn spans_in(node: &Node, found: &mut Vec<Range<usize>>) {
    match &node.parts {
        Parts::None => found.push(node.span.clone()),
        Parts::List(items) => items.iter().for_each(|item| spans_in(item, found)),
        Parts::Table(entries) => entries.iter().for_each(|entry| spans(entry, found)),
    }
}

/// The value without its spans.
pub(super) fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number of more than 64 bits"), Raw::Integer),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
