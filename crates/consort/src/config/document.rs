//! Walks a config file and finds in it settings, declarations and problems, each with its spot.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declared::{self, Declaration, Entry, Kind};
use super::problem::{Place, Problem};
use super::spot::Spots;
use super::suggest::nearest;
use super::{Assignment, ConfigFile, schema};

/// What a file holds.
pub(super) struct Document<'a> {
    pub(super) spots: Spots<'a>,
    pub(super) assignments: Vec<Assignment>,
    /// Streams, views, sinks and spaces of once, not yet checked.
    pub(super) declarations: Vec<Declaration>,
    /// Lines that are not TOML. What the parser made of them is a guess, and a second message about it
    /// would be noise.
    pub(super) broken: Vec<usize>,
}

impl Document<'_> {
    /// Adds what is wrong with the declarations.
    pub(super) fn tell(&self, found: Vec<Problem>, problems: &mut Vec<Problem>) {
        let broken = |problem: &Problem| problem.line().is_some_and(|l| self.broken.contains(&l));
        problems.extend(found.into_iter().filter(|problem| !broken(problem)));
    }
}

/// Finds everything at once: a syntax error does not hide the unknown names in the rest of the
/// file.
pub(super) fn read<'a>(file: &'a ConfigFile, problems: &mut Vec<Problem>) -> Document<'a> {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let spots = match errors.is_empty() {
        true => spots(file, root.get_ref()),
        // What the parser took for a harmless value may be a secret beside a forgotten quote.
        false => Spots::new(file, &[], &[]),
    };
    let mut walk = Walk {
        spots: &spots,
        assignments: Vec::new(),
        declarations: Vec::new(),
        problems: Vec::new(),
        starts: Vec::new(),
    };
    for (name, value) in root.get_ref() {
        walk.table(name, value);
    }
    let Walk { mut assignments, mut declarations, problems: found, mut starts, .. } = walk;
    starts.sort_unstable();
    let mut broken = Vec::new();
    for error in &errors {
        let span = error.span().unwrap_or_default();
        broken.push(spots.line(span.start));
        let before = starts.partition_point(|(start, _)| *start <= span.start);
        if let Some((_, Some(at))) = before.checked_sub(1).map(|last| starts[last]) {
            declarations[at].broken = true;
        }
        let wrong =
            format!("not TOML: {}", syntax_message(&file.text, span.start, error.message()));
        problems.push(Problem::new(spots.place(&span), wrong));
    }
    assignments.retain(|assignment| match &assignment.place {
        Place::File(spot) => !broken.contains(&spot.line),
        Place::Variable(_) | Place::Flag(_) => true,
    });
    let document = Document { spots, assignments, declarations, broken };
    document.tell(found, problems);
    document
}

/// Lines of streams, views and sinks may be shown, but for those with addresses and secrets, and with names
/// that nobody knows.
fn spots<'a>(file: &'a ConfigFile, root: &DeTable<'_>) -> Spots<'a> {
    let (mut harmless, mut other) = (Vec::new(), Vec::new());
    for table in declared::entries(root) {
        let declared::Parts::Table(tables) = &table.value.parts else { continue };
        for table_entry in tables {
            let kind = Kind::of(&table.name);
            let settings = match (kind, &table_entry.value.parts) {
                (Some(kind), declared::Parts::Table(settings)) => settings
                    .iter()
                    .map(|entry| (entry, kind.settings().contains(&&*entry.name)))
                    .collect(),
                _ => vec![(table_entry, false)],
            };
            for (entry, known) in settings {
                let hidden = kind.is_some_and(|kind| kind.hidden().contains(&&*entry.name));
                let known = known && !hidden;
                declared::spans(entry, if known { &mut harmless } else { &mut other });
            }
        }
    }
    Spots::new(file, &harmless, &other)
}

/// The parser's message, or a plainer one for the two commonest slips: a text without quotes, and
/// no value at all.
fn syntax_message(text: &str, at: usize, message: &str) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    if before.trim_end_matches([' ', '\t']).ends_with('=') {
        match after.chars().next() {
            Some(c) if c.is_ascii_alphabetic() => return "text must stand in quotes".to_owned(),
            None | Some('\n' | '\r' | '#') => return "a value is missing after '='".to_owned(),
            Some(_) => {}
        }
    }
    message.replace('\n', ", ")
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

struct Walk<'a> {
    spots: &'a Spots<'a>,
    assignments: Vec<Assignment>,
    declarations: Vec<Declaration>,
    problems: Vec<Problem>,
    /// Where each name begins, and to which declaration it belongs.
    starts: Vec<(usize, Option<usize>)>,
}

impl Walk<'_> {
    fn table(&mut self, name: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        if let Some(kind) = Kind::of(name.get_ref()) {
            return self.declarations(kind, name, value);
        }
        let known = schema::TABLES.iter().any(|(table, _)| table == name.get_ref());
        self.starts.push((name.span().start, None));
        match value.get_ref() {
            DeValue::Table(inner) if known => {
                for (leaf, value) in inner {
                    self.setting(name.get_ref(), leaf, value);
                }
            }
            _ if known => self.problem(
                name.span(),
                format!(
                    "'{}' must be a table: write [{}] on a line of its own",
                    name.get_ref(),
                    name.get_ref()
                ),
            ),
            DeValue::Table(_) => {
                let tables = schema::TABLES.iter().map(|(table, _)| *table);
                let hint = nearest(name.get_ref(), tables.chain(Kind::ALL.map(Kind::table)));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean [{near}]?"));
                self.problem(name.span(), format!("unknown table [{}]{hint}", name.get_ref()));
            }
            _ => {
                let hint = belongs_elsewhere(name.get_ref()).unwrap_or_default();
                let message =
                    format!("unknown setting '{}' outside of any table{hint}", name.get_ref());
                self.problem(name.span(), message);
            }
        }
    }

    fn setting(&mut self, table: &str, leaf: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        let name = leaf.get_ref();
        self.starts.push((leaf.span().start, None));
        match schema::find(&format!("{table}.{name}")) {
            Some(setting) => {
                let place = self.spots.place(&value.span());
                let raw = declared::raw(value.get_ref());
                self.assignments.push(Assignment { setting, raw, place });
            }
            None => {
                let siblings = schema::all().filter(|setting| setting.table() == table);
                let hint = match nearest(name, siblings.map(|setting| setting.leaf())) {
                    Some(near) => format!("; did you mean '{near}'?"),
                    None => belongs_elsewhere(name).unwrap_or_default(),
                };
                self.problem(leaf.span(), format!("unknown setting '{name}' in [{table}]{hint}"));
            }
        }
    }

    fn declarations(&mut self, kind: Kind, table: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(inner) = value.get_ref() else {
            let message = format!("'{kind}' must be tables: write [{kind}.NAME] for each {kind}");
            return self.problem(table.span(), message);
        };
        for (leaf, value) in inner {
            // Some kinds have settings for all that are declared, beside their tables.
            if !matches!(value.get_ref(), DeValue::Table(_))
                && schema::find(&format!("{kind}.{}", leaf.get_ref())).is_some()
            {
                self.setting(kind.table(), leaf, value);
            }
        }
        for Entry { name, span, value } in declared::entries(inner) {
            if let declared::Parts::Table(settings) = value.parts {
                self.declaration(Declaration { kind, name, span, settings, broken: false });
                continue;
            }
            if schema::find(&format!("{kind}.{name}")).is_some() {
                continue;
            }
            let settings = schema::all().filter(|setting| setting.table() == kind.table());
            let near = nearest(&name, settings.map(|setting| setting.leaf()));
            if let Some(near) = near.filter(|_| !kind.settings().contains(&&*name)) {
                let hint = format!("did you mean '{near}'?");
                self.problem(span, format!("unknown setting '{name}' in [{kind}]; {hint}"));
                continue;
            }
            let hint = match kind.settings().contains(&&*name) {
                true => format!("give the {kind} a name and write [{kind}.NAME] above it"),
                false => format!("write [{kind}.{name}] on a line of its own"),
            };
            self.problem(span, format!("'{name}' in [{kind}] must be a table: {hint}"));
        }
    }

    fn declaration(&mut self, declaration: Declaration) {
        let mut names = vec![declaration.span.clone()];
        for entry in &declaration.settings {
            declared::spans(entry, &mut names);
        }
        let at = self.declarations.len();
        self.starts.extend(names.into_iter().map(|name| (name.start, Some(at))));
        self.declarations.push(declaration);
    }

    fn problem(&mut self, span: Range<usize>, message: String) {
        self.problems.push(Problem::new(self.spots.place(&span), message));
    }
}

fn belongs_elsewhere(leaf: &str) -> Option<String> {
    let setting = schema::all().find(|setting| setting.leaf() == leaf)?;
    Some(format!("; it belongs in [{}]", setting.table()))
}
