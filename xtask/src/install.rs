//! The servers that tests and benchmarks run against, and what else they need, as Debian packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Programs and the packages they come in.
const PROGRAMS: [(&str, &str); 3] = [
    ("redis-server", "redis-server"),
    ("rabbitmq-server", "rabbitmq-server"),
    // The README's own examples use it.
    ("curl", "curl"),
];

/// Installs what is missing.
pub(crate) fn servers() -> Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !installed(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("» installing {}", missing.join(", "));
    let hint = || format!("as root, run: apt-get install {}", missing.join(" "));
    shell::run(apt().arg("update")).with_context(hint)?;
    let mut install = apt();
    install.args(["install", "--yes", "--no-install-recommends"]).args(&missing);
    shell::run(&mut install).with_context(hint)
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet=2").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    // Servers lie where only root looks by default.
    folders.extend([Path::new("/usr/sbin").into(), Path::new("/usr/local/sbin").into()]);
    folders.iter().any(|folder| folder.join(program).is_file())
}
