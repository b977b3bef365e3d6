//! Reads the settings of one declared table, and tells every mistake with its place in a sentence that
//! begins with the setting's name.

use std::ops::Range;

use consort_views::{Expression, ExpressionError};

use super::declared::{Declaration, Entry, Kind, Node, Parts};
use super::fields::Fields;
use super::problem::Problem;
use super::read::{self, Raw};
use super::redact::SecretUrl;
use super::spot::Spots;
use super::suggest::nearest;
use super::uses;

/// A table being read.
pub(super) struct Reader<'a> {
    /// As in its header, without the brackets.
    table: String,
    /// Where to tell that something is missing.
    span: Range<usize>,
    entries: &'a [Entry],
    /// What is missing may just not have been understood.
    broken: bool,
    spots: &'a Spots<'a>,
    problems: &'a mut Vec<Problem>,
    /// Settings that a misspelt one most likely meant: they are not missing as well.
    meant: Vec<&'static str>,
    flawed: bool,
}

/// A text with its span.
pub(super) struct Spanned<'a> {
    pub(super) text: &'a str,
    pub(super) span: &'a Range<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        declaration: &'a Declaration,
        spots: &'a Spots<'a>,
        problems: &'a mut Vec<Problem>,
    ) -> Reader<'a> {
        let Declaration { kind, name, span, settings, broken } = declaration;
        let mut reader = Reader {
            table: format!("{kind}.{name}"),
            span: span.clone(),
            entries: settings,
            broken: *broken,
            spots,
            problems,
            meant: Vec::new(),
            flawed: *broken,
        };
        reader.check_name(*kind, name);
        reader.check_settings(kind.settings(), |setting| kind.other_with(setting));
        reader
    }

    /// A reader of a table that is no stream and no view.
    pub(super) fn of_table(
        table: String,
        span: &Range<usize>,
        entries: &'a [Entry],
        known: &[&'static str],
        spots: &'a Spots<'a>,
        problems: &'a mut Vec<Problem>,
    ) -> Reader<'a> {
        let mut reader = Reader {
            table,
            span: span.clone(),
            entries,
            broken: false,
            spots,
            problems,
            meant: Vec::new(),
            flawed: false,
        };
        reader.check_settings(known, |_| None);
        reader
    }

    fn check_name(&mut self, kind: Kind, name: &str) {
        let wanted = "letters, digits, '_' and '-'";
        let most = consort_views::NAME_MOST;
        let checked = read::name(&Raw::Text(name.into()), most, name_character, wanted);
        if let Err(wrong) = checked {
            let span = self.span.clone();
            self.tell(&span, format!("the name of a {kind} {wrong}"));
        }
    }

    fn check_settings(&mut self, known: &[&'static str], elsewhere: impl Fn(&str) -> Option<Kind>) {
        for Entry { name, span, .. } in self.entries {
            if known.contains(&&**name) {
                continue;
            }
            let hint = match (elsewhere(name), nearest(name, known.iter().copied())) {
                (Some(other), _) => format!("; it belongs in [{other}.NAME]"),
                (None, Some(near)) => {
                    self.meant.push(near);
                    format!("; did you mean '{near}'?")
                }
                (None, None) => String::new(),
            };
            self.tell(span, format!("unknown setting '{name}' in [{}]{hint}", self.table));
        }
    }

    /// Reads a table that is the value of a setting of this one.
    pub(super) fn inner<T>(
        &mut self,
        entry: &Entry,
        entries: &[Entry],
        known: &[&'static str],
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let mut inner = Reader {
            table: format!("{}.{}", self.table, entry.name),
            span: entry.span.clone(),
            entries,
            broken: self.broken,
            spots: self.spots,
            problems: self.problems,
            meant: Vec::new(),
            flawed: false,
        };
        inner.check_settings(known, |_| None);
        let value = read(&mut inner);
        self.flawed |= inner.flawed;
        value
    }

    /// The RabbitMQ at `url`, or else the engine's: none if it has none, an error if that cannot be read.
    pub(super) fn broker(
        &mut self,
        engine: Result<Option<&SecretUrl>, ()>,
        what: &str,
    ) -> Option<SecretUrl> {
        match (self.get("url"), engine) {
            (Some(_), _) => self.read("url", read::broker_url),
            (None, Ok(Some(broker))) => Some(broker.clone()),
            (None, Err(())) => {
                self.excuse();
                None
            }
            (None, Ok(None)) => {
                let default = "where [engine] has a 'broker', that is the default";
                self.missing(&["url"], format!("'url': {what} ({default})"));
                None
            }
        }
    }

    /// As messages name it.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// Whether a mistake was found, here or in what this builds upon.
    pub(super) fn is_flawed(&self) -> bool {
        self.flawed
    }

    /// Whether something in it is not TOML.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether a setting that was not found may be there all the same, misspelt or not understood.
    pub(super) fn may_have(&self, setting: &str) -> bool {
        self.broken || self.meant.contains(&setting)
    }

    /// Notes a mistake that has been told elsewhere.
    pub(super) fn excuse(&mut self) {
        self.flawed = true;
    }

    pub(super) fn entry(&self, setting: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.name == setting)
    }

    pub(super) fn get(&self, setting: &str) -> Option<&'a Node> {
        self.entry(setting).map(|entry| &entry.value)
    }

    /// The value of a setting by a reader of plain values; none if it is not given, or wrong.
    pub(super) fn read<T>(
        &mut self,
        setting: &str,
        read: impl FnOnce(&Raw) -> Result<T, String>,
    ) -> Option<T> {
        let node = self.get(setting)?;
        self.read_node(setting, node, read)
    }

    pub(super) fn read_node<T>(
        &mut self,
        setting: &str,
        node: &Node,
        read: impl FnOnce(&Raw) -> Result<T, String>,
    ) -> Option<T> {
        read(&node.raw).map_err(|wrong| self.wrong(setting, &node.span, wrong)).ok()
    }

    /// One text.
    pub(super) fn text(&mut self, setting: &str) -> Option<Spanned<'a>> {
        let node = self.get(setting)?;
        self.text_of(setting, node)
    }

    fn text_of<'n>(&mut self, setting: &str, node: &'n Node) -> Option<Spanned<'n>> {
        match read::text(&node.raw) {
            Ok(text) => Some(Spanned { text, span: &node.span }),
            Err(wrong) => {
                self.wrong(setting, &node.span, wrong);
                None
            }
        }
    }

    /// A text, or a list of at least one; `noun` says what of. None if one of them is no text.
    pub(super) fn texts(&mut self, setting: &str, noun: &str) -> Option<Vec<Spanned<'a>>> {
        let node = self.get(setting)?;
        match &node.parts {
            Parts::List(items) if items.is_empty() => {
                self.wrong(setting, &node.span, format!("must name at least one {noun}"));
                None
            }
            Parts::List(items) => {
                let texts: Vec<_> =
                    items.iter().filter_map(|item| self.text_of(setting, item)).collect();
                (texts.len() == items.len()).then_some(texts)
            }
            _ => self.text_of(setting, node).map(|text| vec![text]),
        }
    }

    /// The place of the field of this name.
    pub(super) fn field(
        &mut self,
        setting: &str,
        fields: &Fields,
        name: &Spanned<'_>,
    ) -> Option<usize> {
        let found = fields.schema.find(name.text);
        if found.is_none() {
            self.unknown_field(setting, fields, name.text, name.span, "");
        }
        found
    }

    /// Tells that a stream has no such field, unless that has a cause which is told elsewhere.
    pub(super) fn unknown_field(
        &mut self,
        setting: &str,
        fields: &Fields,
        name: &str,
        span: &Range<usize>,
        advice: &str,
    ) {
        if fields.excuse(name) {
            return self.excuse();
        }
        if fields.firm.is_some() {
            let reason = format!(
                "'{name}' is not declared: without 'fields' in the stream, 'key', 'id', 'by', 'distinct', 'set' \
                 and 'last' can name a field, which is a text; for more, declare all fields there, as in \
                 fields = {{ {name} = \"int?\" }}"
            );
            return self.explain(setting, span, reason);
        }
        let near = nearest(name, fields.names());
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        let known = fields.schema.known();
        self.explain(
            setting,
            span,
            format!("unknown field '{name}'; there are {known}{hint}{advice}"),
        );
    }

    /// An expression over the fields.
    pub(super) fn expression(
        &mut self,
        setting: &str,
        fields: &Fields,
        text: &Spanned<'_>,
    ) -> Option<Expression> {
        // Of a field that nobody declared nothing is known but that its values can be compared.
        if let Some(firm) = &fields.firm
            && !(uses::BY_VIEW.contains(&setting) && uses::is_plain(text.text))
            && let Err(ExpressionError::UnknownField { name, .. }) =
                Expression::parse(text.text, firm)
        {
            self.unknown_field(setting, fields, &name, text.span, "");
            return None;
        }
        match Expression::parse(text.text, &fields.schema) {
            Ok(expression) => return Some(expression),
            Err(ExpressionError::UnknownField { name, .. }) => {
                self.unknown_field(setting, fields, &name, text.span, "");
            }
            // The parser's reason may have several lines.
            Err(error) => {
                self.explain(setting, text.span, error.to_string().replace('\n', ", "));
            }
        }
        None
    }

    /// `'setting' in [table] must be …`
    pub(super) fn wrong(&mut self, setting: &str, span: &Range<usize>, wrong: impl AsRef<str>) {
        self.tell(span, format!("'{setting}' in [{}] {}", self.table, wrong.as_ref()));
    }

    /// `'setting' in [table]: …`
    pub(super) fn explain(&mut self, setting: &str, span: &Range<usize>, reason: impl AsRef<str>) {
        self.tell(span, format!("'{setting}' in [{}]: {}", self.table, reason.as_ref()));
    }

    /// `[table] needs …`, unless one of `settings` was meant by a misspelt one.
    pub(super) fn missing(&mut self, settings: &[&str], needs: impl AsRef<str>) {
        self.flawed = true;
        if !settings.iter().any(|setting| self.may_have(setting)) {
            let span = self.span.clone();
            self.tell(&span, format!("[{}] needs {}", self.table, needs.as_ref()));
        }
    }

    fn tell(&mut self, span: &Range<usize>, message: String) {
        self.flawed = true;
        self.problems.push(Problem::new(self.spots.place(span), message));
    }
}

/// What names of streams, views and sinks are made of.
fn name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-".contains(c)
}
