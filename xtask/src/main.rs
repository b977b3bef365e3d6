//! The project's own commands, run as `cargo xtask …`. They need a Debian machine with Rust and
//! cargo-nextest, and install everything else themselves.

mod engines;
mod install;
mod servers;
mod shell;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};

use shell::cargo;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Consort's own commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything: format, clippy, and all tests on every engine. Installs the servers it needs.
    Test,
    /// Measures, beside peers and limits in the same run: a table, a plot and a JSON file in bench/.
    Bench {
        /// What to measure.
        #[arg(value_parser = ["engines"], default_value = "engines")]
        what: String,
        /// A short run to see that it works: its figures mean nothing.
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Bench { what, quick } => {
            install::servers()?;
            let mut bench = cargo(&["run", "--release", "--package", "consort-bench", "--", &what]);
            if quick {
                bench.arg("--quick");
            }
            shell::run(&mut bench)
        }
    }
}
