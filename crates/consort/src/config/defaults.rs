//! `consort config --defaults`: all settings as a config file to start from, made of their specs.

use std::fmt::Write as _;

use super::catalog::Catalog;
use super::part::{DeclarationSpec, ExampleSetting, ExampleSpec};
use super::spec::{Setting, SettingSpec, TableSpec};
use crate::parts::configs;

/// Where comments begin beside settings of examples, if these are short enough.
const COMMENTS_AT: usize = 41;

/// Beyond this width a comment stands below its setting.
const WIDTH: usize = 140;

const HEAD: &str = "\
# Consort's settings, each with its default. Lines that begin with '#' and a name have none.
# Every setting can also be given as an environment variable, named beside it, or with
# `--set table.name=value`. Flags win over the environment, the environment over this file.
";

const EXAMPLES: &str = "

# Streams of events, the views that are kept of them, and more: this file declares them, each by a table with
# its name. Take away the '#' and the blank at the beginning of each line below for examples. Their settings
# have their defaults, where they have one. A line with a second '#' can stand instead of one above it, or names a
# folder of yours.
";

/// A config file with every setting: those with a default set to it, the others commented out. Examples of the
/// tables that a user names follow.
pub fn commented_defaults() -> String {
    commented(&Catalog::new(&configs()))
}

pub(super) fn commented(catalog: &Catalog) -> String {
    let mut text = HEAD.to_owned();
    for table in catalog.tables() {
        write_table(&mut text, table);
    }
    text.push_str(EXAMPLES);
    for spec in catalog.declarations() {
        for example in spec.examples {
            text.push('\n');
            write_example(&mut text, spec, example);
        }
    }
    text
}

// Writing to a String cannot fail, so the results of `write!` are dropped.

fn write_table(text: &mut String, table: &'static TableSpec) {
    let _ = write!(text, "\n\n# {}\n[{}]\n", table.doc, table.name);
    for Setting { spec, table } in table.all() {
        text.push('\n');
        for line in spec.doc {
            let _ = writeln!(text, "# {line}");
        }
        let line = match spec.default_text() {
            Some(value) => format!("{} = {value}", spec.name),
            None => format!("# {} = {}", spec.name, spec.example_text()),
        };
        let _ = writeln!(text, "{line:<44} # {}", Setting { table, spec }.variable());
    }
}

fn write_example(text: &mut String, spec: &DeclarationSpec, example: &ExampleSpec) {
    let doc = if example.doc.is_empty() { spec.doc } else { example.doc };
    write_commented(text, &format!("# [{}.{}]", spec.table, example.name), &[doc]);
    for setting in example.settings {
        let shown = ShownSetting::new(spec, setting);
        let hash = if matches!(setting, ExampleSetting::Instead(_)) { "# # " } else { "# " };
        write_commented(text, &format!("{hash}{} = {}", shown.spec.name, shown.value), &shown.doc);
    }
}

/// A setting as an example shows it.
pub(super) struct ShownSetting {
    pub(super) spec: &'static SettingSpec,
    pub(super) value: String,
    pub(super) doc: Vec<&'static str>,
}

impl ShownSetting {
    /// A name without a spec is a mistake in the example.
    pub(super) fn new(declaration: &DeclarationSpec, setting: &ExampleSetting) -> ShownSetting {
        let name = setting.name();
        let Some(spec) = declaration.find(name) else {
            unreachable!(
                "an example of [{}.NAME] has '{name}', which has no spec",
                declaration.table
            )
        };
        let (value, doc) = match setting {
            ExampleSetting::With(_, value, doc) => (Some(*value), *doc),
            ExampleSetting::Shown(_) | ExampleSetting::Instead(_) => (None, ""),
        };
        ShownSetting {
            spec,
            value: value.map_or_else(|| spec.example_text(), str::to_owned),
            doc: if doc.is_empty() { spec.doc.to_vec() } else { vec![doc] },
        }
    }
}

impl ExampleSetting {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ExampleSetting::Shown(name)
            | ExampleSetting::With(name, ..)
            | ExampleSetting::Instead(name) => name,
        }
    }
}

/// A line with its comment beside it, or below it if it is long.
fn write_commented(text: &mut String, line: &str, doc: &[&str]) {
    let mut doc = doc.iter();
    let beside =
        doc.as_slice().first().filter(|first| line.len().max(COMMENTS_AT) + first.len() <= WIDTH);
    match beside {
        Some(first) => {
            doc.next();
            let _ =
                writeln!(text, "{line:<width$}# {first}", width = COMMENTS_AT.max(line.len() + 2));
        }
        None => {
            let _ = writeln!(text, "{line}");
        }
    }
    for line in doc {
        let _ = writeln!(text, "{:<COMMENTS_AT$}# {line}", "#");
    }
}
