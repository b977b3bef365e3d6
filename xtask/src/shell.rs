//! Running other programs, telling which.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Cargo, the one that runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a program to its end; an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = describe(command);
    eprintln!("» {text}");
    let status = command.status().with_context(|| format!("cannot run {text}"))?;
    if !status.success() {
        bail!("{text}: {status}");
    }
    Ok(())
}

/// Runs a program and returns what it printed on standard output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let text = describe(command);
    let output = command.output().with_context(|| format!("cannot run {text}"))?;
    if !output.status.success() {
        bail!("{text}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
