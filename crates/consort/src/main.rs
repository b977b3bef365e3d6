//! The `consort` command.

mod command;
mod logging;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    command::Cli::parse().run()
}
