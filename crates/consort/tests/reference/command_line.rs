//! `cli.md` and `exit-codes.md`: the help of every command, as the program prints it.

use std::process::Command;

use super::compare;

const HEAD: &str = "
# Command line

The help of every command, as `consort COMMAND --help` prints it.
";

const CODES: &str = "
# Exit codes

How the commands end. Anything that is not listed for a command is as in the first table.
";

/// The help of a command.
pub(crate) fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(command)
        .arg("--help")
        .output()
        .expect("consort runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("help is UTF-8");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// All commands, each behind the one that it belongs to.
fn commands() -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut at = 0;
    while at < found.len() {
        let command: Vec<String> = found[at].clone();
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = help(&words);
        let listed = text.split_once("\nCommands:\n").map_or("", |(_, listed)| listed);
        let mut insert = at + 1;
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap_or_default();
            // Lines that go on are indented deeper than names.
            if line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
                let mut sub = command.clone();
                sub.push(name.to_owned());
                found.insert(insert, sub);
                insert += 1;
            }
        }
        at += 1;
    }
    found
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let mut text = HEAD.to_owned();
    let commands = commands();
    assert!(commands.len() > 9, "some commands were not found: {commands:?}");
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let name = [&["consort"], &words[..]].concat().join(" ");
        text.push_str(&format!(
            "\n## {name}\n\n```text figure\n{}\n```\n",
            help(&words).trim_end()
        ));
    }
    compare("cli.md", &text);
}

#[test]
fn the_page_of_exit_codes_is_current() {
    let mut text = CODES.to_owned();
    let mut tables = 0;
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&words);
        let Some((_, codes)) = help.split_once("\nExit codes:\n") else { continue };
        let name = [&["consort"], &words[..]].concat().join(" ");
        text.push_str(&format!("\n## {name}\n\n| code | meaning |\n| --- | --- |\n"));
        for line in codes.lines().take_while(|line| line.starts_with("  ")) {
            let (code, meaning) = line.trim().split_once(' ').expect("a code and its meaning");
            let code: u8 = code.parse().expect("a code is a number");
            text.push_str(&super::row(&[&code.to_string(), meaning.trim()]));
        }
        tables += 1;
    }
    assert!(tables >= 4, "the tables of exit codes were not found");
    compare("exit-codes.md", &text);
}
