//! The project's own commands, run as `cargo xtask …`. They need a Debian machine with Rust and
//! cargo-nextest, and install everything else themselves.

mod dependencies;
mod engines;
mod install;
mod servers;
mod shell;
mod test;

use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};
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
    /// Checks licences, bans and sources of all dependencies against deny.toml.
    Dependencies,
    /// Writes the reference pages in docs/reference from the code.
    Docs,
    /// Measures, beside peers and limits in the same run: a table, a plot and a JSON file in bench/.
    Bench {
        /// What to measure.
        #[arg(value_parser = ["engines", "cluster", "lifts", "events", "once", "overload", "glue", "scaling"], default_value = "engines")]
        what: String,
        /// A short run to see that it works: its figures mean nothing.
        #[arg(long)]
        quick: bool,
    },
    /// Runs the cluster in a simulation, one seed after another, with faults of every kind.
    Sim {
        /// How many seeds to run.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first of them.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Runs just this one, and prints the end of its trace.
        #[arg(long, conflicts_with_all = ["seeds", "from"])]
        seed: Option<u64>,
        /// Runs each seed twice, and compares the traces.
        #[arg(long)]
        twice: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Dependencies => dependencies::check(),
        Command::Docs => {
            let mut write =
                cargo(&["test", "--quiet", "--package", "consort", "--test", "reference"]);
            shell::run(write.env("WRITE_DOCS", "1"))
        }
        Command::Bench { what, quick } => {
            install::servers()?;
            match what.as_str() {
                "lifts" => install::load()?,
                "events" => install::peers()?,
                "glue" => install::database()?,
                "db" => {
                    install::load()?;
                    install::peers()?;
                    install::database()?;
                }
                "once" => {
                    install::load()?;
                    install::caches()?;
                }
                _ => {}
            }
            // Consort is measured as the program that users start. Both in one go: built one after the other
            // they want their dependencies with other features, and each build throws away the other's.
            let mut both =
                vec!["build", "--release", "--package", "consort", "--package", "consort-bench"];
            if what == "scaling" {
                // The program whose nodes take a fixed time for each record.
                both.extend(["--package", "consort-tests"]);
            }
            shell::run(&mut cargo(&both))?;
            let mut bench = process::Command::new(released("consort-bench")?);
            bench.arg(&what);
            if quick {
                bench.arg("--quick");
            }
            shell::run(&mut bench)
        }
        Command::Sim { seeds, from, seed, twice } => {
            let mut sim = cargo(&["run", "--release", "--package", "consort-sim", "--"]);
            match seed {
                Some(seed) => sim.arg(format!("--seed={seed}")),
                None => sim.args([format!("--seeds={seeds}"), format!("--from={from}")]),
            };
            if twice {
                sim.arg("--twice");
            }
            shell::run(&mut sim)
        }
    }
}

/// A program of the release build, which lies beside the build of this one.
fn released(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let builds = own.ancestors().nth(2).context("this program lies in a target folder")?;
    Ok(builds.join("release").join(name))
}
