//! `config.md`: every setting.

use consort::config::relay::relay_reference;
use consort::config::{SettingReference, TableReference, reference};

use super::compare;

/// Settings with a flag of their own; `consort serve --help` is the other place that has them.
const FLAGS: [(&str, &str); 4] = [
    ("http.listen", "--listen"),
    ("engine.url", "--engine"),
    ("engine.broker", "--broker"),
    ("node.id", "--node"),
];

/// The same for `consort relay --help`.
const RELAY_FLAGS: [(&str, &str); 5] = [
    ("relay.udp", "--udp"),
    ("relay.tcp", "--tcp"),
    ("relay.http", "--http"),
    ("relay.allow", "--allow"),
    ("relay.form", "--form"),
];

const RELAY_HEAD: &str = "
## The file of a relay

`consort relay -c FILE` reads a file of its own, with the tables below and no others. It has no environment variables. Flags win
over the file, and `--to` adds targets that take all lines. [Relay](../parts/relay.md) shows a whole file.
";

const HEAD: &str = "
# Settings

Every setting of a node. `consort config --defaults` prints a config file with all of them, and `consort check`
reports every mistake in one.

Flags win over environment variables, those over the file, the file over the defaults. Each setting in a table with
a fixed name has an environment variable, and the flag `--set TABLE.NAME=VALUE`. Tables with `NAME` are declared in
the file alone; `NAME` is a name of your choice.

Lists in variables and flags are separated by commas. Durations are texts such as `\"500ms\"`, `\"3s\"` or `\"1h\"`;
sizes are texts such as `\"64KiB\"` or `\"8MiB\"`.
";

#[test]
fn the_page_of_settings_is_current() {
    let node = [HEAD, &sections(&reference())].concat();
    let relay = [RELAY_HEAD, &sections(&relay_reference())].concat();
    compare("config.md", &(node + &relay));
}

/// A list of the tables, and what each has.
fn sections(tables: &[TableReference]) -> String {
    let mut text = String::from("\n| table | settings |\n| --- | --- |\n");
    for table in tables {
        let names: Vec<String> = table.settings.iter().map(|s| format!("`{}`", s.name)).collect();
        text.push_str(&format!(
            "| [`[{0}]`](#{1}) | {2} |\n",
            table.name,
            anchor(&table.name),
            names.join(", ")
        ));
    }
    tables.iter().for_each(|table| text.push_str(&section(table)));
    text
}

#[test]
fn the_flags_of_settings_are_those_of_the_command_line() {
    let is_setting = |tables: &[TableReference], path: &str| {
        let mut paths = tables.iter().flat_map(|table| {
            table.settings.iter().map(|setting| format!("{}.{}", table.name, setting.name))
        });
        assert!(paths.any(|known| known == path), "there is no setting {path}");
    };
    let relay_help = super::command_line::help(&["relay"]);
    for (path, flag) in RELAY_FLAGS {
        is_setting(&relay_reference(), path);
        assert!(relay_help.contains(&format!("{flag} <")), "{flag} is not a flag of the relay");
    }
    let help = super::command_line::help(&["serve"]);
    for (path, flag) in FLAGS {
        is_setting(&reference(), path);
        let (table, name) = path.split_once('.').expect("a path has two parts");
        let described = help.lines().any(|line| line.contains(&format!("([{table}] {name})")));
        assert!(
            described && help.contains(&format!("{flag} <")),
            "{flag} is not the flag of {path}"
        );
    }
}

fn section(table: &TableReference) -> String {
    let mut text = format!("\n## `[{}]`\n\n{}\n", table.name, sentence(table.doc));
    for setting in &table.settings {
        text.push_str(&entry(table, setting));
    }
    text
}

fn entry(table: &TableReference, setting: &SettingReference) -> String {
    let path = format!("{}.{}", table.name.trim_matches(['[', ']']), setting.name);
    let mut text = format!("\n### `{path}`\n\n{}\n\n", sentence(&setting.doc.join(" ")));
    match &setting.default {
        Some(default) => text.push_str(&format!("- default: `{default}`\n")),
        None => text.push_str("- no default\n"),
    }
    if setting.default.as_deref() != Some(&setting.example) {
        text.push_str(&format!("- example: `{} = {}`\n", setting.name, setting.example));
    }
    if let Some(variable) = &setting.variable {
        text.push_str(&format!("- environment: `{variable}`\n"));
    }
    if let Some((_, flag)) = FLAGS.iter().chain(&RELAY_FLAGS).find(|(of, _)| *of == path) {
        text.push_str(&format!("- flag: `{flag}`\n"));
    }
    if setting.secret {
        text.push_str("- a secret: no message shows its value\n");
    }
    text
}

/// With a capital letter and a full stop.
fn sentence(doc: &str) -> String {
    let doc = escaped(doc.trim());
    let mut letters = doc.chars();
    let Some(first) = letters.next() else { return String::new() };
    let text = format!("{}{}", first.to_uppercase(), letters.as_str());
    match text.ends_with(['.', '!', '?']) {
        true => text,
        false => format!("{text}."),
    }
}

/// Without meaning for Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if "[]<*".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// As code forges write it.
fn anchor(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
        .flat_map(char::to_lowercase)
        .collect()
}
