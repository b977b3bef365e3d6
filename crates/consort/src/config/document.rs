//! Walks a config file and finds in it settings, declarations and problems, each with its spot.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::catalog::Catalog;
use super::declared::{self, Contents, Declaration, Entry};
use super::part::DeclarationSpec;
use super::problem::{Place, Problem};
use super::spec::{SettingSpec, Visibility};
use super::spot::Spots;
use super::suggest::nearest;
use super::{Assignment, ConfigFile};

/// What a file holds.
pub(crate) struct Document<'a> {
    pub(crate) spots: Spots<'a>,
    pub(crate) assignments: Vec<Assignment>,
    /// Those of all parts, not yet checked.
    pub(crate) declarations: Vec<Declaration>,
    /// Lines that are not TOML. What the parser made of them is a guess, and a second message about it
    /// would be noise.
    pub(crate) broken: Vec<usize>,
}

impl Document<'_> {
    /// Adds what is wrong with the declarations.
    pub(crate) fn tell(&self, found: Vec<Problem>, problems: &mut Vec<Problem>) {
        let broken = |problem: &Problem| problem.line().is_some_and(|l| self.broken.contains(&l));
        problems.extend(found.into_iter().filter(|problem| !broken(problem)));
    }
}

/// Finds everything at once: a syntax error does not hide the unknown names in the rest of the
/// file.
pub(crate) fn read<'a>(
    file: &'a ConfigFile,
    catalog: &'a Catalog,
    problems: &mut Vec<Problem>,
) -> Document<'a> {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let spots = match errors.is_empty() {
        true => spots(file, catalog, root.get_ref()),
        // What the parser took for a harmless value may be a secret beside a forgotten quote.
        false => Spots::new(file, catalog, &[], &[]),
    };
    let mut walk = Walk {
        catalog,
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

/// Lines of declared settings may be shown, except those with addresses, with secrets, and with unknown names.
fn spots<'a>(file: &'a ConfigFile, catalog: &'a Catalog, root: &DeTable<'_>) -> Spots<'a> {
    let (mut harmless, mut other) = (Vec::new(), Vec::new());
    for table in declared::entries(root) {
        let Contents::Table(tables) = &table.value.contents else { continue };
        for table_entry in tables {
            let spec = catalog.declaration(&table.name);
            let settings = match (spec, &table_entry.value.contents) {
                (Some(spec), Contents::Table(settings)) => settings
                    .iter()
                    .map(|entry| (entry, spec.find(&entry.name).is_some_and(is_harmless)))
                    .collect(),
                _ => vec![(table_entry, false)],
            };
            for (entry, harmless_one) in settings {
                declared::spans(entry, if harmless_one { &mut harmless } else { &mut other });
            }
        }
    }
    Spots::new(file, catalog, &harmless, &other)
}

fn is_harmless(setting: &SettingSpec) -> bool {
    [Visibility::Plain, Visibility::PlainInTable].contains(&setting.visibility)
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
    catalog: &'a Catalog,
    spots: &'a Spots<'a>,
    assignments: Vec<Assignment>,
    declarations: Vec<Declaration>,
    problems: Vec<Problem>,
    /// Where each name begins, and to which declaration it belongs.
    starts: Vec<(usize, Option<usize>)>,
}

impl Walk<'_> {
    fn table(&mut self, name: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        if let Some(spec) = self.catalog.declaration(name.get_ref()) {
            return self.declarations(spec, name, value);
        }
        let known = self.catalog.table(name.get_ref()).is_some();
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
                let tables = self.catalog.tables().map(|table| table.name);
                let declared = self.catalog.declarations().map(|spec| spec.table);
                let hint = nearest(name.get_ref(), tables.chain(declared));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean [{near}]?"));
                self.problem(name.span(), format!("unknown table [{}]{hint}", name.get_ref()));
            }
            _ => {
                let hint = self.belongs_elsewhere(name.get_ref()).unwrap_or_default();
                let message =
                    format!("unknown setting '{}' outside of any table{hint}", name.get_ref());
                self.problem(name.span(), message);
            }
        }
    }

    fn setting(&mut self, table: &str, leaf: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        let name = leaf.get_ref();
        self.starts.push((leaf.span().start, None));
        match self.catalog.find(&format!("{table}.{name}")) {
            Some(setting) => {
                let place = self.spots.place(&value.span());
                let raw = declared::raw(value.get_ref());
                self.assignments.push(Assignment { setting, raw, place });
            }
            None => {
                let hint = match nearest(name, self.names_in(table)) {
                    Some(near) => format!("; did you mean '{near}'?"),
                    None => self.belongs_elsewhere(name).unwrap_or_default(),
                };
                self.problem(leaf.span(), format!("unknown setting '{name}' in [{table}]{hint}"));
            }
        }
    }

    fn declarations(
        &mut self,
        spec: &'static DeclarationSpec,
        table: &Name<'_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let noun = spec.table;
        let DeValue::Table(inner) = value.get_ref() else {
            let message = format!("'{noun}' must be tables: write [{noun}.NAME] for each {noun}");
            return self.problem(table.span(), message);
        };
        for (leaf, value) in inner {
            // Some tables have settings for all that are declared, beside their tables.
            if !matches!(value.get_ref(), DeValue::Table(_))
                && self.catalog.find(&format!("{noun}.{}", leaf.get_ref())).is_some()
            {
                self.setting(noun, leaf, value);
            }
        }
        for Entry { name, span, value } in declared::entries(inner) {
            if let Contents::Table(settings) = value.contents {
                self.declaration(Declaration { spec, name, span, settings, broken: false });
                continue;
            }
            if self.catalog.find(&format!("{noun}.{name}")).is_some() {
                continue;
            }
            let is_declared = spec.find(&name).is_some();
            let near = nearest(&name, self.names_in(noun));
            if let Some(near) = near.filter(|_| !is_declared) {
                let hint = format!("did you mean '{near}'?");
                self.problem(span, format!("unknown setting '{name}' in [{noun}]; {hint}"));
                continue;
            }
            let hint = match is_declared {
                true => format!("give the {noun} a name and write [{noun}.NAME] above it"),
                false => format!("write [{noun}.{name}] on a line of its own"),
            };
            self.problem(span, format!("'{name}' in [{noun}] must be a table: {hint}"));
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

    /// The names of the settings of a table with a fixed name.
    fn names_in(&self, table: &str) -> impl Iterator<Item = &'static str> + use<> {
        let table = self.catalog.table(table);
        table.into_iter().flat_map(|table| table.settings).map(|setting| setting.name)
    }

    fn belongs_elsewhere(&self, name: &str) -> Option<String> {
        let setting = self.catalog.settings().find(|setting| setting.spec.name == name)?;
        Some(format!("; it belongs in [{}]", setting.table))
    }

    fn problem(&mut self, span: Range<usize>, message: String) {
        self.problems.push(Problem::new(self.spots.place(&span), message));
    }
}
