//! Walks a config file and finds in it settings and problems, each with its spot.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, Spot};
use super::read::Raw;
use super::suggest::nearest;
use super::{Assignment, ConfigFile, redact, schema};

/// Finds everything at once: a syntax error does not hide the unknown names in the rest of the
/// file.
pub(super) fn collect(
    file: &ConfigFile,
    assignments: &mut Vec<Assignment>,
    problems: &mut Vec<Problem>,
) {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let mut walk = Walk { file, assignments: Vec::new(), problems: Vec::new() };
    for (name, value) in root.get_ref() {
        walk.table(name, value);
    }
    let syntax: Vec<Problem> = errors
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or_default();
            let wrong =
                format!("not TOML: {}", syntax_message(&file.text, span.start, error.message()));
            Problem::new(place(file, span), wrong)
        })
        .collect();
    // What the parser made of a broken line is a guess, and a second message about it would be
    // noise.
    let broken = |line: Option<usize>| syntax.iter().any(|error| error.line() == line);
    problems.extend(walk.problems.into_iter().filter(|problem| !broken(problem.line())));
    assignments.extend(walk.assignments.into_iter().filter(|assignment| match &assignment.place {
        Place::File(spot) => !broken(Some(spot.line)),
        Place::Variable(_) | Place::Flag(_) => true,
    }));
    problems.extend(syntax);
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
    file: &'a ConfigFile,
    assignments: Vec<Assignment>,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    fn table(&mut self, name: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        let known = schema::TABLES.iter().any(|(table, _)| table == name.get_ref());
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
                let hint = nearest(name.get_ref(), schema::TABLES.iter().map(|(table, _)| *table));
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
        match schema::find(&format!("{table}.{name}")) {
            Some(setting) => {
                let place = place(self.file, value.span());
                self.assignments.push(Assignment { setting, raw: raw(value.get_ref()), place });
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

    fn problem(&mut self, span: Range<usize>, message: String) {
        self.problems.push(Problem::new(place(self.file, span), message));
    }
}

fn belongs_elsewhere(leaf: &str) -> Option<String> {
    let setting = schema::all().find(|setting| setting.leaf() == leaf)?;
    Some(format!("; it belongs in [{}]", setting.table()))
}

fn raw(value: &DeValue<'_>) -> Raw {
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

/// The spot's line and column, both from 1, and its line with a mark under the span.
fn place(file: &ConfigFile, span: Range<usize>) -> Place {
    let text = &file.text;
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_text = text[line_start..].lines().next().unwrap_or_default();
    let line = text[..line_start].matches('\n').count() + 1;
    let column = text[line_start..start].chars().count() + 1;
    let end =
        text.floor_char_boundary(span.end.clamp(start, (line_start + line_text.len()).max(start)));
    let width = text[start..end].chars().count().max(1);
    Place::File(Spot {
        line,
        column,
        file: file.name.clone(),
        excerpt: excerpt(line, line_text, column, width),
    })
}

fn excerpt(line: usize, text: &str, column: usize, width: usize) -> String {
    let shown = redact::line(text);
    let (mut column, mut width) = (column, width);
    // Where the line was redacted, the mark goes under what stands for the secret.
    if shown != text && column > shown.find(redact::HIDDEN).unwrap_or(shown.len()) {
        column = shown.find(redact::HIDDEN).map_or(1, |at| shown[..at].chars().count() + 1);
        width = redact::HIDDEN.len();
    }
    if shown != text {
        width = width.min((shown.chars().count() + 1).saturating_sub(column)).max(1);
    }
    let shown = shown.replace('\t', " ");
    let margin = " ".repeat(line.to_string().len());
    let mark = format!("{}{}", " ".repeat(column - 1), "^".repeat(width));
    format!("  {line} | {shown}\n  {margin} | {mark}")
}
