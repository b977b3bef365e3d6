//! Reads the settings of one declared table, and tells every mistake with its place in a sentence that
//! begins with the setting's name.

use std::ops::Range;

use super::catalog::Catalog;
use super::declared::{Contents, Declaration, Entry, Node};
use super::part::NameRule;
use super::problem::{Place, Problem};
use super::read::{self, Raw};
use super::redact::SecretUrl;
use super::spec::{SettingSpec, names};
use super::spot::Spots;
use super::suggest::nearest;

/// A table being read.
pub(crate) struct Reader<'a> {
    /// As in its header, without the brackets.
    table: String,
    /// Where to tell that something is missing.
    span: Range<usize>,
    entries: &'a [Entry],
    /// The settings that the table takes. Others cannot be read.
    known: Vec<&'static str>,
    /// What is missing may just not have been understood.
    broken: bool,
    spots: &'a Spots<'a>,
    problems: &'a mut Vec<Problem>,
    /// Settings that a misspelt one most likely meant: they are not missing as well.
    meant: Vec<&'static str>,
    flawed: bool,
}

/// A text with its span.
pub(crate) struct Spanned<'a> {
    pub(crate) text: &'a str,
    pub(crate) span: &'a Range<usize>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        declaration: &'a Declaration,
        catalog: &Catalog,
        spots: &'a Spots<'a>,
        problems: &'a mut Vec<Problem>,
    ) -> Reader<'a> {
        let Declaration { spec, name, span, settings, broken } = declaration;
        let mut reader = Reader {
            table: format!("{}.{name}", spec.table),
            span: span.clone(),
            entries: settings,
            known: names(spec.settings),
            broken: *broken,
            spots,
            problems,
            meant: Vec::new(),
            flawed: *broken,
        };
        // A table's name is mostly also the noun for one declaration; a collection is declared with [glue.NAME].
        let noun = spec.plural.strip_suffix('s').unwrap_or(spec.table);
        reader.check_name(noun, spec.names, name);
        reader.check_settings(|setting| catalog.sibling_with(spec, setting));
        reader
    }

    /// A reader of a table that is not declared by a part.
    pub(crate) fn of_table(
        table: String,
        span: &Range<usize>,
        entries: &'a [Entry],
        settings: &'static [SettingSpec],
        spots: &'a Spots<'a>,
        problems: &'a mut Vec<Problem>,
    ) -> Reader<'a> {
        let mut reader = Reader {
            table,
            span: span.clone(),
            entries,
            known: names(settings),
            broken: false,
            spots,
            problems,
            meant: Vec::new(),
            flawed: false,
        };
        reader.check_settings(|_| None);
        reader
    }

    fn check_name(&mut self, noun: &str, rule: NameRule, name: &str) {
        let (allowed, wanted): (fn(char) -> bool, _) = match rule.dots {
            true => (|c| name_character(c) || c == '.', "letters, digits, '_', '-' and '.'"),
            false => (name_character, "letters, digits, '_' and '-'"),
        };
        let checked = read::name(&Raw::Text(name.into()), rule.most, allowed, wanted);
        if let Err(wrong) = checked {
            let span = self.span.clone();
            self.tell(&span, format!("the name of a {noun} {wrong}"));
        }
    }

    /// Tells which settings are unknown. `sibling` finds another table that has a setting.
    fn check_settings(&mut self, sibling: impl Fn(&str) -> Option<&'static str>) {
        for Entry { name, span, .. } in self.entries {
            if self.known.contains(&&**name) {
                continue;
            }
            let hint = match (sibling(name), nearest(name, self.known.iter().copied())) {
                (Some(other), _) => format!("; it belongs in [{other}.NAME]"),
                (None, Some(near)) => {
                    self.meant.extend(self.known.iter().find(|known| **known == near));
                    format!("; did you mean '{near}'?")
                }
                (None, None) => String::new(),
            };
            self.tell(span, format!("unknown setting '{name}' in [{}]{hint}", self.table));
        }
    }

    /// Reads a table that is the value of a setting of this one.
    pub(crate) fn inner<T>(
        &mut self,
        entry: &Entry,
        entries: &[Entry],
        settings: &'static [SettingSpec],
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let mut inner = Reader {
            table: format!("{}.{}", self.table, entry.name),
            span: entry.span.clone(),
            entries,
            known: names(settings),
            broken: self.broken,
            spots: self.spots,
            problems: self.problems,
            meant: Vec::new(),
            flawed: false,
        };
        inner.check_settings(|_| None);
        let value = read(&mut inner);
        self.flawed |= inner.flawed;
        value
    }

    /// The RabbitMQ at `url`, or else the engine's: none if it has none, an error if that cannot be read.
    pub(crate) fn broker(
        &mut self,
        engine: Result<Option<SecretUrl>, ()>,
        what: &str,
    ) -> Option<SecretUrl> {
        match (self.get("url"), engine) {
            (Some(_), _) => self.read("url", read::broker_url),
            (None, Ok(Some(broker))) => Some(broker),
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

    /// Where the table is declared.
    pub(crate) fn place(&self) -> Place {
        self.spots.place(&self.span)
    }

    /// Tells that no declaration may have this name.
    pub(crate) fn reserved_name(&mut self, why: &str) {
        let span = self.span.clone();
        self.tell(&span, format!("[{}] must have another name: {why}", self.table));
    }

    /// As messages name it.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Whether a mistake was found, here or in what this builds upon.
    pub(crate) fn is_flawed(&self) -> bool {
        self.flawed
    }

    /// Whether something in it is not TOML.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether a setting that was not found may be there all the same, misspelt or not understood.
    pub(crate) fn may_have(&self, setting: &str) -> bool {
        self.broken || self.meant.contains(&setting)
    }

    /// Notes a mistake that has been told elsewhere.
    pub(crate) fn excuse(&mut self) {
        self.flawed = true;
    }

    /// The setting as the file gives it. Every other method comes by here, so a setting without a spec is found
    /// in any test that reads it.
    pub(crate) fn entry(&self, setting: &str) -> Option<&'a Entry> {
        debug_assert!(
            self.known.contains(&setting),
            "'{setting}' is read in [{}] and has no spec",
            self.table
        );
        self.entries.iter().find(|entry| entry.name == setting)
    }

    pub(crate) fn get(&self, setting: &str) -> Option<&'a Node> {
        self.entry(setting).map(|entry| &entry.value)
    }

    /// The value of a setting by a reader of plain values; none if it is not given, or wrong.
    pub(crate) fn read<T>(
        &mut self,
        setting: &str,
        read: impl FnOnce(&Raw) -> Result<T, String>,
    ) -> Option<T> {
        let node = self.get(setting)?;
        self.read_node(setting, node, read)
    }

    pub(crate) fn read_node<T>(
        &mut self,
        setting: &str,
        node: &Node,
        read: impl FnOnce(&Raw) -> Result<T, String>,
    ) -> Option<T> {
        read(&node.raw).map_err(|wrong| self.wrong(setting, &node.span, wrong)).ok()
    }

    /// One text.
    pub(crate) fn text(&mut self, setting: &str) -> Option<Spanned<'a>> {
        let node = self.get(setting)?;
        self.text_in(setting, node)
    }

    fn text_in<'n>(&mut self, setting: &str, node: &'n Node) -> Option<Spanned<'n>> {
        match read::text(&node.raw) {
            Ok(text) => Some(Spanned { text, span: &node.span }),
            Err(wrong) => {
                self.wrong(setting, &node.span, wrong);
                None
            }
        }
    }

    /// A text, or a list of at least one; `noun` says what of. None if one of them is no text.
    pub(crate) fn texts(&mut self, setting: &str, noun: &str) -> Option<Vec<Spanned<'a>>> {
        let node = self.get(setting)?;
        match &node.contents {
            Contents::List(items) if items.is_empty() => {
                self.wrong(setting, &node.span, format!("must name at least one {noun}"));
                None
            }
            Contents::List(items) => {
                let texts: Vec<_> =
                    items.iter().filter_map(|item| self.text_in(setting, item)).collect();
                (texts.len() == items.len()).then_some(texts)
            }
            _ => self.text_in(setting, node).map(|text| vec![text]),
        }
    }

    /// `'setting' in [table] must be …`
    pub(crate) fn wrong(&mut self, setting: &str, span: &Range<usize>, wrong: impl AsRef<str>) {
        self.tell(span, format!("'{setting}' in [{}] {}", self.table, wrong.as_ref()));
    }

    /// `'setting' in [table]: …`
    pub(crate) fn explain(&mut self, setting: &str, span: &Range<usize>, reason: impl AsRef<str>) {
        self.tell(span, format!("'{setting}' in [{}]: {}", self.table, reason.as_ref()));
    }

    /// `[table] needs …`, unless one of `settings` was meant by a misspelt one.
    pub(crate) fn missing(&mut self, settings: &[&str], needs: impl AsRef<str>) {
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

/// What names of declarations are made of.
fn name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-".contains(c)
}
