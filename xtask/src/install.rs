//! The servers that tests and benchmarks run against, and what else they need, as Debian packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Programs and the packages they come in.
type Programs = &'static [(&'static str, &'static str)];

/// What tests and benchmarks need.
const SERVERS: Programs = &[
    ("redis-server", "redis-server"),
    ("rabbitmq-server", "rabbitmq-server"),
    ("influxd", "influxdb"),
    // Its pages try to use a node that is not theirs.
    ("chromium", "chromium"),
    // The documents' own examples use them.
    ("curl", "curl"),
    ("jq", "jq"),
    ("amqp-publish", "amqp-tools"),
    // Each page of the documents runs in a network and a list of processes of its own.
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
];

/// What benchmarks need besides.
const LOAD: Programs = &[("wrk", "wrk")];

/// What the peers of a benchmark run on.
const PEERS: Programs = &[("node", "nodejs"), ("npm", "npm"), ("python3", "python3-venv")];

/// The caches that once stands beside. They are run as private instances; those that the packages start serve
/// nobody here.
const CACHES: Programs = &[("nginx", "nginx"), ("varnishd", "varnish")];

/// The database that glue stands beside, and its load program. Debian keeps them out of the folders of programs.
const DATABASE: Programs =
    &[("/usr/lib/postgresql/15/bin/postgres", "postgresql-15"), ("setpriv", "util-linux")];

/// Installs the servers that are missing.
pub(crate) fn servers() -> Result<()> {
    install(SERVERS)
}

/// Installs what makes load, if it is missing.
pub(crate) fn load() -> Result<()> {
    install(LOAD)
}

/// Installs what peers run on, if it is missing.
pub(crate) fn peers() -> Result<()> {
    install(PEERS)
}

/// Installs the caches that once stands beside, if they are missing.
pub(crate) fn caches() -> Result<()> {
    install(CACHES)
}

/// Installs the database that glue stands beside, if it is missing.
pub(crate) fn database() -> Result<()> {
    install(DATABASE)
}

fn install(programs: Programs) -> Result<()> {
    let missing: Vec<&str> = programs
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
