//! `consort config --defaults`: the whole table of settings as a config file to start from.

use std::fmt::Write as _;

use super::{Config, schema};

/// A config file with every setting: those with a default set to it, the others commented out.
pub fn commented_defaults() -> String {
    let mut text = String::from(
        "# Consort's settings, each with its default. Lines that begin with '#' and a name have none.\n\
         # Every setting can also be given as an environment variable, named beside it, or with\n\
         # `--set table.name=value`. Flags win over the environment, the environment over this file.\n",
    );
    let config = Config::default();
    for (table, meaning) in schema::TABLES {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n# {meaning}\n[{table}]\n");
        for setting in schema::all().filter(|setting| setting.table() == table) {
            text.push('\n');
            for line in setting.doc {
                let _ = writeln!(text, "# {line}");
            }
            let name = setting.leaf();
            let line = match (setting.show)(&config) {
                Some(value) => format!("{name} = {value}"),
                None => format!("# {name} = {}", setting.example),
            };
            let _ = writeln!(text, "{line:<44} # {}", setting.variable());
        }
    }
    text
}
