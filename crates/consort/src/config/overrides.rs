//! Settings from the environment and from flags, laid over the file's.

use std::ffi::OsString;

use super::Assignment;
use super::catalog::Catalog;
use super::problem::{Place, Problem};
use super::read::Raw;
use super::spec::Setting;
use super::suggest::nearest;

const PREFIX: &str = "CONSORT_";

/// Variables of the test bed, which share the prefix and are no settings.
const RESERVED: &str = "CONSORT_TESTBED_";

/// Variables of the commands that ask a node: they may stand in the environment of one that serves.
const OF_COMMANDS: [&str; 2] = ["CONSORT_URL", "CONSORT_TOKEN"];

/// A setting given on the command line.
#[derive(Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the user knows it: `--listen`, `--set`.
    name: String,
    /// The setting's path; `None` when the text after `--set` has none.
    path: Option<String>,
    value: String,
}

impl Flag {
    /// A flag that stands for one setting.
    pub fn new(name: &str, path: &str, value: impl Into<String>) -> Flag {
        Flag { name: name.to_owned(), path: Some(path.to_owned()), value: value.into() }
    }

    /// `--set path.to.key=value`
    pub fn set(text: &str) -> Flag {
        match text.split_once('=') {
            Some((path, value)) => Flag::new("--set", path.trim(), value),
            None => Flag { name: "--set".to_owned(), path: None, value: String::new() },
        }
    }
}

impl std::fmt::Debug for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flag")
            .field("name", &self.name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

pub(super) fn from_environment(
    environment: &[(OsString, OsString)],
    catalog: &Catalog,
    assignments: &mut Vec<Assignment>,
    problems: &mut Vec<Problem>,
) {
    for (name, value) in environment {
        let name = name.to_string_lossy();
        let other = name.starts_with(RESERVED) || OF_COMMANDS.contains(&&*name);
        if !name.starts_with(PREFIX) || other {
            continue;
        }
        let place = Place::Variable(name.clone().into_owned());
        let Some(setting) = catalog.settings().find(|setting| setting.variable() == name) else {
            problems.push(Problem::new(place, unknown_variable(&name, catalog)));
            continue;
        };
        match value.to_str() {
            Some(value) => {
                assignments.push(Assignment { setting, raw: Raw::Loose(value.to_owned()), place })
            }
            None => problems.push(Problem::new(place, "its value is not UTF-8 text")),
        }
    }
}

pub(super) fn from_flags(
    flags: &[Flag],
    catalog: &Catalog,
    assignments: &mut Vec<Assignment>,
    problems: &mut Vec<Problem>,
) {
    for flag in flags {
        let Some(path) = &flag.path else {
            let message = "needs a setting and a value: --set path.to.key=value, such as --set log.level=debug";
            problems.push(Problem::new(Place::Flag(flag.name.clone()), message));
            continue;
        };
        let place = Place::Flag(match flag.name.as_str() {
            "--set" => format!("--set {path}"),
            name => name.to_owned(),
        });
        match catalog.find(path) {
            Some(setting) => {
                assignments.push(Assignment {
                    setting,
                    raw: Raw::Loose(flag.value.clone()),
                    place,
                });
            }
            None => problems.push(Problem::new(place, unknown_path(path, catalog))),
        }
    }
}

fn unknown_variable(name: &str, catalog: &Catalog) -> String {
    let variables: Vec<String> = catalog.settings().map(|setting| setting.variable()).collect();
    let near = nearest(name, variables.iter().map(String::as_str));
    let table = name.split('_').nth(1).unwrap_or_default().to_ascii_lowercase();
    if let Some(wrong) = declared_in_file(&table, near.is_some(), catalog) {
        return wrong;
    }
    let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("no setting has this environment variable{hint}")
}

fn unknown_path(path: &str, catalog: &Catalog) -> String {
    let paths: Vec<String> = catalog.settings().map(|setting: Setting| setting.path()).collect();
    let near = nearest(path, paths.iter().map(String::as_str));
    let table = path.split('.').next().unwrap_or_default();
    if let Some(wrong) = declared_in_file(table, near.is_some(), catalog) {
        return wrong;
    }
    let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
    format!("unknown setting '{path}'{hint}")
}

/// For the settings of a declared table: they stand in the file alone. Where the table has settings for all its
/// declarations as well, one of those may be meant.
fn declared_in_file(table: &str, near: bool, catalog: &Catalog) -> Option<String> {
    let spec = catalog.declaration(table)?;
    let meant = near && catalog.table(table).is_some();
    (!meant).then(|| catalog.declared_in_file(spec))
}
