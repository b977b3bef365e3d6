//! Declared tables as they stand in a file: a tree of values with their spans, before anything is known of their
//! meaning.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::part::DeclarationSpec;
use super::read::Raw;

/// A value with its span, and what is in it.
pub(crate) struct Node {
    pub(crate) raw: Raw,
    pub(crate) span: Range<usize>,
    pub(crate) contents: Contents,
}

/// What a value consists of.
pub(crate) enum Contents {
    None,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A name in a table, with its value.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Of the name.
    pub(crate) span: Range<usize>,
    pub(crate) value: Node,
}

/// A table that the user named, such as `[stream.NAME]`.
pub(crate) struct Declaration {
    pub(crate) spec: &'static DeclarationSpec,
    pub(crate) name: String,
    /// Of the name.
    pub(crate) span: Range<usize>,
    pub(crate) settings: Vec<Entry>,
    /// Whether something in it is not TOML, so that what is missing may just not have been understood.
    pub(crate) broken: bool,
}

impl Node {
    pub(crate) fn new(value: &Spanned<DeValue<'_>>) -> Node {
        let contents = match value.get_ref() {
            DeValue::Array(items) => Contents::List(items.iter().map(Node::new).collect()),
            DeValue::Table(table) => Contents::Table(entries(table)),
            _ => Contents::None,
        };
        Node { raw: raw(value.get_ref()), span: value.span(), contents }
    }
}

/// The entries of a table as they stand in the file, from top to bottom.
pub(crate) fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        Entry { name: name.get_ref().to_string(), span: name.span(), value: Node::new(value) }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries
}

/// The spans of all names and plain values below `entry`, its own name included.
pub(crate) fn spans(entry: &Entry, found: &mut Vec<Range<usize>>) {
    found.push(entry.span.clone());
    spans_in(&entry.value, found);
}

fn spans_in(node: &Node, found: &mut Vec<Range<usize>>) {
    match &node.contents {
        Contents::None => found.push(node.span.clone()),
        Contents::List(items) => items.iter().for_each(|item| spans_in(item, found)),
        Contents::Table(entries) => entries.iter().for_each(|entry| spans(entry, found)),
    }
}

/// The value without its spans.
pub(crate) fn raw(value: &DeValue<'_>) -> Raw {
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
