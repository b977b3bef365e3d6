//! Settings from the environment and from flags, laid over the file's.

use std::ffi::OsString;

use super::declared::Kind;
use super::problem::{Place, Problem};
use super::read::Raw;
use super::suggest::nearest;
use super::{Assignment, schema};

const PREFIX: &str = "CONSORT_";

/// Their names are free, so that no flag or variable could stand for their settings.
const DECLARED_IN_FILE: &str = "streams, views and sinks are declared in the config file";

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
        let Some(setting) = schema::all().find(|setting| setting.variable() == name) else {
            let table = name.split('_').nth(1).unwrap_or_default();
            if Kind::of(&table.to_ascii_lowercase()).is_some() {
                problems.push(Problem::new(place, DECLARED_IN_FILE));
                continue;
            }
            let variables: Vec<String> = schema::all().map(schema::Setting::variable).collect();
            let hint = nearest(&name, variables.iter().map(String::as_str));
            let hint = hint.map_or(String::new(), |near| format!("; did you mean {near}?"));
            problems.push(Problem::new(
                place,
                format!("no setting has this environment variable{hint}"),
            ));
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
        match schema::find(path) {
            Some(setting) => {
                assignments.push(Assignment {
                    setting,
                    raw: Raw::Loose(flag.value.clone()),
                    place,
                });
            }
            None if path.split('.').next().is_some_and(|table| Kind::of(table).is_some()) => {
                problems.push(Problem::new(place, DECLARED_IN_FILE));
            }
            None => {
                let hint = nearest(path, schema::all().map(|setting| setting.path));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
                problems.push(Problem::new(place, format!("unknown setting '{path}'{hint}")));
            }
        }
    }
}
